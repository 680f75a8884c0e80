"""Half layers in the place of a model's dense ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

from torch import nn

from halfnet import _checks, _ranks
from halfnet._become import become
from halfnet._init import Init
from halfnet._resample import built_as, seed_of
from halfnet._table import Table
from halfnet.exceptions import HalfnetError, HalfnetTypeError, HalfnetValueError
from halfnet.nn import _attention, _base, _dense
from halfnet.nn._attention import HalfMultiheadAttention
from halfnet.nn._base import HalfLayer
from halfnet.nn._conv import HalfConv1d, HalfConv2d, HalfConv3d
from halfnet.nn._linear import HalfLinear

Test: TypeAlias = Callable[[str, nn.Module], bool]
Matcher: TypeAlias = str | Sequence[str] | Test

_HALF: dict[type[nn.Module], type[HalfLayer]] = {
    nn.Linear: HalfLinear,
    nn.Conv1d: HalfConv1d,
    nn.Conv2d: HalfConv2d,
    nn.Conv3d: HalfConv3d,
}


@dataclass(frozen=True)
class Converted:
    """What `convert_` did with one layer."""

    name: str
    rank: int
    before: int = field(metadata={"summed": True})
    after: int = field(metadata={"summed": True})


@dataclass
class _Place:
    """A dense layer of a model, or one that is part of an attention."""

    name: str
    layer: _dense.Dense
    kind: type[nn.Module]
    attention: nn.MultiheadAttention | None = None
    projection: str = ""  # which of the attention's


def convert_(
    model: nn.Module,
    rank: int | float | Mapping[str, int | float] | None = None,
    *,
    budget: int | None = None,
    include: Matcher | None = None,
    exclude: Matcher | None = None,
    layers: Sequence[type[nn.Module]] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    noise: str = "learned",
    binary: bool = False,
    draw: str = "normal",
    seed: int | None = None,
    init: str | Init = "fresh",
) -> Table[Converted]:
    """Replace dense layers of `model` by half layers, in place, and return what was replaced.

    Each layer becomes a half layer where it stands: a bare one, one that is used twice, one in a
    list. Device, dtype, training mode, requires_grad and hooks stay. The projections of an
    `nn.MultiheadAttention` count as layers, named q_proj, k_proj, v_proj and out_proj in it. All
    half layers are built before the first is put in place, so that a failure changes nothing. An
    optimizer made before holds the old parameters: make it anew.

    Args:
        model: A dense layer, or any module that holds some.
        rank: Columns of B: a number for all, a fraction of each layer's fan-in (a float up to 1),
            or either by pattern, as {"*.mlp.*": 16, "head": 0.1}: the first that fits a layer's
            name says its rank, and a layer that none fits is left.
        budget: In the place of `rank`, how many numbers the replaced layers may learn together.
            Ranks start at 0, and each step raises the one where another column explains the largest
            share, for a parameter, of its layer's energy: its squared singular values.
        include: Which layers: names with * and ?, or a function of name and layer; None for all.
        exclude: Which of these to leave, in the same way.
        layers: The classes to replace. A class of one's own that inherits their forward counts.
        noise: As in `HalfLinear`.
        binary: As in `HalfLinear`.
        draw: As in `HalfLinear`.
        seed: Each layer's seed is made from it and the layer's name; None takes one from torch's
            global generator.
        init: "fresh", "moments" or "lstsq", as in `HalfLinear.from_linear`, or an `Init`.

    Returns:
        A row a layer: name, rank, parameters before and after. It prints as a table.

    Examples:
        >>> model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
        >>> print(halfnet.convert_(model, 16, include="0"))
        name   rank  before   after
        0        16  50,240  13,456
        total        50,240  13,456
    """
    if not isinstance(model, nn.Module):
        raise HalfnetTypeError(f"model: expected a torch module, got {type(model).__name__}")
    options: dict[str, Any] = {"noise": noise, "binary": binary, "draw": draw, "init": init}
    _base._start(init)
    places = _chosen(model, _kinds(layers), include, exclude)
    _check(model, places)
    ranks = _ranks.ranks({p.name: p.layer for p in places}, rank, budget, noise)
    seed = _checks.seed_or_new("seed", seed)
    built = [
        (place, _built(place, ranks[place.name], seed_of(seed, place.name), options))
        for place in places
        if place.name in ranks
    ]
    rows = Table(Converted(p.name, h.rank, _count(p.layer), _count(h)) for p, h in built)
    _put_in_place(model, built)
    return rows


def _kinds(layers: Sequence[type[nn.Module]]) -> dict[type[nn.Module], type[nn.Module]]:
    """Return the classes to replace, each with that of torch's which it is."""
    kinds = {}
    for cls in layers if isinstance(layers, (tuple, list)) else (layers,):
        base = next((b for b in _HALF if isinstance(cls, type) and issubclass(cls, b)), None)
        if base is None:
            names = ", ".join(f"nn.{known.__name__}" for known in _HALF)
            raise HalfnetTypeError(f"layers: expected classes from {names}, got {cls!r}")
        kinds[cls] = base
    return kinds


