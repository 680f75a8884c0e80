"""How figures look: matplotlib settings that the report and `halfnet.plot` share."""

from typing import Any

STYLE: Any = {
    "svg.hashsalt": "halfnet",
    "text.parse_math": False,  # a row's name may have dollars
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8b93a1",
    "axes.labelcolor": "#3d4552",
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e8eaee",
    "grid.linewidth": 0.8,
    "xtick.color": "#5b6472",
    "ytick.color": "#5b6472",
    "legend.frameon": False,
}
INK = "#1a1f29"
"""The colour of titles and of what is written into a figure."""
