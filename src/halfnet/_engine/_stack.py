"""Several networks of one architecture as one: the seeds of a row train at once.

The networks are built from the library's layers, and the stack computes with the same arithmetic
(`halfnet._products`) on their parameters put side by side. Where all read the same inputs, as they
do in their first layers, their products are one large product.

Between layers a batch is (networks, features, n): so a product's result, and the gradient of its
weights, come out as they are needed and nothing is transposed.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import Parameter
from torch.nn import functional as F

from halfnet import _products
from halfnet._engine._low_rank import LowRank
from halfnet._engine._matmul import matmul
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._conv import HalfConv2d
from halfnet.nn._linear import HalfLinear


class Stack(nn.Module):
    """Networks of one architecture, with the numbers of one name in one tensor.

    Maps a batch (n, ...), which all networks read, to their outputs (networks, n, classes). Its
    parameters have the names of the networks', and a first dimension more.

    Args:
        models: `nn.Sequential`s of `nn.Linear`, `LowRank`, half layers, layers that learn nothing,
            and, before an `nn.Flatten`, convolutions. `models()` gives them back with what was
            learned.
    """

    def __init__(self, models: Iterable[nn.Sequential]) -> None:
        super().__init__()
        self._models = list(models)
        if not self._models:
            raise HalfnetValueError("models: expected at least one, got none")
        for model in self._models:
            if not isinstance(model, nn.Sequential):
                raise HalfnetTypeError(
                    f"models: expected nn.Sequential, got {type(model).__name__}"
                )
        for name, first in self._models[0].named_children():
            layers = [getattr(model, name, None) for model in self._models]
            if any(type(layer) is not type(first) for layer in layers):
                raise HalfnetValueError(
                    f"models: expected networks of one architecture, got others in {name!r}"
                )
            self.add_module(name, _stacked(first, layers))
        self._rest = list(self.children())
        self._front: _PooledConvolution | None = None
        if any(isinstance(layer, nn.Flatten) for layer in self._rest):
            split = [isinstance(layer, nn.Flatten) for layer in self._rest].index(True)
            front, self._rest = self._rest[:split], self._rest[split + 1 :]
            self._front = _front(front)

    def __len__(self) -> int:
        """Return the number of networks."""
        return len(self._models)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all networks."""
        # (features, n) where all networks read the same, (networks, features, n) from then on
        x = x.flatten(1).mT if self._front is None else self._front(x)
        for layer in self._rest:
            x = layer(x)
        return x.mT

    def round_draws(self, dtype: torch.dtype) -> None:
        """Round the draws of the fully connected layers once, rather than in every product."""
        for layer in self._rest:
            if isinstance(layer, _HalfLinear) and not layer.binary:
                for name, draw in layer.named_buffers():
                    layer.register_buffer(name, draw.to(dtype), persistent=False)

    def models(self) -> list[nn.Sequential]:
        """Return copies of the networks, with the stack's numbers."""
        with torch.no_grad():
            for name, numbers in self.named_parameters():
                place, _, key = name.rpartition(".")
                for model, own in zip(self._models, numbers, strict=True):
                    parameter = getattr(model.get_submodule(place), key)
                    if parameter is not None:  # a rank of 0 has no B
                        parameter.copy_(own[..., : parameter.shape[-1]])
        return copy.deepcopy(self._models)


def _stacked(first: nn.Module, layers: Sequence[Any]) -> nn.Module:
    if stacked := _LEARNING.get(type(first)):
        return stacked(layers)
    if next(first.parameters(), None) is not None or next(first.buffers(), None) is not None:
        known = ", ".join(cls.__name__ for cls in _LEARNING)
        raise HalfnetTypeError(f"models: expected layers of {known}, got {type(first).__name__}")
    return first


class _Stacked(nn.Module):
    """The parameters of the same layer in each network under their names, and what is frozen."""

    def __init__(self, layers: Sequence[nn.Module], frozen: tuple[str, ...] = ()) -> None:
        super().__init__()
        for name in (*layers[0]._parameters, *frozen):
            parts = [getattr(layer, name) for layer in layers]
            whole = _side_by_side(name, parts)
            if name in frozen:
                self.register_buffer(name, whole, persistent=False)
            else:
                learns = parts[0] is None or parts[0].requires_grad
                self.register_parameter(name, None if whole is None else Parameter(whole, learns))


def _side_by_side(name: str, parts: Sequence[Tensor | None]) -> Tensor | None:
    """Return the parts of a name as one tensor, None if there are none.

    B and z of a smaller rank get columns of 0: where z is 0, B has no gradient and stays 0.
    """
    present = [part.detach() for part in parts if part is not None]
    if not present:
        return None
    widest = max(present, key=lambda part: part.shape[-1])
    if len(present) == len(parts) and all(part.shape == widest.shape for part in present):
        return torch.stack(present)
    if name not in ("B", "z") or any(part.shape[:-1] != widest.shape[:-1] for part in present):
        raise HalfnetValueError(f"models: expected layers of one size, got others in {name!r}")
    whole = widest.new_zeros(len(parts), *widest.shape)
    for own, part in zip(whole, parts, strict=True):
        if part is not None:
            own[..., : part.shape[-1]] = part.detach()
    return whole


