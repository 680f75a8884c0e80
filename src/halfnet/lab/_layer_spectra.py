"""The singular values of trained layers, from a result or a model file, and their energy."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetFileError
from halfnet.lab import _model_file, _results, specs
from halfnet.lab._spectra import cumulative_energy, directions_for
from halfnet.nn._base import HalfLayer

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, HalfLayer)


def of_result(folder: Path, preset: str, table: str, row: str) -> dict[str, list[list[float]]]:
    """Return, by hidden layer, each seed's singular values in the result of a row.

    Raises:
        HalfnetValueError: There is no such table, row or preset.
        HalfnetError: There is no result, or it is of a network without hidden layers.
    """
    found = list(_results.read_all(folder))
    known = {(t.key, r.name) for t in specs.paper().tables for r in t.rows}
    known |= {(result.table, result.row) for result in found}
    _fields.named("table", table, {key: key for key, _ in sorted(known)})
    _fields.named("row", row, {name: name for key, name in sorted(known) if key == table})
    matching = {r.preset: r for r in found if (r.table, r.row) == (table, row)}
    if not matching:
        raise HalfnetError(
            f"{folder}: expected a result of table {table!r}, row {row!r}, got none; "
            f"halfnet reproduce {table} --rows {row!r} --results {folder} makes it"
        )
    result = _fields.named("preset", preset, matching)
    if not result.spectra:
        raise HalfnetError(f"row {row!r}: expected a network with hidden layers, got none")
    return {name: values["weights"] for name, values in result.spectra.items()}


@torch.no_grad()
def of_file(path: Path) -> dict[str, list[list[float]]]:
    """Return the singular values of each layer of a model file, but for the output layer's.

    A filter of a convolution is a row. Linear layers with nothing between them are one matrix.
    """
    weights = dict(_weights(_model_file.load(path), ""))
    if len(weights) < 2:
        raise HalfnetFileError(f"{path}: expected a model with hidden layers, got none")
    spectra = {}
    for name in list(weights)[:-1]:
        weight = weights[name].float()
        if not weight.isfinite().all() or not weight.any():
            raise HalfnetFileError(f"{path}: layer {name}: expected finite weights other than 0")
        spectra[name] = [torch.linalg.svdvals(weight).tolist()]
    return spectra


def record(
    layer: str,
    spectra: Sequence[Sequence[float]],
    fractions: Sequence[float],
    paper: Mapping[float, int],
) -> dict[str, Any]:
    """Return how many directions hold these fractions of a layer's energy.

    Args:
        layer: Its name.
        spectra: Singular values, a list a run.
        fractions: Of the energy.
        paper: The paper's counts for some of the fractions.
    """
    energies = []
    for fraction in fractions:
        counts = [directions_for(values, fraction) for values in spectra]
        energies.append(
            {
                "fraction": fraction,
                "directions": counts,
                "mean": fmean(counts),
                "paper": paper.get(fraction),
            }
        )
    cumulative = zip(*map(cumulative_energy, spectra), strict=True)
    return {
        "layer": layer,
        "size": len(spectra[0]),
        "runs": len(spectra),
        "energies": energies,
        "cumulative": [fmean(values) for values in cumulative],
    }


def _weights(module: nn.Module, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(module, _LAYERS):
        yield name or "model", module.weight.flatten(1)
    elif linear := _factors(module):
        yield name or "model", reduce(lambda product, factor: factor @ product, linear)
    else:
        for key, child in module.named_children():
            yield from _weights(child, f"{name}.{key}".lstrip("."))


def _factors(module: nn.Module) -> list[Tensor]:
    """Return the weights of linear layers with nothing between: `halfnet train`'s lowrank(...)."""
    layers = list(module) if type(module) is nn.Sequential else []
    weights = [layer.weight for layer in layers if type(layer) is nn.Linear]
    return weights if len(weights) == len(layers) else []
