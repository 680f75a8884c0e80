"""What is to be learned: classes, labels of which a row may have any, or numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.multiclass import (
    check_classification_targets,
    type_of_target,
    unique_labels,
)

from halfnet._engine._losses import BinaryCrossEntropy, CrossEntropy, Loss, SquaredError
from halfnet.exceptions import HalfnetValueError
from halfnet.sklearn._scaling import Array, Scaling

CLASSES, LABELS, NUMBERS = "classes", "labels", "numbers"


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets as the engine takes them, and how outputs are turned back into what the user gave."""

    kind: str
    """CLASSES, LABELS or NUMBERS."""
    y: Array = field(repr=False)
    """The classes' numbers, (n,); or a number for each output, (n, outputs)."""
    outputs: int
    classes: Any = None
    """The classes, sorted; of labels their numbers; None for numbers."""
    mean: Array | None = None
    """What was subtracted from each of the numbers, (outputs,)."""
    scale: Array | None = None
    """What they were divided by then."""

    @property
    def loss(self) -> Loss:
        """What is to become small."""
        losses: dict[str, type[Loss]] = {
            CLASSES: CrossEntropy,
            LABELS: BinaryCrossEntropy,
            NUMBERS: SquaredError,
        }
        return losses[self.kind]()


def of(y: Array, sample_weight: Array | None = None) -> Targets:
    """Return targets by what `y` looks like: numbers where it has fractions or outputs."""
    if type_of_target(y, input_name="y").startswith("continuous"):
        return numbers(y, sample_weight)
    return classes(y)


def classes(y: Array, known: Array | None = None) -> Targets:
    """Return classes, or labels where `y` is a matrix of 0 and 1.

    Args:
        y: A class for each row, of any type that can be sorted; or (n, labels).
        known: The classes, where `y` may lack some.

    Raises:
        HalfnetValueError: There is one class only, or one that is not known.
    """
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        return _labels(y, known)
    if kind not in ("binary", "multiclass"):
        raise HalfnetValueError(
            "y: expected one class a row, or a matrix of 0 and 1 with a column a label, "
            f"got {kind} targets"
        )
    found = unique_labels(y)
    if known is None:
        if len(found) < 2:
            raise HalfnetValueError(
                f"y: expected at least 2 classes, got 1 class only, {found.tolist()[0]!r}"
            )
        known = found
    unknown = np.setdiff1d(found, known)
    if unknown.size:
        raise HalfnetValueError(
            f"y: expected classes that were there at first, got {unknown.tolist()[0]!r} too"
        )
    return Targets(CLASSES, np.searchsorted(known, y), len(known), known)


def _labels(y: Array, known: Array | None) -> Targets:
    dense = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    labels = np.arange(dense.shape[1])
    if known is not None and len(known) != len(labels):
        raise HalfnetValueError(
            f"y: expected {len(known)} labels a row as at first, got {len(labels)}"
        )
    return Targets(LABELS, dense.astype(np.float64), len(labels), labels)


def numbers(
    y: Array,
    sample_weight: Array | None = None,
    *,
    mean: Array | None = None,
    scale: Array | None = None,
) -> Targets:
    """Return numbers, (n,) or (n, outputs), brought to mean 0 and deviation 1 for the training.

    Args:
        y: The numbers.
        sample_weight: What rows count.
        mean: What to subtract; None: the mean.
        scale: What to divide by then; None: the deviation, 1 where there is none.
    """
    columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if mean is None or scale is None:
        scaling = Scaling.fit(columns, "standard", sample_weight)
        mean, scale = scaling.mean, scaling.scale
    if len(mean) != columns.shape[1]:
        raise HalfnetValueError(
            f"y: expected {len(mean)} numbers a row as at first, got {columns.shape[1]}"
        )
    return Targets(NUMBERS, (columns - mean) / scale, columns.shape[1], None, mean, scale)