def _places(
    model: nn.Module, kinds: Mapping[type[nn.Module], type[nn.Module]]
) -> list[tuple[_Place, list[str]]]:
    """Return each layer of these classes once, with all its names."""
    found: dict[Any, tuple[_Place, list[str]]] = {}
    parts: dict[int, dict[str, nn.Linear]] = {}
    for wrapped, module in model.named_modules(remove_duplicate=False):
        name = built_as(wrapped)
        if nn.Linear in kinds and _is(module, nn.MultiheadAttention):
            attention = cast(nn.MultiheadAttention, module)
            if id(module) not in parts:
                parts[id(module)] = _attention.projections(attention)
            for key, layer in parts[id(module)].items():
                path = f"{name}.{key}" if name else key
                place = _Place(path, layer, nn.Linear, attention, key)
                found.setdefault((id(module), key), (place, []))[1].append(path)
        for cls, base in kinds.items():
            if type(module) is cls or _is(module, cls):
                place = _Place(name, cast(_dense.Dense, module), base)
                found.setdefault(id(module), (place, []))[1].append(name)
                break
    return list(found.values())


def _is(module: nn.Module, cls: type[nn.Module]) -> bool:
    """Whether a module computes as this class does, by inheriting its forward."""
    return (
        isinstance(module, cls)
        and type(module).forward is cls.forward
        and not isinstance(module, HalfMultiheadAttention)
    )


def _chosen(
    model: nn.Module,
    kinds: Mapping[type[nn.Module], type[nn.Module]],
    include: Matcher | None,
    exclude: Matcher | None,
) -> list[_Place]:
    included, excluded = _tests("include", include), _tests("exclude", exclude)
    places = _places(model, kinds)
    for pattern, test in included.items():
        if not any(test(name, place.layer) for place, names in places for name in names):
            raise HalfnetValueError(_nothing(model, kinds, f"include={pattern}", places))
    chosen = [
        place
        for place, names in places
        if any(t(n, place.layer) for t in included.values() for n in names)
        and not any(t(n, place.layer) for t in excluded.values() for n in names)
    ]
    if not chosen:
        raise HalfnetValueError(_nothing(model, kinds, f"exclude={exclude!r}", places))
    return chosen


def _tests(argument: str, matcher: Matcher | None) -> dict[str, Test]:
    """Return functions of a layer's name and the layer; what was given says what each is."""
    if matcher is None:
        return {"None": lambda name, layer: argument == "include"}
    if callable(matcher):
        return {repr(matcher): matcher}
    patterns = [matcher] if isinstance(matcher, str) else matcher
    if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
        raise HalfnetTypeError(
            f"{argument}: expected a pattern, a sequence of them or a function of name and layer, "
            f"got {matcher!r}"
        )
    return {repr(p): lambda name, layer, p=p: fnmatchcase(name, p) for p in patterns}  # type: ignore[misc]


def _nothing(
    model: nn.Module,
    kinds: Mapping[type[nn.Module], type[nn.Module]],
    given: str,
    places: Sequence[tuple[_Place, list[str]]],
) -> str:
    wanted = ", ".join(cls.__name__ for cls in kinds)
    if places:
        names = ", ".join(repr(place.name) for place, _ in places[:6])
        more = f" and {len(places) - 6} more" if len(places) > 6 else ""
        return f"model: expected {given} to choose of its layers {names}{more}, got none chosen"
    half = any(isinstance(module, HalfLayer) for module in model.modules())
    return f"model: expected one with layers of {wanted}, got {type(model).__name__} " + (
        "whose layers are half layers already" if half else "without any"
    )


def _check(model: nn.Module, places: Sequence[_Place]) -> None:
    """Raise unless a half layer can stand in for each of these."""
    owners: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        for parameter in module._parameters.values():
            owners.setdefault(id(parameter), []).append(built_as(name) or "the model")
    for place in places:
        label = place.name or "model"
        source = place.attention or place.layer
        if place.attention is None:
            _dense.check_replaceable(label, place.layer, place.kind)
        elif problem := next(_attention.problems(place.attention), ""):
            raise HalfnetValueError(
                f"{label}: expected an nn.MultiheadAttention with plain weights, got {problem}"
            )
        for parameter in source._parameters.values():
            if parameter is not None and len(names := owners[id(parameter)]) > 1:
                raise HalfnetValueError(
                    f"{label}: expected a layer with weights of its own, got one tied to "
                    f"{' and '.join(n for n in names if n != label)}; leave it by "
                    f"exclude={label!r}"
                )


def _built(place: _Place, rank: int, seed: int, options: Mapping[str, Any]) -> HalfLayer:
    try:
        return _HALF[place.kind]._standing_for(place.layer, rank, affine=None, seed=seed, **options)
    except HalfnetError as error:
        raise type(error)(f"{place.name or 'model'}: {error}") from error


def _put_in_place(model: nn.Module, built: Sequence[tuple[_Place, HalfLayer]]) -> None:
    attentions: dict[int, tuple[nn.MultiheadAttention, dict[str, HalfLayer]]] = {}
    swaps: list[tuple[nn.Module, nn.Module, nn.Module]] = []
    for place, half in built:
        if place.attention is not None:
            group = attentions.setdefault(id(place.attention), (place.attention, {}))
            group[1][place.projection] = half
        else:
            pristine = place.kind(**_dense.sizes(place.layer), device="meta")
            swaps.append((place.layer, half, pristine))
    for attention, halves in attentions.values():
        swaps.append((attention, _attention.halved(attention, halves), attention))
    for module, new, pristine in swaps:  # from here on nothing fails
        become(module, new, pristine)
    _attention.set_nesting(model)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
