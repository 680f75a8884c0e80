"""Rows as the learned geometry sees them: embedded in two dimensions, and their kernel matrix."""

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from halfnet import _checks
from halfnet._style import INK
from halfnet.exceptions import HalfnetValueError
from halfnet.plot._canvas import BLUE, Floats, canvas, class_colours, colour_bar, title
from halfnet.plot._source import labels, learned


def embedding(source: Any, X: Any, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw rows along the two strongest learned directions, coloured by class.

    With B = U S V' these are the first two coordinates of S U'x: of all projections onto a plane,
    the one that keeps most of the learned inner product.

    Args:
        source: A half layer, a `halfnet.Geometry` or a fitted estimator, of rank 2 at least.
        X: Rows, (n, d).
        y: Their classes, or numbers with a fraction, which colour them along a scale.
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> layer = halfnet.HalfLinear(64, 10, rank=4)
        >>> ax = plot.embedding(layer, torch.rand(30, 64), torch.arange(30) % 3)
    """
    item = learned(source)
    vectors, values = item.directions(2)
    points = item.rows(X) @ vectors[:, :2] * values[:2]
    target = None if y is None else labels("y", y, len(points))
    energy = values**2 / (values**2).sum()
    size = min(24.0, max(5.0, 16000 / len(points)))
    with canvas(ax, (5.4, 4.6)) as axes:
        if target is None:
            axes.scatter(points[:, 0], points[:, 1], s=size, color=BLUE, alpha=0.6, linewidth=0)
        elif _continuous(target):
            shown = axes.scatter(
                points[:, 0], points[:, 1], s=size, c=target, cmap="viridis", alpha=0.8, linewidth=0
            )
            colour_bar(axes, shown, "target")
        else:
            _by_class(axes, points, target, size)
        axes.set_xlabel(f"direction 1 ({energy[0]:.0%} of the energy)")
        axes.set_ylabel(f"direction 2 ({energy[1]:.0%})")
        axes.margins(0.04)
        axes.set_aspect("equal", adjustable="datalim")
        title(axes, "The two leading learned directions")
    return axes


def _continuous(target: npt.NDArray[Any]) -> bool:
    return target.dtype.kind == "f" and bool((target != np.round(target)).any())


def _by_class(ax: Axes, points: Floats, target: npt.NDArray[Any], size: float) -> None:
    """Draw the points of each class, and write its name in their midst."""
    classes, index = np.unique(target, return_inverse=True)
    colours = class_colours(len(classes))
    order = np.random.default_rng(0).permutation(len(points))  # so that no class hides the others
    ax.scatter(
        points[order, 0], points[order, 1], s=size, c=colours[index[order]], alpha=0.55, linewidth=0
    )
    font = 12 if max(len(str(name)) for name in classes) <= 2 else 9
    for number, name in enumerate(classes):
        middle = np.median(points[index == number], axis=0)
        ax.text(
            middle[0], middle[1], str(name), color=colours[number], fontsize=font,
            fontweight="bold", ha="center", va="center", zorder=5,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip


def kernel(
    source: Any,
    X: Any,
    y: Any = None,
    *,
    activation: str = "relu",
    normalize: bool = True,
    max_rows: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """Draw the learned kernel's matrix over rows sorted by class.

    Args:
        source: A half layer, a `halfnet.Geometry` or a fitted estimator, with continuous weights.
        X: Rows, (n, d).
        y: Their classes; None leaves them as they are.
        activation: As for `Geometry.kernel`.
        normalize: Whether to divide by the lengths of the features, sqrt(k(x, x) k(y, y)), so that
            each row is 1 with itself.
        max_rows: Of more rows, so many are drawn, evenly spaced after sorting.
        ax: To draw on; None is a new figure's.

    Returns:
        The Axes.

    Examples:
        >>> layer = halfnet.HalfLinear(64, 10, rank=4)
        >>> ax = plot.kernel(layer, torch.rand(30, 64), torch.arange(30) % 3)
    """
    max_rows = _checks.integer("max_rows", max_rows, 1)
    _checks.boolean("normalize", normalize)
    item = learned(source)
    rows = item.rows(X)
    target = np.zeros(len(rows), int) if y is None else labels("y", y, len(rows))
    order = np.argsort(target, kind="stable")
    if len(order) > max_rows:
        order = order[np.linspace(0, len(order) - 1, max_rows).astype(int)]
    matrix = item.kernel(rows[order], activation)
    if normalize:
        lengths = np.sqrt(np.diag(matrix))
        if not lengths.all():
            raise HalfnetValueError("X: expected rows with a kernel above 0, got some of 0")
        matrix = matrix / lengths / lengths[:, None]
    with canvas(ax, (5.2, 4.4), framed=False) as axes:
        low, high = np.quantile(matrix, [0.01, 0.99])
        shown = axes.imshow(matrix, cmap="magma", vmin=low, vmax=high, interpolation="nearest")
        if y is not None:
            _mark_classes(axes, target[order])
        colour_bar(axes, shown, "cosine of the features" if normalize else "kernel")
        title(axes, f"Kernel matrix, {activation}" + (", sorted by class" if y is not None else ""))
    return axes


def _mark_classes(ax: Axes, target: npt.NDArray[Any]) -> None:
    """Draw lines between the classes of sorted rows, and write their names beside them."""
    classes, counts = np.unique(target, return_counts=True)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color="white", linewidth=0.6, alpha=0.8)
        ax.axvline(end - 0.5, color="white", linewidth=0.6, alpha=0.8)
    middles = ends - counts / 2 - 0.5
    ax.set_yticks(middles, [str(name) for name in classes])
    if max(len(str(name)) for name in classes) <= 2:
        ax.set_xticks(middles, [str(name) for name in classes])
    ax.tick_params(labelcolor=INK, pad=1)
