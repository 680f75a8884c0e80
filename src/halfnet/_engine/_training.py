"""The training loop: Adam on several networks of one architecture at once."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfnet._engine._adam import Adam
from halfnet._engine._batches import Batches
from halfnet._engine._recipe import Recipe
from halfnet._engine._stack import Stack
from halfnet.exceptions import HalfnetError

_EVALUATED = 500  # images at a time, where no gradient is kept
_SCORED = 32  # batches at a time: small sums would take longer than what they add up


class NotFiniteError(HalfnetError):
    """A loss became infinite or no number."""


class EpochScores(NamedTuple):
    """Mean loss and accuracy in percent of each network over an epoch's batches, as trained on."""

    loss: list[float]
    accuracy: list[float]


class Training:
    """Networks on their way through a recipe's epochs.

    Args:
        models: Of one architecture; they are trained side by side, on the same batches.
        recipe: How.
        images: To learn from, uint8 or floating point, (n, ...).
        labels: Their classes, (n,).
        brightest: What a pixel of uint8 images is divided by.
    """

    def __init__(
        self,
        models: Iterable[nn.Sequential],
        recipe: Recipe,
        images: npt.NDArray[np.generic],
        labels: npt.NDArray[np.generic],
        *,
        brightest: int = 255,
    ) -> None:
        self.stack = Stack(models)
        self.recipe = recipe
        if recipe.precision == "bfloat16":
            self.stack.round_draws(torch.bfloat16)
        self.batches = Batches(
            images,
            labels,
            size=recipe.batch_size,
            augmentation=recipe.augmentation,
            brightest=brightest,
            scaling=recipe.scaling,
        )
        self.optimizer = Adam(self.stack)
        self.epochs_done = 0

    def run_epoch(self, on_step: Callable[[int], None] | None = None) -> EpochScores:
        """Train for one epoch; `on_step` is told the number of batches done."""
        count, steps = len(self.stack), len(self.batches)
        loss, correct, seen = torch.zeros(count), torch.zeros(count), 0
        untold: list[tuple[Tensor, Tensor, Tensor]] = []
        for done, (x, y) in enumerate(self.batches.epoch(self.epochs_done), 1):
            rate = self._rate(self.epochs_done * steps + done - 1)
            untold.append((*self._step(x, y, rate), y))
            if len(untold) == _SCORED or done == steps:
                losses, right = self._scores(untold, done)
                loss += losses
                correct += right
                seen += sum(len(labels) for *_, labels in untold)
                untold.clear()
            if on_step is not None:
                on_step(done)
        for name, parameter in self.stack.named_parameters():  # the last step may have spoilt them
            self._check(name, parameter, steps)
        self.epochs_done += 1
        return EpochScores((loss / seen).tolist(), (100 * correct / seen).tolist())

    def _scores(
        self, batches: Sequence[tuple[Tensor, Tensor, Tensor]], done: int
    ) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the right answers of each network on the last batches."""
        losses, outputs, y = (torch.cat(parts, -1) for parts in zip(*batches, strict=True))
        if not math.isfinite(losses.sum().item()):
            for step, (loss, *_) in enumerate(batches, done - len(batches) + 1):
                self._check("the loss", loss, step)
        # Is its own class's output the largest? Much faster than to ask which one is.
        own = outputs.gather(1, y.expand(len(outputs), 1, -1)).squeeze(1)
        return losses.sum(-1), (own == outputs.amax(1)).sum(-1)

    def _check(self, what: str, values: Tensor, done: int) -> None:
        """Raise if some network's values are not finite after so many batches of the epoch."""
        if math.isfinite(values.sum().item()):  # a network's infinity or NaN is the sum's
            return
        finite = values.isfinite().reshape(len(values), -1).all(1).tolist()
        if not all(finite):
            step = self.epochs_done * len(self.batches) + done
            raise NotFiniteError(
                f"{what} of network {finite.index(False)} is no finite number any more at step "
                f"{step} (epoch {self.epochs_done + 1})"
            )

    def _step(self, x: Tensor, y: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Take a step; return the losses (networks, n) and the outputs (networks, classes, n)."""
        count, n = len(self.stack), len(y)
        with self._precision():
            # (networks, classes, n), which is how it is computed and several times faster to read
            outputs = self.stack(x).mT
        outputs = outputs.float()
        losses = F.cross_entropy(outputs, y.expand(count, n), reduction="none")
        self.optimizer.zero_grad()
        # Each network's gradient is that of its own mean loss: nothing is shared to sum over.
        losses.backward(losses.new_full((), 1 / n).expand(count, n))
        self.optimizer.step(rate)
        return losses.detach(), outputs.detach()

    def _rate(self, step: int) -> float:
        if self.recipe.schedule == "constant":
            return self.recipe.rate
        steps = self.recipe.epochs * len(self.batches)
        warm = self.recipe.warmup * steps
        if step < warm:
            factor = (step + 1) / (warm + 1)
        else:
            factor = 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, steps - warm)))
        return self.recipe.rate * factor

    def _precision(self) -> AbstractContextManager[None]:
        if self.recipe.precision == "float32":
            return nullcontext()
        return torch.autocast("cpu", torch.bfloat16)

    def accuracy(
        self, images: npt.NDArray[np.generic], labels: npt.NDArray[np.generic]
    ) -> list[float]:
        """Return each network's accuracy on unchanged images, in percent."""
        correct = torch.zeros(len(self.stack))
        whole, classes = torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))
        with torch.inference_mode(), self._precision():
            for x, y in zip(whole.split(_EVALUATED), classes.split(_EVALUATED), strict=True):
                answers = self.stack(self.batches.pixels(x)).argmax(-1)
                correct += (answers == y).sum(-1)
        return (100 * correct / len(labels)).tolist()

    # -- to stop and go on -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what a new Training of the same arguments needs to go on from here."""
        return {
            "epochs_done": self.epochs_done,
            "stack": self.stack.state_dict(),
            "optimizer": self.optimizer.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.stack.load_state_dict(state["stack"])
        self.optimizer.load_state(state["optimizer"])
        self.epochs_done = state["epochs_done"]
