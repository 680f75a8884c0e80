"""The Axes that every function draws on, and its looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from halfnet._style import INK, STYLE
from halfnet.exceptions import HalfnetTypeError

Floats: TypeAlias = npt.NDArray[np.float64]

BLUE, ORANGE, GREY = "#1d5fd1", "#c2500a", "#7d8592"
_CLASSES = (
    "#1d5fd1", "#c2500a", "#1a7f37", "#c026a3", "#8a6d00", "#0891b2", "#7b3fc4", "#dc2626",
    "#65a30d", "#57606a",
)  # fmt: skip


@contextmanager
def canvas(ax: Axes | None, size: tuple[float, float], *, framed: bool = True) -> Iterator[Axes]:
    """Yield `ax`, or the Axes of a new figure of this size in inches, in the project's style.

    Args:
        ax: To draw on.
        size: Of a new figure.
        framed: Whether the Axes has scales; pictures have none.
    """
    if ax is not None and not isinstance(ax, Axes):
        raise HalfnetTypeError(f"ax: expected a matplotlib Axes or None, got {type(ax).__name__}")
    with rc_context(STYLE):
        if ax is None:
            _, ax = plt.subplots(figsize=size, layout="constrained")
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[:].set_color(STYLE["axes.edgecolor"])
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set(color=STYLE["axes.labelcolor"], fontsize=STYLE["font.size"])
        ax.tick_params(length=0, colors=STYLE["xtick.color"], labelsize=STYLE["font.size"])
        if framed:
            ax.grid(color=STYLE["grid.color"], linewidth=STYLE["grid.linewidth"])
            ax.set_axisbelow(True)
        else:
            ax.grid(visible=False)
            ax.spines[:].set_visible(False)
            ax.set(xticks=[], yticks=[])
        yield ax


def title(ax: Axes, text: str) -> None:
    """Write a title."""
    ax.set_title(text, color=INK, pad=8)


def colour_bar(ax: Axes, mappable: ScalarMappable, label: str) -> Any:
    """Put a scale of colours beside the Axes."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    bar = figure.colorbar(mappable, ax=ax, fraction=0.046, pad=0.03)
    bar.set_label(label, color=STYLE["axes.labelcolor"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, colors=STYLE["ytick.color"], labelsize=8)
    return bar


def class_colours(count: int) -> Floats:
    """Return a colour for each class, RGBA: ten that are easy to tell apart, or a rainbow's."""
    if count <= len(_CLASSES):
        return to_rgba_array(_CLASSES[:count])
    return plt.get_cmap("turbo")(np.linspace(0.03, 0.97, count))
