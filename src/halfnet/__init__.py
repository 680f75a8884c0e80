"""halfnet: randomized layers whose geometry is learned.

A half layer draws each unit's weights once, r_h = B z_h + sigma * eps_h, and freezes z_h and
eps_h. What it learns is the geometry that they are drawn from, B and sigma, shared by the layer,
and a scale and a shift for each unit.
"""

from halfnet._checkpoint import load, save
from halfnet._convert import convert_
from halfnet._fold import fold_
from halfnet._geometry import Geometry
from halfnet._init import Init
from halfnet._resample import resample_
from halfnet._summary import summary
from halfnet._sync import sync_
from halfnet._version import __version__
from halfnet.exceptions import HalfnetError
from halfnet.nn._base import HalfLayer
from halfnet.nn._conv import HalfConv1d, HalfConv2d, HalfConv3d
from halfnet.nn._kept import frozen
from halfnet.nn._linear import HalfLinear

__all__ = [
    "Geometry",
    "HalfConv1d",
    "HalfConv2d",
    "HalfConv3d",
    "HalfLayer",
    "HalfLinear",
    "HalfnetError",
    "Init",
    "__version__",
    "convert_",
    "fold_",
    "frozen",
    "load",
    "resample_",
    "save",
    "summary",
    "sync_",
]
