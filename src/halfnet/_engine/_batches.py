"""Images from memory to the network: uint8 until a batch is shaped, in the order of a seed."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from halfnet._draws import derived_seed

_SHIFT = 4  # pixels that an image is shifted by at most, in each direction


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
        self._shift: Tensor | float = 0.0
        if scaling == "standard":
            channels = images if images.dim() == 4 else images.unsqueeze(1)
            values = channels.transpose(0, 1).flatten(1)
            moments = [torch.std_mean(channel.float()) for channel in values]
            std, mean = torch.tensor(moments).view(-1, 2, *[1] * (channels.dim() - 2)).unbind(1)
            self._factor, self._shift = 1 / std, -mean / std

    def __call__(self, images: Tensor) -> Tensor:
        """Return the scaled images."""
        scaled = images * self._factor
        return scaled + self._shift if isinstance(self._shift, Tensor) else scaled


class Batches:
    """The batches of each epoch, whose order and changes are functions of a seed and the epoch.

    So a run can begin at any epoch, and needs no generator's state to do so.
    """

    def __init__(
        self,
        images: npt.NDArray[np.generic],
        labels: npt.NDArray[np.generic],
        *,
        size: int,
        augmentation: str = "none",
        brightest: int = 255,
        scaling: str = "unit",
        seed: int = 0,
    ) -> None:
        self.images = torch.from_numpy(images)
        self.pixels = Pixels(self.images, brightest, scaling)
        self.labels = torch.from_numpy(labels.astype(np.int64))
        self.size, self.augmentation = size, augmentation
        self.seed = seed

    def __len__(self) -> int:
        """Return the number of batches in an epoch; the last one may be smaller."""
        return math.ceil(len(self.images) / self.size)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of an epoch: float32 images and int64 labels."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, f"epoch {number}"))
        order = torch.randperm(len(self.images), generator=generator)
        for index in order.split(self.size):
            images = self.images.index_select(0, index)
            if self.augmentation == "flip-crop":
                images = flip_crop(images, generator)
            yield self.pixels(images), self.labels.index_select(0, index)


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
