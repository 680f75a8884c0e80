"""The rank by cross-validation: all candidates and folds are one stack, trained together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, check_cv

from halfnet import _checks
from halfnet._draws import derived_seed
from halfnet._engine._recipe import Recipe
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn import _targets, _training
from halfnet.sklearn._network import Design, build
from halfnet.sklearn._scaling import Array
from halfnet.sklearn._training import Task

_LARGEST = 64


@dataclass(frozen=True, eq=False)
class RankPath:
    """How each rank did on rows that it was not trained on."""

    ranks: Array
    """The candidates, rising."""
    scores: Array
    """The accuracy or the explained share of the variance, (candidates, folds)."""

    @property
    def mean(self) -> Array:
        """Of each candidate over the folds."""
        mean: Array = self.scores.mean(1)
        return mean

    @property
    def std(self) -> Array:
        """Of each candidate over the folds."""
        std: Array = self.scores.std(1)
        return std

    @property
    def best(self) -> int:
        """The rank of the best mean; of equal ones the smallest."""
        return int(self.ranks[np.argmax(self.mean)])


def candidates(fan_ins: Sequence[int]) -> list[int]:
    """Return the ranks to try: powers of two up to 64, clipped to the widest layer's inputs."""
    most = min(_LARGEST, max(fan_ins))
    ranks = [2**power for power in range(_LARGEST.bit_length()) if 2**power < most]
    return [*ranks, most]


def clipped(rank: int, fan_ins: Sequence[int]) -> tuple[int, ...]:
    """Return the rank for each layer: as many as it has inputs where they are fewer."""
    return tuple(min(rank, fan_in) for fan_in in fan_ins)


def folds(cv: Any, task: Task, seed: int) -> list[tuple[Array, Array]]:
    """Return the rows to learn from and to score on of each fold, shuffled where `cv` is a number.

    Raises:
        HalfnetValueError: There are too few rows, or `cv` is something else.
    """
    y, kind = task.targets.y, task.targets.kind
    rows = len(y)
    if isinstance(cv, int | np.integer):
        count = min(_checks.integer("cv", cv, 2), rows)
        if count < 2:
            raise HalfnetValueError(
                f"rank: expected at least 2 rows to choose it by cross-validation, got {rows}"
            )
        fewest = min(np.unique(y, return_counts=True)[1]) if kind == _targets.CLASSES else 0
        split = StratifiedKFold if fewest > 1 else KFold
        count = min(count, fewest) if fewest > 1 else count
        splitter = split(count, shuffle=True, random_state=seed % 2**32)
    elif hasattr(cv, "split") or isinstance(cv, Iterable):
        splitter = check_cv(cv)
    else:
        raise HalfnetValueError(
            f"cv: expected a number of folds, a splitter or a list of splits, got {cv!r}"
        )
    found = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(np.zeros((rows, 1)), y)]
    if not found or any(not len(a) or not len(b) for a, b in found):
        raise HalfnetValueError("cv: expected folds with rows to learn from and rows to score on")
    return found


def rank_path(
    design: Design,
    fan_ins: Sequence[int],
    task: Task,
    splits: Sequence[tuple[Array, Array]],
    recipe: Recipe,
    *,
    seed: int,
    verbose: bool = False,
) -> RankPath:
    """Return the path of scores, from networks that all train on the same batches.

    In each network the rows of its fold count nothing; in the smaller ranks the columns of z that
    they lack are 0. All read rows of one scaling, which knows nothing of the targets.
    """
    ranks = candidates(fan_ins)
    networks = [
        build(replace(design, ranks=clipped(rank, fan_ins)), derived_seed(seed, f"fold {fold}"))
        for rank in ranks
        for fold in range(len(splits))
    ]
    learned, held_out = (_weights(task, [split[side] for split in splits]) for side in (0, 1))
    every = replace(task, weight=np.tile(learned, (len(ranks), 1)))
    training = _training.start(networks, recipe, every, seed=derived_seed(seed, "order"))
    _training.run(training, verbose=verbose)
    apart = replace(task, weight=np.tile(held_out, (len(ranks), 1)))
    scores = training.evaluate(_training.rows_of(training, apart)).accuracy
    return RankPath(np.array(ranks), np.reshape(scores, (len(ranks), len(splits))) / 100)


def _weights(task: Task, parts: Sequence[Array]) -> Array:
    """Return what each row counts in each part, with mean 1: nothing where it is not in it."""
    rows = len(task.targets.y)
    whole = np.ones(rows) if task.weight is None else task.weight
    weights = np.zeros((len(parts), rows), dtype=task.dtype)
    for number, part in enumerate(parts):
        weights[number, part] = whole[part]
        if not weights[number].any():
            raise HalfnetValueError(
                "sample_weight: expected some above 0 in each part of each fold, got only zeros"
            )
    weights *= rows / weights.sum(1, keepdims=True)
    return weights
