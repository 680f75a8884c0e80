"""The rank of each layer that is converted: given, by pattern, or from a budget."""

import heapq
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

import torch

from halfnet import _checks, _products
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn import _dense

Rank: TypeAlias = int | float
Layers: TypeAlias = Mapping[str, _dense.Dense]


def ranks(
    layers: Layers, rank: Rank | Mapping[str, Rank] | None, budget: int | None, noise: str
) -> dict[str, int]:
    """Return the rank of each layer that gets one; `rank` and `budget` are those of `convert_`."""
    if (rank is None) == (budget is None):
        raise HalfnetTypeError(
            "rank: expected either it or a budget, got " + ("neither" if rank is None else "both")
        )
    if rank is None:
        return _spread(layers, budget, noise)
    if not isinstance(rank, Mapping):
        return {name: _rank(rank, name, layer, noise) for name, layer in layers.items()}
    found = {}
    used = set()
    for name, layer in layers.items():
        pattern = next((pattern for pattern in rank if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            found[name] = _rank(rank[pattern], name, layer, noise)
            used |= {p for p in rank if fnmatchcase(name, p)}
    if unused := [pattern for pattern in rank if pattern not in used]:
        raise HalfnetValueError(
            f"rank: expected patterns that fit a layer, got {unused[0]!r} for "
            f"{', '.join(map(repr, layers))}"
        )
    return found


def _rank(rank: Rank, name: str, layer: _dense.Dense, noise: str) -> int:
    fan_in = _dense.fan_in(layer)
    if isinstance(rank, float):
        if not 0 < rank <= 1:
            raise HalfnetValueError(
                f"rank: expected an integer, or a fraction of the fan-in above 0 and up to 1, "
                f"got {rank!r}"
            )
        return max(1, round(rank * fan_in))
    least = 1 if noise == "none" else 0
    where = f" of {name}" if name else ""
    return _checks.integer("rank", rank, least, fan_in, f"the fan-in{where} is {fan_in}")


def _spread(layers: Layers, budget: int | None, noise: str) -> dict[str, int]:
    """Return the ranks that explain most energy for the budget, by greedy steps.

    A layer's next column explains its next squared singular value, as a share of their sum, and
    costs its fan-in. As the shares fall, the best next step is in the best plan.
    """
    least = 1 if noise == "none" else 0
    shares = {name: _shares(layer) for name, layer in layers.items()}
    found = dict.fromkeys(layers, least)
    left = _checks.integer("budget", budget, 1)
    costs = {name: _dense.fan_in(layer) for name, layer in layers.items()}
    needed = sum(_fixed(layer, noise) + least * costs[name] for name, layer in layers.items())
    if left < needed:
        raise HalfnetValueError(
            f"budget: expected at least the {needed:,} numbers that these {len(layers)} layers "
            f"learn at rank {least}, got {left:,}"
        )
    left -= needed
    steps = [(-shares[name][least] / costs[name], name) for name in layers if shares[name][least:]]
    heapq.heapify(steps)
    while steps:
        _, name = heapq.heappop(steps)
        if costs[name] > left:
            continue
        left -= costs[name]
        found[name] += 1
        if rest := shares[name][found[name] :]:
            heapq.heappush(steps, (-rest[0] / costs[name], name))
    return found


def _shares(layer: _dense.Dense) -> list[float]:
    """Return the shares of a layer's energy along its principal directions that are not 0."""
    rows = _products.at_least_float32(layer.weight.detach().flatten(1))
    energies = torch.linalg.svdvals(rows).square()
    total = energies.sum().item()
    shares = (energies / total).tolist() if total > 0 and math.isfinite(total) else []
    return [share for share in shares if share > 1e-12]


def _fixed(layer: _dense.Dense, noise: str) -> int:
    """Return what a half layer learns beside B."""
    units = layer.weight.shape[0]
    sigma = _dense.fan_in(layer) if noise == "learned" else 0
    return sigma + units + (0 if layer.bias is None else units)