def _times(rows: Tensor, x: Tensor) -> Tensor:
    """Return rows . x for the rows (networks, m, d) of each network, (networks, m, n).

    `x` is (networks, d, n), or (d, n) where all networks read the same: then it is one product.
    """
    if x.dim() == 3:
        return matmul(rows, x)
    return matmul(rows.flatten(0, 1), x).view(*rows.shape[:2], -1)


class _Linear(_Stacked):
    weight: Tensor
    bias: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        out = _times(self.weight, x)
        return out if self.bias is None else out + self.bias.unsqueeze(-1)


class _LowRank(_Stacked):
    U: Tensor
    V: Tensor
    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return self.V.mT @ _times(self.U.mT, x) + self.bias.unsqueeze(-1)


class _Half(_Stacked):
    B: Tensor | None
    sigma: Tensor | None
    u: Tensor | None
    u0: Tensor | None
    z: Tensor | None
    eps: Tensor | None

    def __init__(self, layers: Sequence[HalfLinear | HalfConv2d]) -> None:
        super().__init__(layers, frozen=("z", "eps"))
        self.binary, self.units = layers[0].binary, layers[0].units

    def _directions(self) -> Tensor:
        z, eps = (
            None if draw is None else _products.at_least_float32(draw)
            for draw in (self.z, self.eps)
        )
        r = _products.directions(self.B, self.sigma, z, eps)
        if not self.binary:
            return r
        spread = self.sigma
        if spread is None and self.eps is not None:
            spread = torch.ones_like(self.eps[:, 0])
        return _products.signs(r, _products.variances(self.B, spread).sqrt())


