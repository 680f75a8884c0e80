"""The training loop: Adam on several networks of one architecture at once."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from halfnet import _products
from halfnet._engine._adam import Adam
from halfnet._engine._batches import Batch, Batches, Rows
from halfnet._engine._losses import CrossEntropy, Loss
from halfnet._engine._recipe import Recipe
from halfnet._engine._short import ShortNetwork
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


class _Told(NamedTuple):
    """What a step leaves behind to be added up. The inputs are not among it: they are large."""

    losses: Tensor
    outputs: Tensor
    y: Tensor
    weight: Tensor | None


class Training:
    """Networks on their way through a recipe's epochs.

    Args:
        models: Of one architecture; they are trained side by side, on the same batches.
        recipe: How.
        images: To learn from, uint8 or floating point, (n, ...), or `Rows`.
        labels: Their classes, (n,), or numbers, (n, outputs).
        brightest: What a pixel of uint8 images is divided by.
        loss: What is to become small.
        weights: What rows count, (n,), or (networks, n); with a mean of 1 the rate keeps its
            meaning.
        tied: Names of parameters that all networks have in common. They begin alike, and each step
            changes them by the mean of the networks' gradients.
        seed: Of the batches' order.
    """

    def __init__(
        self,
        models: Iterable[nn.Sequential],
        recipe: Recipe,
        images: npt.NDArray[np.generic] | Rows,
        labels: npt.NDArray[np.generic],
        *,
        brightest: int = 255,
        loss: Loss | None = None,
        weights: npt.NDArray[np.floating[Any]] | None = None,
        tied: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.stack = Stack(models)
        self.loss = CrossEntropy() if loss is None else loss
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
            weights=weights,
            seed=seed,
            device=next(self.stack.parameters()).device.type,
        )
        self.optimizer = Adam(self.stack)
        plain = recipe.precision == "float32" and ShortNetwork.fits(self.stack)
        self._short = ShortNetwork(self.stack) if plain else None
        self._tied = [self.stack.get_parameter(name) for name in tied]
        self.epochs_done = 0

    def run_epoch(self, on_step: Callable[[int], None] | None = None) -> EpochScores:
        """Train for one epoch; `on_step` is told the number of batches done."""
        count, steps = len(self.stack), len(self.batches)
        loss, correct, seen = torch.zeros(count), torch.zeros(count), 0
        untold: list[_Told] = []
        for done, batch in enumerate(self.batches.epoch(self.epochs_done), 1):
            rate = self._rate(self.epochs_done * steps + done - 1)
            untold.append(_Told(*self._step(batch, rate), batch.y, batch.weight))
            if len(untold) == _SCORED or done == steps:
                losses, right = self._scores(untold, done)
                loss += losses
                correct += right
                seen += sum(told.losses.shape[-1] for told in untold)
                untold.clear()
            if on_step is not None:
                on_step(done)
        for name, parameter in self.stack.named_parameters():  # the last step may have spoilt them
            self._check(name, parameter, steps)
        self.epochs_done += 1
        return EpochScores((loss / seen).tolist(), (100 * correct / seen).tolist())

    def _scores(self, untold: Sequence["_Told"], done: int) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the right answers of each network on the last batches."""
        losses, outputs, y = (torch.cat(parts, -1) for parts in list(zip(*untold, strict=True))[:3])
        if not math.isfinite(losses.sum().item()):
            for step, told in enumerate(untold, done - len(untold) + 1):
                self._check("the loss", told.losses, step)
        right = self.loss.right(outputs, y)
        weights = [told.weight for told in untold if told.weight is not None]
        if weights:
            weight = torch.cat(weights, -1)
            losses, right = losses * weight, right * weight
        return losses.sum(-1).cpu(), right.sum(-1).cpu()

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

    def _step(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
        """Take a step; return the losses (networks, n) and the outputs (networks, classes, n)."""
        n = len(batch.x)
        if self._short is not None:
            losses, outputs = self._short_step(self._short, batch)
        else:
            outputs = self._outputs(batch.x)
            losses = self.loss(outputs, batch.y)
            self.optimizer.zero_grad()
            # Each network's gradient is that of its own mean loss: nothing is shared to sum over.
            share = losses.new_full((), 1 / n) if batch.weight is None else batch.weight / n
            losses.backward(share.expand(losses.shape))
        for parameter in self._tied:
            assert parameter.grad is not None
            parameter.grad.copy_(parameter.grad.mean(0, keepdim=True).expand_as(parameter))
        self.optimizer.step(rate)
        return losses.detach(), outputs.detach()

    @torch.no_grad()
    def _short_step(self, short: ShortNetwork, batch: Batch) -> tuple[Tensor, Tensor]:
        """Set the gradients of a batch; return losses and outputs."""
        n = len(batch.x)
        told: list[Tensor] = []

        def gradient(outputs: Tensor) -> Tensor:
            share = outputs.new_full((), 1 / n) if batch.weight is None else batch.weight / n
            losses, slope = self.loss.with_gradient(outputs, batch.y, share)
            told.extend((losses, outputs))
            return slope

        self.optimizer.set_gradients(short.step(batch.x, gradient))
        losses, outputs = told
        return losses, outputs

    def _outputs(self, x: Tensor) -> Tensor:
        with self._precision():
            # (networks, classes, n), which is how it is computed and several times faster to read
            return _products.at_least_float32(self.stack(x).mT)

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
        return self.evaluate(self.batches.others(images, labels)).accuracy

    @torch.inference_mode()
    def evaluate(self, batches: Batches) -> EpochScores:
        """Return the mean loss and accuracy of each network, by what rows weigh, on scaled rows."""
        count = len(self.stack)
        loss, correct, seen = torch.zeros(3, count)
        for batch in batches.in_order(_EVALUATED):
            outputs = self._outputs(batch.x)
            losses, right = self.loss(outputs, batch.y), self.loss.right(outputs, batch.y)
            weight = losses.new_ones(()) if batch.weight is None else batch.weight
            loss += (losses * weight).sum(-1).cpu()
            correct += (right * weight).sum(-1).cpu()
            seen += weight.expand_as(losses).sum(-1).cpu()
        return EpochScores((loss / seen).tolist(), (100 * correct / seen).tolist())

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
