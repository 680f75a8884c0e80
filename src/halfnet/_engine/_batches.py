"""Rows from memory to the network: uint8 until a batch is shaped, in the order of a seed."""

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from halfnet._draws import derived_seed

_SHIFT = 4  # pixels that an image is shifted by at most, in each direction


class Rows(Protocol):
    """Rows that are not in memory as a tensor, such as those of a sparse matrix."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return some rows, as the networks read them; `dim` is 0."""
        ...


class Batch(NamedTuple):
    """Some rows, what is to be learned of them, (n,) or (outputs, n), and what each counts."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    """(n,), or (networks, n) where rows count otherwise for each; None: all count 1."""


class Pixels:
    """Images as the networks read them: float32, from 0 to 1 or standardised.

    Args:
        images: The training images, uint8 or floating point; the latter stay as they are.
        brightest: The largest value of a uint8 pixel.
        scaling: "unit", from 0 to 1; or "standard": each channel of the training images has mean 0
            and standard deviation 1.
    """

    def __init__(self, images: Tensor, brightest: int, scaling: str = "unit") -> None:
        self._factor: Tensor | float = 1 / brightest if images.dtype == torch.uint8 else 1.0
        self._shift: Tensor | None = None
        self._changes = images.dtype == torch.uint8 or scaling == "standard"
        if scaling == "standard":
            channels = images if images.dim() == 4 else images.unsqueeze(1)
            values = channels.transpose(0, 1).flatten(1)
            moments = [torch.std_mean(channel.float()) for channel in values]
            std, mean = torch.tensor(moments).view(-1, 2, *[1] * (channels.dim() - 2)).unbind(1)
            self._factor, self._shift = 1 / std, -mean / std

    def __call__(self, images: Tensor) -> Tensor:
        """Return the scaled images."""
        if not self._changes:
            return images
        scaled = images * self._factor
        return scaled if self._shift is None else scaled + self._shift


class Batches:
    """The batches of each epoch, whose order and changes are functions of a seed and the epoch.

    So a run can begin at any epoch, and needs no generator's state to do so.

    Args:
        images: Rows to learn from, (n, ...), uint8 or floating point; or `Rows`, which come scaled.
        labels: Classes as integers, (n,), or numbers, (n, outputs).
        weights: What rows count, (n,), or (networks, n) where they do otherwise for each network.
        size: Rows in a batch.
        augmentation: "none" or "flip-crop".
        brightest: The largest value of a uint8 pixel.
        scaling: Of the images, see `Pixels`.
        seed: Of the order.
        device: Where a batch goes.
    """

    def __init__(
        self,
        images: npt.NDArray[np.generic] | Rows,
        labels: npt.NDArray[np.generic],
        *,
        weights: npt.NDArray[np.floating[Any]] | None = None,
        size: int,
        augmentation: str = "none",
        brightest: int = 255,
        scaling: str = "unit",
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.images = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
        self.pixels: Pixels | None = None
        if isinstance(self.images, Tensor):
            self.pixels = Pixels(self.images, brightest, scaling)
        self.labels = as_targets(labels)
        self.weights = None if weights is None else torch.from_numpy(weights)
        self.size, self.augmentation = size, augmentation
        self.seed, self.device = seed, device

    def __len__(self) -> int:
        """Return the number of batches in an epoch; the last one may be smaller."""
        return math.ceil(len(self.images) / self.size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of an epoch in its order."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, f"epoch {number}"))
        order = torch.randperm(len(self.images), generator=generator)
        for index in order.split(self.size):
            yield self._batch(index, generator)

    def in_order(self, size: int) -> Iterator[Batch]:
        """Yield all rows as they stand, unchanged but for the scaling."""
        for index in torch.arange(len(self.images)).split(size):
            yield self._batch(index)

    def others(
        self,
        images: npt.NDArray[np.generic] | Rows,
        labels: npt.NDArray[np.generic],
        weights: npt.NDArray[np.floating[Any]] | None = None,
    ) -> Self:
        """Return batches of other rows, scaled as these are."""
        others = copy.copy(self)
        others.images = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
        others.labels = as_targets(labels)
        others.weights = None if weights is None else torch.from_numpy(weights)
        return others

    def _batch(self, index: Tensor, changes: torch.Generator | None = None) -> Batch:
        images = self.images.index_select(0, index)
        if changes is not None and self.augmentation == "flip-crop":
            images = flip_crop(images, changes)
        x = images if self.pixels is None else self.pixels(images)
        y = self.labels.index_select(-1, index)
        weight = None if self.weights is None else self.weights.index_select(-1, index)
        if self.device == "cpu":
            return Batch(x, y, weight)
        weight = None if weight is None else weight.to(self.device)
        return Batch(x.to(self.device), y.to(self.device), weight)


def as_targets(labels: npt.NDArray[np.generic]) -> Tensor:
    """Return classes as int64, (n,), or numbers (n, outputs) as they are, rows last."""
    if labels.ndim == 2:
        return torch.from_numpy(labels).mT.contiguous()
    return torch.from_numpy(labels.astype(np.int64))


def flip_crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror half of the images (n, channels, h, w), and shift each by up to 4 pixels."""
    n, _, height, width = images.shape
    mirrored = torch.rand(n, generator=generator) < 0.5
    top, left = torch.randint(0, 2 * _SHIFT + 1, (2, n), generator=generator)
    padded = F.pad(images, [_SHIFT] * 4)
    # Read from right to left where mirrored: one gather does both.
    column = torch.arange(width)
    columns = torch.where(mirrored[:, None], column.flip(0), column) + left[:, None]
    rows = torch.arange(height) + top[:, None]
    image = torch.arange(n)
    moved = padded.permute(0, 2, 3, 1)[image[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)