class _WholeHalfLinear(Function):
    """u (r . x) + u0 where no part is lacking, for inputs (d, n) that all networks read.

    What autograd would do in seven steps, with sums in place and no gradient transposed: such a
    layer of few units is done so soon that the steps themselves take time.
    """

    @staticmethod
    def forward(
        ctx: Any,
        B: Tensor,
        sigma: Tensor,
        u: Tensor,
        u0: Tensor,
        z: Tensor,
        eps: Tensor,
        x: Tensor,
    ) -> Tensor:
        r = (eps * sigma.unsqueeze(-2)).baddbmm_(z, B.mT)
        a = _times(r, x)
        ctx.save_for_backward(u, z, eps, x, a)
        return (a * u.unsqueeze(-1)).add_(u0.unsqueeze(-1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (u, z, eps, x, a) = grads, ctx.saved_tensors
        r = _times(grad * u.unsqueeze(-1), x.mT)
        to_B = r.mT @ z
        return to_B, r.mul_(eps).sum(-2), (grad * a).sum(-1), grad.sum(-1), None, None, None


class _HalfLinear(_Half):
    def _project(self, x: Tensor) -> Tensor:
        rows = x if x.dim() == 2 else x[0]
        factors = self.eps is None or _products.prefers_factored(rows.mT, self.units)
        if self.binary or not factors:
            return _times(self._directions(), x)
        low_rank = None
        if self.B is not None and self.z is not None:
            low_rank = self.z @ _times(self.B.mT, x)
        if self.eps is None:
            assert low_rank is not None
            return low_rank
        scaled = x if self.sigma is None else x * self.sigma.unsqueeze(-1).to(x.dtype)
        noise = _times(self.eps, scaled)
        return noise if low_rank is None else noise + low_rank

    def forward(self, x: Tensor) -> Tensor:
        parts = (self.B, self.sigma, self.u, self.u0, self.z, self.eps)
        full = x.dtype in (torch.float32, torch.float64)
        plain = full and not self.binary and not torch.is_autocast_enabled("cpu")
        if plain and x.dim() == 2 and all(part is not None for part in parts):
            return _WholeHalfLinear.apply(*parts, x)  # type: ignore[no-any-return, no-untyped-call]
        a = self._project(x)
        if self.u is None or self.u0 is None:
            return a
        u, u0 = (part.unsqueeze(-1).to(a.dtype) for part in (self.u, self.u0))
        return a * u + u0  # torch.addcmul is slow where it broadcasts


class _Conv2d(_Stacked):
    weight: Tensor
    bias: Tensor | None

    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__(layers)
        self.padding = _padding(layers[0])

    def filters(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights (networks, filters, channels, height, width), and the biases."""
        return self.weight, self.bias


class _HalfConv2d(_Half):
    def __init__(self, layers: Sequence[HalfConv2d]) -> None:
        super().__init__(layers)
        self.padding = _padding(layers[0])
        self._layout = layers[0].weight.shape[1:]

    def filters(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights (networks, filters, channels, height, width), and the biases."""
        r = self._directions()
        weight = r if self.u is None else r * self.u.unsqueeze(-1)
        return weight.unflatten(-1, self._layout), self.u0


def _padding(layer: nn.Conv2d | HalfConv2d) -> tuple[int, int]:
    plain = layer.groups == 1 and layer.padding_mode == "zeros"
    if not plain or {*layer.stride, *layer.dilation} != {1} or isinstance(layer.padding, str):
        raise HalfnetValueError(
            "models: expected convolutions of stride and dilation 1, zero-padded by numbers"
        )
    height, width = layer.padding
    return height, width


def _front(layers: list[nn.Module]) -> "_PooledConvolution | None":
    """Return what stands before the first flattening, or None where nothing does."""
    if not layers:
        return None
    kinds = [type(layer) for layer in layers if not isinstance(layer, nn.Unflatten)]
    if (
        len(kinds) != 3
        or not issubclass(kinds[0], _Conv2d | _HalfConv2d)
        or kinds[1:] != [nn.MaxPool2d, nn.ReLU]
        or layers[-2].kernel_size != 2
    ):
        raise HalfnetTypeError(
            "models: expected a convolution, MaxPool2d(2) and ReLU before Flatten, got "
            + ", ".join(kind.__name__.lstrip("_") for kind in kinds)
        )
    return _PooledConvolution(layers[-3])


class _PooledConvolution:
    """Convolution, 2x2 max pooling and ReLU of all networks, (networks, features, n).

    The four windows of pixels that a pooled number comes from overlap. All pixels that they cover
    are laid out once, for all networks, and one product with each filter at its four places makes
    the numbers to compare. Several times faster than to convolve and then to pool.
    """

    def __init__(self, convolution: Any) -> None:
        self._convolution = convolution

    def __call__(self, x: Tensor) -> Tensor:
        weight, bias = self._convolution.filters()
        high, wide = self._convolution.padding
        height, width = weight.shape[-2:]
        images = x if x.dim() == 4 else x.unsqueeze(1)
        if torch.is_autocast_enabled("cpu"):
            images, weight = (t.to(torch.get_autocast_dtype("cpu")) for t in (images, weight))
        images = F.pad(images.permute(1, 2, 3, 0), (0, 0, wide, wide, high, high))
        covered = images.unfold(1, height + 1, 2).unfold(2, width + 1, 2)
        rows, columns, n = covered.shape[1:4]
        covered = covered.permute(0, 4, 5, 1, 2, 3).reshape(-1, rows * columns * n)
        places = [
            F.pad(weight, (right, 1 - right, down, 1 - down)) for down in (0, 1) for right in (0, 1)
        ]
        pooled: Tensor = _LargestOfFour.apply(  # type: ignore[no-untyped-call]
            torch.stack(places, 1).flatten(3), covered
        )
        if bias is not None:
            pooled = pooled + bias.unsqueeze(-1).to(pooled.dtype)
        return pooled.relu().view(len(pooled), -1, n)


class _LargestOfFour(Function):
    """The largest of four products, for filters (networks, 4, filters, k) and pixels (k, n).

    One network at a time, so that what is compared stays in a processor's cache and the same
    memory serves all of them.
    """

    @staticmethod
    def forward(ctx: Any, filters: Tensor, pixels: Tensor) -> Tensor:
        networks, _, count, _ = filters.shape
        largest = pixels.new_empty(networks, count, pixels.shape[1])
        which = torch.empty(largest.shape, dtype=torch.uint8)
        for network in range(networks):
            products = _as_windows(filters[network].flatten(0, 1) @ pixels)
            values, index = F.max_pool2d(products, 2, return_indices=True)
            largest[network] = values.view(count, -1)
            which[network] = index.view(count, -1)
        ctx.save_for_backward(filters, pixels, which)
        return largest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        filters, pixels, which = ctx.saved_tensors
        gradient = torch.empty_like(filters)
        products = _as_windows(pixels.new_empty(4 * filters.shape[2], pixels.shape[1]))
        for network, incoming in enumerate(grads[0]):
            back = torch.ops.aten.max_pool2d_with_indices_backward(
                _as_pooled(incoming), products, [2, 2], [2, 2], [0, 0], [1, 1], False,
                _as_pooled(which[network].long()),
            )  # fmt: skip
            back = back.permute(0, 2, 3, 1).reshape(-1, pixels.shape[1])
            gradient[network] = (back @ pixels.mT).view(filters.shape[1:])
        return gradient, None


def _as_windows(products: Tensor) -> Tensor:
    """View products (4 * filters, n) as 2x2 pixels with their channels side by side."""
    return products.view(1, 2, 2, -1).permute(0, 3, 1, 2)


def _as_pooled(x: Tensor) -> Tensor:
    """View (filters, n) as what pooling makes of such windows."""
    return x.reshape(1, 1, 1, -1).permute(0, 3, 1, 2)


_LEARNING: dict[type[nn.Module], Callable[[Sequence[Any]], nn.Module]] = {
    nn.Linear: _Linear,
    nn.Conv2d: _Conv2d,
    LowRank: _LowRank,
    HalfLinear: _HalfLinear,
    HalfConv2d: _HalfConv2d,
}
