"""Turning a module into another one in place, so that whoever holds it holds the new one.

torch itself does so where a lazy layer meets its first input, and where a parametrization is put
on a layer. Bare layers, layers that a model uses twice, and Python lists of them need no care then.
"""

from torch import nn

_HOOKS = tuple(name for name in vars(nn.Module()) if "hook" in name)
_GONE = ("_kept", "_keepers")  # what `frozen` keeps


def become(module: nn.Module, new: nn.Module, pristine: nn.Module) -> None:
    """Give `module` the class and the contents of `new`, and let it keep its hooks.

    So it does with the attributes that its user has put on it: those which `pristine`, a module of
    the same kind, hasn't.
    """
    old = vars(module)
    ours = {
        name: value
        for name, value in old.items()
        if name in _HOOKS or (name not in vars(pristine) and name not in _GONE)
    }
    state = vars(new) | ours
    old.clear()
    old.update(state)
    module.__class__ = type(new)
