"""Rows, what is to be learned of them, and what they count, together on their way to a fit."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from halfnet.sklearn._scaling import Array, Matrix, Scaling
from halfnet.sklearn._targets import Targets
from halfnet.sklearn._training import Task


@dataclass(frozen=True, eq=False)
class Data:
    """Validated rows as the user gave them, and all that belongs to each."""

    X: Matrix
    targets: Targets
    sample_weight: Array | None = None
    class_weight: Array | None = None

    def rows(self, index: Array) -> Self:
        """Return some of the rows."""
        one, other = (
            None if weight is None else weight[index]
            for weight in (self.sample_weight, self.class_weight)
        )
        targets = replace(self.targets, y=self.targets.y[index])
        return type(self)(self.X[index], targets, one, other)

    def without_zeros(self) -> Self:
        """Leave rows out that count nothing: they would make batches smaller than they look."""
        weight = self._weight()
        if weight is None or weight.all():
            return self
        return self.rows(np.flatnonzero(weight))

    def task(self, scaling: Scaling, dtype: Any) -> Task:
        """Return what the engine is given, in the dtype that it is to compute in."""
        y, weight = self.targets.y, self._weight()
        if y.dtype.kind == "f":
            y = y.astype(dtype, copy=False)
        if weight is not None:  # a mean of 1: so the learning rate keeps its meaning
            weight = (weight / weight.mean()).astype(dtype)
        return Task(scaling.rows(self.X, dtype), replace(self.targets, y=y), weight, dtype)

    def _weight(self) -> Array | None:
        if self.sample_weight is None or self.class_weight is None:
            return self.class_weight if self.sample_weight is None else self.sample_weight
        weight: Array = self.sample_weight * self.class_weight
        return weight
