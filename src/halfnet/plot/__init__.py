"""Pictures of what was learned: `pip install 'halfnet[plot]'`.

    from halfnet import plot

    plot.spectrum(layer)

Each function draws on the Axes that it is given, or on a new figure's, and returns it. What is
drawn may be a half layer, a `halfnet.Geometry`, or a fitted estimator of `halfnet.sklearn`.
"""

from halfnet.plot._curves import rank_path, spectrum
from halfnet.plot._images import diagonal, directions
from halfnet.plot._maps import embedding, kernel

__all__ = ["diagonal", "directions", "embedding", "kernel", "rank_path", "spectrum"]
