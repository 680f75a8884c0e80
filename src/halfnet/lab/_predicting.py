"""What a model of the user's own says of data: `halfnet predict`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from halfnet.exceptions import HalfnetFileError
from halfnet.lab import _model_file
from halfnet.lab._inputs import Array, Inputs, Layout

_AT_ONCE = 500  # rows


@dataclass(frozen=True, eq=False)
class Predictions:
    """The class of each row."""

    classes: list[str]
    names: tuple[str, ...]
    """Of all classes."""
    probabilities: npt.NDArray[np.float32]
    """Of each class for each row, (n, classes)."""
    accuracy: float | None
    """In percent; None where the data hold no labels."""
    files: tuple[str, ...]
    """Where each row was read from, where that is a file of its own."""


class Predictor(NamedTuple):
    """A model that `halfnet train` wrote."""

    path: Path
    model: nn.Module
    layout: Layout

    @classmethod
    def read(cls, path: Path) -> "Predictor":
        """Read the file at `path`."""
        return cls(path, _model_file.load(path), _model_file.layout_of(path))

    def predict(self, inputs: Inputs) -> Predictions:
        """Return what the model says of inputs of its layout."""
        probabilities = self._probabilities(inputs.x)
        answers, names = probabilities.argmax(-1), self.layout.classes
        accuracy = None
        if inputs.labels is not None:
            accuracy = 100 * float((answers == self.layout.index(inputs.labels)).mean())
        return Predictions(
            classes=[names[answer] for answer in answers],
            names=names,
            probabilities=probabilities,
            accuracy=accuracy,
            files=inputs.files,
        )

    def _probabilities(self, x: Array) -> npt.NDArray[np.float32]:
        outputs: Any
        try:
            with torch.inference_mode():
                outputs = torch.cat(
                    [self.model(part) for part in torch.from_numpy(x).split(_AT_ONCE)]
                )
                fits = outputs.shape == (len(x), len(self.layout.classes))
        except (RuntimeError, TypeError, ValueError) as error:  # the file may hold any model
            why = " ".join(str(error).split())  # torch's may be many lines
            raise HalfnetFileError(f"{self.path}: its model fails on the data: {why}") from error
        if not fits:
            raise HalfnetFileError(
                f"{self.path}: expected a model with an output for each of "
                f"{len(self.layout.classes)} classes, got {tuple(outputs.shape)}"
            )
        finite = outputs.isfinite().all(-1)
        if not finite.all():
            raise HalfnetFileError(
                f"{self.path}: its model answers row {int(finite.int().argmin()) + 1} with numbers "
                "that are not finite"
            )
        probabilities: npt.NDArray[np.float32] = outputs.float().softmax(-1).numpy()
        return probabilities
