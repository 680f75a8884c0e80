"""Fits with the library's one engine: what the estimators add are weights, and when to stop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from halfnet._engine._batches import Batches, Rows
from halfnet._engine._recipe import Recipe
from halfnet._engine._training import NotFiniteError, Training
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn._progress import Progress
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._targets import Targets


@dataclass(frozen=True, eq=False)
class Task:
    """Scaled rows, what is to be learned of them, and what they count: all 1 where None."""

    x: Array | Rows
    targets: Targets
    weight: Array | None = None
    """(n,), or (networks, n) where rows count otherwise for each network."""
    dtype: Any = np.float32
    """What the networks compute in."""


@dataclass(frozen=True)
class Stopping:
    """Stop where the loss on rows that were kept apart has not fallen for some epochs."""

    held_out: Task
    patience: int


@dataclass(frozen=True, eq=False)
class Run:
    """What a training left behind."""

    training: Training
    losses: list[float]
    """The mean loss of each epoch."""
    held_out: list[float]
    """The share of right answers on the rows kept apart after each epoch, from 0 to 1."""


def start(
    networks: Sequence[nn.Sequential],
    recipe: Recipe,
    task: Task,
    *,
    seed: int,
    tied: Sequence[str] = (),
) -> Training:
    """Return networks at the beginning of their way through a task."""
    return Training(
        networks,
        recipe,
        task.x,
        task.targets.y,
        loss=task.targets.loss,
        weights=task.weight,
        tied=tied,
        seed=seed,
    )


def run(training: Training, *, stopping: Stopping | None = None, verbose: bool = False) -> Run:
    """Train for the recipe's epochs, or until `stopping` says so: then go back to the best one.

    Raises:
        HalfnetValueError: The numbers grew beyond what floats can hold.
    """
    epochs = training.recipe.epochs
    progress = Progress(verbose, epochs, len(training.batches))
    on_step = progress.step if verbose else None
    held_out = None if stopping is None else rows_of(training, stopping.held_out)
    losses: list[float] = []
    scores: list[float] = []
    best, best_epoch, numbers = float("inf"), 0, training.optimizer.numbers()
    for epoch in range(epochs):
        try:
            told = training.run_epoch(on_step)
        except NotFiniteError as error:
            raise HalfnetValueError(
                "learning_rate: expected one that training converges with, got "
                f"{training.recipe.rate:g}: {error}"
            ) from None
        losses.append(_mean(told.loss))
        if stopping is not None and held_out is not None:
            found = training.evaluate(held_out)
            scores.append(_mean(found.accuracy) / 100)
            if _mean(found.loss) < best:
                best, best_epoch, numbers = _mean(found.loss), epoch, training.optimizer.numbers()
            elif epoch - best_epoch >= stopping.patience:
                break
        progress.epoch(losses[-1], scores[-1] if scores else None)
    progress.close()
    if stopping is not None:
        training.optimizer.set_numbers(numbers)
    return Run(training, losses, scores)


def rows_of(training: Training, task: Task) -> Batches:
    """Return a task's rows for `Training.evaluate`."""
    return training.batches.others(task.x, task.targets.y, task.weight)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def state(training: Training) -> dict[str, Any]:
    """Return the optimizer's memory, for a partial_fit to go on from."""
    return {name: value.clone() for name, value in training.optimizer.state().items()}
