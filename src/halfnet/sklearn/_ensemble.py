"""Several draws from one geometry: networks that share B and sigma, and nothing else."""

import torch
from torch import nn

from halfnet._draws import derived_seed
from halfnet.sklearn._network import Design, build, hidden_layers

_GEOMETRY = ("B", "sigma")


def draws(design: Design, seed: int, count: int) -> list[nn.Sequential]:
    """Return networks of different draws and one geometry; the first is `build`'s of the seed.

    They are to be trained with `shared_parameters` tied, so that the geometry stays one.
    """
    networks = [build(design, seed)]
    networks += [build(design, derived_seed(seed, f"draw {i}")) for i in range(1, count)]
    with torch.no_grad():
        for network in networks[1:]:
            for name in shared_parameters(network):
                network.get_parameter(name).copy_(networks[0].get_parameter(name))
    return networks


def shared_parameters(network: nn.Sequential) -> tuple[str, ...]:
    """Return the names of the parameters that are a geometry."""
    return tuple(
        f"hidden{number}.{name}"
        for number, layer in enumerate(hidden_layers(network), 1)
        for name in _GEOMETRY
        if getattr(layer, name) is not None
    )
