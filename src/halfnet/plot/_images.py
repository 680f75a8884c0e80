"""What was learned of the pixels of images: Sigma's diagonal, and the directions of B."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from halfnet import _checks
from halfnet._style import INK
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn._base import HalfLayer
from halfnet.plot._canvas import Floats, canvas, colour_bar, title
from halfnet.plot._source import Learned, learned

_GAP = 0.12  # between the images of a montage, in widths of one


def diagonal(
    source: Any, shape: tuple[int, ...] | None = None, X: Any = None, *, ax: Axes | None = None
) -> Axes:
    """Draw Sigma's diagonal as an image: how much of the units' weights lies on each pixel.

    Where a pixel is the same in all images, nothing is learned of it and its entry is what it was
    at the start. With images in `X` each entry is multiplied by its pixel's variance: what is then
    drawn is each pixel's own part in what the units see, 0 where nothing varies.

    Args:
        source: A half layer, a `halfnet.Geometry` or a fitted estimator.
        shape: Of an image, (h, w) or (channels, h, w), whose channels are added up. None is the
            shape of a convolution's filter, or a square.
        X: Images, (n, d) or (n, *shape).
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> ax = plot.diagonal(halfnet.HalfLinear(64, 10, rank=4), (8, 8))
    """
    item = learned(source)
    shape = _shape(shape, item, source)
    variances = item.diagonal
    if X is not None:
        variances = variances * item.rows(X).var(axis=0)
    image = variances.reshape(-1, *shape[-2:]).sum(axis=0)
    with canvas(ax, (4.4, 3.8), framed=False) as axes:
        shown = axes.imshow(image, cmap="magma", vmin=0, interpolation="nearest")
        if X is None:
            title(axes, "Sigma's diagonal")
            colour_bar(axes, shown, "diagonal of Sigma")
        else:
            title(axes, "Which pixels matter")
            colour_bar(axes, shown, "diagonal of Sigma x variance of the pixel")
    return axes


def directions(
    source: Any,
    shape: tuple[int, ...] | None = None,
    X: Any = None,
    *,
    count: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the leading directions of B as images, side by side on one Axes.

    They are B's left singular vectors, strongest first, each with its share of the energy: the
    columns themselves could be turned against each other without a change of Sigma. Blue and red
    are the two signs, each image scaled by its largest entry and signed so that this is red.

    Pixels that are seldom other than 0 can have large entries that hardly ever count. With images
    in `X` the rows of B are multiplied by their pixels' standard deviations: what is then drawn are
    the directions as the data see them.

    Args:
        source: A half layer, a `halfnet.Geometry` or a fitted estimator.
        shape: Of an image, (h, w) or, in colour, (3, h, w). None is the shape of a convolution's
            filter, or a square.
        X: Images, (n, d) or (n, *shape).
        count: How many; None is all, but 16 at most.
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> ax = plot.directions(halfnet.HalfLinear(64, 10, rank=4), (8, 8))
    """
    item = learned(source)
    shape = _shape(shape, item, source)
    channels = math.prod(shape[:-2])
    if channels not in (1, 3):
        raise HalfnetValueError(f"shape: expected (h, w) or (3, h, w), got {shape}")
    weights = None if X is None else item.rows(X).std(axis=0)
    vectors, values = item.directions(1, weights)
    count = min(16, len(values)) if count is None else count
    count = _checks.integer("count", count, 1, len(values), f"the rank is {len(values)}")
    energy = values**2 / (values**2).sum()
    columns = _columns(count)
    lines = math.ceil(count / columns)
    with canvas(ax, (1.25 * columns + 0.2, 1.4 * lines + 0.4), framed=False) as axes:
        height, width = shape[-2:]
        step_x, step_y = width * (1 + _GAP), height * (1 + _GAP) + 0.14 * max(height, width)
        for place in range(count):
            line, column = divmod(place, columns)
            left, top = column * step_x, line * step_y
            axes.imshow(
                _coloured(vectors[:, place], (channels, height, width)),
                extent=(left, left + width, top + height, top),
                interpolation="nearest",
                cmap="RdBu_r",
                vmin=-1,
                vmax=1,
            )
            axes.text(
                left + width / 2, top - 0.03 * height, f"{place + 1}: {energy[place]:.0%}",
                ha="center", va="bottom", fontsize=8, color=INK,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )  # fmt: skip
        axes.set_xlim(-0.02 * width, columns * step_x - _GAP * width)
        axes.set_ylim(lines * step_y - 0.14 * height, -0.2 * height)
        title(axes, "Leading directions of B")
    return axes


def _columns(count: int) -> int:
    """Return how many images to put side by side: as many as fill the lines, not all alone."""
    if count <= 5:
        return count
    return min(range(4, 9), key=lambda n: (-count % n, abs(n - 1.6 * math.sqrt(count))))


def _coloured(vector: Floats, shape: tuple[int, int, int]) -> Floats:
    """Return a direction as an image from -1 to 1, or in colours from 0 to 1."""
    largest = vector[np.abs(vector).argmax()]
    image = (vector / largest).reshape(shape)
    return image[0] if len(image) == 1 else np.moveaxis((image + 1) / 2, 0, -1)


def _shape(shape: Any, item: Learned, source: Any) -> tuple[int, ...]:
    """Return the shape of an image whose pixels are the geometry's coordinates."""
    size = len(item.diagonal)
    if shape is None:
        layout = source._layout if isinstance(source, HalfLayer) else ()
        side = math.isqrt(size)
        if len(layout) in (2, 3):
            return tuple(layout)
        if side * side == size:
            return side, side
    elif not isinstance(shape, (tuple, list)):
        raise HalfnetTypeError(f"shape: expected (h, w) or (channels, h, w), got {shape!r}")
    else:
        found = tuple(_checks.integer("shape", length, 1) for length in shape)
        if len(found) in (2, 3) and math.prod(found) == size:
            return found
    raise HalfnetValueError(
        f"shape: expected (h, w) or (channels, h, w) with {size} numbers in all, got {shape!r}"
    )
