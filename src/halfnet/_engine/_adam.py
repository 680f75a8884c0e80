"""Adam on all parameters of a module at once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.adam import adam


class Adam:
    """Adam, as torch computes it, with a module's parameters kept as parts of one vector.

    Of small networks, `torch.optim.Adam` takes longer to look through the parameters than to change
    them.

    Args:
        module: Its parameters that require a gradient are learned.
        weight_decay: Times a parameter is added to its gradient.
    """

    def __init__(self, module: nn.Module, weight_decay: float = 0.0) -> None:
        self._weight_decay = weight_decay
        parameters = [p for p in module.parameters() if p.requires_grad]
        self._numbers = parameters_to_vector(parameters).detach()
        vector_to_parameters(self._numbers, parameters)
        self._gradient, self._mean, self._square = self._numbers.new_zeros(3, len(self._numbers))
        self._steps = self._numbers.new_zeros((), dtype=torch.float32)
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, part in zip(parameters, self._gradient.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        self._gradient.zero_()

    def set_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Set the gradients of all parameters, in their order."""
        torch.cat([gradient.flatten() for gradient in gradients], out=self._gradient)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Change the parameters by their gradients."""
        adam(
            [self._numbers], [self._gradient], [self._mean], [self._square], [], [self._steps],
            fused=True, amsgrad=False, maximize=False, lr=rate, beta1=0.9, beta2=0.999, eps=1e-8,
            weight_decay=self._weight_decay,
        )  # fmt: skip

    def numbers(self) -> Tensor:
        """Return all that is learned, as it is now."""
        return self._numbers.clone()

    def set_numbers(self, numbers: Tensor) -> None:
        """Go back to what `numbers` returned."""
        self._numbers.copy_(numbers)

    def state(self) -> dict[str, Tensor]:
        """Return what another one, of the same module, needs to go on from here."""
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from where `state` was taken."""
        for name, own in self.state().items():
            own.copy_(state[name])
