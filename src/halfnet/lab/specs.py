"""The paper's tables as data, and the models and training recipes that they stand for.

    from halfnet.lab import specs

    table = specs.paper().table("mnist")
    row = table.row("k=4")
    row.paper.test.mean  # 92.58
    model = specs.build(row, (28, 28), classes=10, seed=0, init="paper")

`load` reads a file of the user's own in the same form, which the comment at the top of paper.toml
describes. Every class here checks its fields when it is made, from a file or in Python.
"""

import math
import os
import tomllib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import nn

from halfnet import _checks, _fields
from halfnet._draws import KINDS, derived_seed
from halfnet._engine._low_rank import LowRank
from halfnet._engine._recipe import Recipe
from halfnet._fields import Checked
from halfnet._init import Init
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.lab._sources import KNOWN
from halfnet.nn._base import NOISES
from halfnet.nn._conv import HalfConv2d
from halfnet.nn._linear import HalfLinear

__all__ = [
    "Architecture",
    "ConvSpec",
    "DenseSpec",
    "HalfConvSpec",
    "HalfSpec",
    "LowRank",
    "LowRankSpec",
    "Paper",
    "Preset",
    "Recipe",
    "Row",
    "Score",
    "Specs",
    "Table",
    "build",
    "load",
    "paper",
]

_MOST_PARAMS = 10**12

C = TypeVar("C", bound=Checked)


class Score(NamedTuple):
    """An accuracy over some runs, in percent."""

    mean: float
    std: float


def _score(name: str, value: Any) -> Score:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise HalfnetTypeError(
            f"{name}: expected [mean, standard deviation] in percent, got {value!r}"
        )
    percent = _fields.number(0, 100)
    return Score(percent(f"{name}'s mean", value[0]), percent(f"{name}'s deviation", value[1]))


_Size: TypeAlias = Annotated[int, _fields.whole(1)]
_Percent: TypeAlias = Annotated[Score, _score]
_OwnDraw: TypeAlias = Annotated[str | None, _fields.optional(_fields.one_of(*KINDS))]
_OwnInit: TypeAlias = Annotated[str | Init | None, _fields.optional(_fields.initial)]


# --- Layers ----------------------------------------------------------------------------------


class _Shared(NamedTuple):
    """What the layers of one model have in common."""

    seed: int | None
    init: str | Init
    draw: str


@dataclass(frozen=True, kw_only=True)
class _HalfOptions(Checked):
    rank: Annotated[int, _fields.whole(0)]
    noise: Annotated[str, _fields.one_of(*NOISES)] = "learned"
    affine: Annotated[bool, _fields.flag] = True
    binary: Annotated[bool, _fields.flag] = False
    draw: _OwnDraw = None
    init: _OwnInit = None

    def _options(self, name: str, shared: _Shared) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "noise": self.noise,
            "affine": self.affine,
            "binary": self.binary,
            "draw": shared.draw if self.draw is None else self.draw,
            "init": shared.init if self.init is None else self.init,
            "seed": None if shared.seed is None else derived_seed(shared.seed, name),
        }


@dataclass(frozen=True, kw_only=True)
class DenseSpec(Checked):
    """An `nn.Linear`."""

    kind: str = field(default="dense", init=False)
    units: _Size

    def _module(self, features: int, name: str, shared: _Shared) -> nn.Module:
        return nn.Linear(features, self.units)


@dataclass(frozen=True, kw_only=True)
class LowRankSpec(Checked):
    """A `LowRank`: W = UV with both factors learned."""

    kind: str = field(default="low-rank", init=False)
    units: _Size
    rank: _Size

    def _module(self, features: int, name: str, shared: _Shared) -> nn.Module:
        return LowRank(features, self.units, self.rank)


@dataclass(frozen=True, kw_only=True)
class HalfSpec(_HalfOptions):
    """A `HalfLinear`. A draw or init of None is the recipe's."""

    kind: str = field(default="half", init=False)
    units: _Size

    def _module(self, features: int, name: str, shared: _Shared) -> nn.Module:
        return HalfLinear(features, self.units, **self._options(name, shared))


@dataclass(frozen=True, kw_only=True)
class ConvSpec(Checked):
    """An `nn.Conv2d` of square filters, followed by 2x2 max pooling and ReLU."""

    kind: str = field(default="full", init=False)
    filters: _Size
    kernel: _Size
    padding: Annotated[int, _fields.whole(0)] = 0

    def _module(self, channels: int, name: str, shared: _Shared) -> nn.Module:
        return nn.Conv2d(channels, self.filters, self.kernel, padding=self.padding)


@dataclass(frozen=True, kw_only=True)
class HalfConvSpec(_HalfOptions):
    """A `HalfConv2d` of square filters, followed by 2x2 max pooling and ReLU."""

    kind: str = field(default="half", init=False)
    filters: _Size
    kernel: _Size
    padding: Annotated[int, _fields.whole(0)] = 0

    def _module(self, channels: int, name: str, shared: _Shared) -> nn.Module:
        options = self._options(name, shared)
        return HalfConv2d(channels, self.filters, self.kernel, padding=self.padding, **options)


Front: TypeAlias = ConvSpec | HalfConvSpec
Layer: TypeAlias = DenseSpec | LowRankSpec | HalfSpec

_FRONTS: dict[str, type[Front]] = {"full": ConvSpec, "half": HalfConvSpec}
_LAYERS: dict[str, type[Layer]] = {"dense": DenseSpec, "low-rank": LowRankSpec, "half": HalfSpec}


@dataclass(frozen=True)
class Architecture:
    """A front end or none, hidden layers with ReLU, and a dense output layer, which is implied."""

    front: Front | None
    hidden: tuple[Layer, ...]


# --- Tables and presets ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Paper(Checked):
    """What the paper says of a row."""

    params: Annotated[int, _fields.whole(1, _MOST_PARAMS)]
    """As the architecture has them: where the paper prints another count, that is a misprint."""
    train: _Percent
    test: _Percent
    printed_params: Annotated[int | None, _fields.optional(_fields.whole(1, _MOST_PARAMS))] = None
    """The count as printed, if it is a misprint."""
    note: Annotated[str, _fields.text] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.printed_params == self.params:
            raise HalfnetValueError(
                f"printed_params: expected a count other than params, got {self.printed_params}"
            )
        if self.printed_params is not None and not self.note:
            raise HalfnetValueError("note: expected what is wrong with printed_params, got none")


@dataclass(frozen=True, kw_only=True)
class Row(Checked):
    """A row of a table: a model, and what the paper says of it."""

    name: Annotated[str, _fields.label]
    architecture: Architecture
    paper: Paper | None = None


@dataclass(frozen=True, kw_only=True)
class Table(Checked):
    """Models to be compared on one data set."""

    key: Annotated[str, _fields.slug]
    title: Annotated[str, _fields.label]
    dataset: Annotated[str, _fields.one_of(*KNOWN)]
    number: Annotated[str, _fields.text] = ""
    """The paper's, "A1" to "A9"."""
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row:
        """Return the row of this name."""
        with _fields.within(f"table {self.key!r}"):
            return _fields.named("row", name, {row.name: row for row in self.rows})


@dataclass(frozen=True, kw_only=True)
class Preset(Checked):
    """A recipe, and others for the data sets that need them."""

    name: Annotated[str, _fields.slug]
    default: Recipe
    overrides: tuple[tuple[str, Recipe], ...] = ()

    def recipe(self, dataset: str) -> Recipe:
        """Return the recipe for a data set."""
        _fields.named("data set", dataset, KNOWN)
        return dict(self.overrides).get(dataset, self.default)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name.endswith("-quick"):  # which `halfnet reproduce --quick` puts behind a name
            raise HalfnetValueError(
                f"name: expected one that does not end in -quick, got {self.name!r}"
            )


@dataclass(frozen=True)
class Specs:
    """The tables and presets of a file."""

    tables: tuple[Table, ...]
    presets: tuple[Preset, ...]

    def table(self, key: str) -> Table:
        """Return the table of this key."""
        return _fields.named("table", key, {table.key: table for table in self.tables})

    def preset(self, name: str) -> Preset:
        """Return the preset of this name."""
        return _fields.named("preset", name, {preset.name: preset for preset in self.presets})


@cache
def paper() -> Specs:
    """Return the paper's nine tables, and the presets that the library has."""
    return _parse("paper.toml", (files("halfnet.lab") / "paper.toml").read_bytes())


def load(path: str | os.PathLike[str]) -> Specs:
    """Read a file of tables and presets; the library's own presets are added to the file's.

    Raises:
        HalfnetFileError: Something in it is wrong, or a table or preset is named as a built-in one,
            whose results it would be mistaken for.
        HalfnetError: It cannot be read.
    """
    try:
        path = Path(path)
        raw = path.read_bytes()
    except TypeError:
        raise HalfnetTypeError(f"path: expected a file's path, got {path!r}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise HalfnetError(f"cannot read {path}: {why}") from error
    own, built_in = _parse(str(path), raw), paper()
    for table in own.tables:  # those of paper.toml are left to the tests: it takes a second
        with _fields.in_file(path):
            _check_models(table)
    for what, theirs, ours in (
        ("table", {t.key for t in built_in.tables}, [t.key for t in own.tables]),
        ("preset", {p.name for p in built_in.presets}, [p.name for p in own.presets]),
    ):
        for name in ours:
            if name in theirs:
                raise HalfnetFileError(
                    f"{path}: {what} {name!r}: this name is the library's own, choose another"
                )
    return Specs(own.tables, built_in.presets + own.presets)


# --- Reading ---------------------------------------------------------------------------------


def _parse(name: str, raw: bytes) -> Specs:
    try:
        content = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise HalfnetFileError(f"{name}: expected TOML: {error}") from error
    with _fields.in_file(name):
        _fields.known_keys(content, ("tables", "presets"))
        tables = [_table(item, i) for i, item in enumerate(_fields.items(content, "tables"), 1)]
        _fields.distinct("table", [table.key for table in tables])
        presets = _fields.mapping("presets", content.get("presets", {}))
        return Specs(tuple(tables), tuple(_preset(key, item) for key, item in presets.items()))


def _layer(kinds: Mapping[str, type[C]], raw: Any) -> C:
    """Make the layer that a table with a key `kind` describes."""
    raw = _fields.mapping("layer", raw)
    if "kind" not in raw:
        raise HalfnetValueError(f"kind: expected one of {', '.join(kinds)}, got none")
    return _fields.read(kinds[_fields.one_of(*kinds)("kind", raw["kind"])], raw, also=("kind",))


def _table(raw: Any, position: int) -> Table:
    raw = _fields.mapping(f"table {position}", raw)
    with _fields.within(f"table {raw.get('key', position)!r}"):
        front = raw.get("front")
        items = _fields.items(raw, "rows")
        table = _fields.read(Table, raw | {"rows": ()}, also=("front",))
        rows = tuple(_row(item, i, front) for i, item in enumerate(items, 1))
        if not rows:
            raise HalfnetValueError("rows: expected at least one, got none")
        _fields.distinct("row", [row.name for row in rows])
        return replace(table, rows=rows)


def _row(raw: Any, position: int, front: Any) -> Row:
    raw = _fields.mapping(f"row {position}", raw)
    with _fields.within(f"row {raw.get('name', position)!r}"):
        _fields.known_keys(raw, ("name", "front", "hidden", "paper"))
        if "hidden" not in raw:
            raise HalfnetValueError("hidden: expected a list of layers, got none")
        rest = {key: value for key, value in raw.items() if key in ("name", "paper")}
        if "paper" in rest:
            with _fields.within("paper"):
                rest["paper"] = _fields.read(Paper, _fields.mapping("table", rest["paper"]))
        architecture = _architecture(raw.get("front", front), _fields.items(raw, "hidden"))
        return _fields.read(Row, rest | {"architecture": architecture})


def _architecture(front: Any, hidden: list[Any]) -> Architecture:
    layers = []
    for number, item in enumerate(hidden, 1):
        with _fields.within(f"hidden layer {number}"):
            layers.append(_layer(_LAYERS, item))
    if front is None:
        return Architecture(None, tuple(layers))
    with _fields.within("front"):
        return Architecture(_layer(_FRONTS, front), tuple(layers))


def _check_models(table: Table) -> None:
    """Build the rows' models without memory for their numbers, and count what they learn."""
    known = KNOWN[table.dataset]
    for row in table.rows:
        with _fields.within(f"table {table.key!r}, row {row.name!r}"):
            with torch.device("meta"):
                model = build(row, known.image, known.num_classes, seed=0)
            count = sum(parameter.numel() for parameter in model.parameters())
            if row.paper is not None and row.paper.params != count:
                raise HalfnetValueError(
                    f"paper, params: expected {count:,} as the architecture has (a misprint goes "
                    f"into printed_params), got {row.paper.params:,}"
                )


def _preset(name: str, raw: Any) -> Preset:
    with _fields.within(f"preset {name!r}"):
        raw = dict(_fields.mapping("preset", raw))
        overrides = _fields.mapping("datasets", raw.pop("datasets", {}))
        default = _fields.read(Recipe, raw, also=("datasets",))
        recipes = []
        for dataset, changes in overrides.items():
            _fields.named("data set", dataset, KNOWN)
            with _fields.within(f"data set {dataset!r}"):
                recipes.append(
                    (dataset, _fields.read(Recipe, raw | _fields.mapping("recipe", changes)))
                )
        return Preset(name=name, default=default, overrides=tuple(recipes))


# --- Building --------------------------------------------------------------------------------


def build(
    model: Row | Architecture,
    input_shape: Iterable[int],
    classes: int,
    seed: int | None = None,
    *,
    init: str | Init = "default",
    draw: str = "normal",
) -> nn.Sequential:
    """Return the network of a row or an architecture, for batches of floating-point inputs.

    Its modules have names: conv, pool, conv_relu, flatten, hidden1, relu1, ..., output.

    Args:
        model: The row or architecture.
        input_shape: Of one input: (height, width), (channels, height, width), or without a front
            end of any form.
        classes: The number of outputs.
        seed: From 0 to 2**64 - 1: draws and initial values are then functions of it alone, and
            torch's generator is left as it was. The draws are those that `halfnet.resample_` makes
            from the same seed. None: both come from torch's generator.
        init: Initial values of the half layers that have none of their own.
        draw: The kind of draw of the half layers that have none of their own.
    """
    architecture = model.architecture if isinstance(model, Row) else model
    if not isinstance(architecture, Architecture):
        raise HalfnetTypeError(f"model: expected a Row or an Architecture, got {model!r}")
    shape = _shape(input_shape)
    classes = _checks.integer("classes", classes, 2)
    if seed is None:
        shared = _Shared(None, init, draw)
        return nn.Sequential(OrderedDict(_modules(architecture, shape, classes, shared)))
    shared = _Shared(_checks.seed_or_new("seed", seed), init, draw)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed the GPUs too. A derived seed, so that a caller who shuffles
        # by the same seed does not shuffle by the numbers that the model starts from.
        torch.default_generator.manual_seed(derived_seed(seed, "initial values"))
        return nn.Sequential(OrderedDict(_modules(architecture, shape, classes, shared)))


def _shape(value: Iterable[int]) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, Iterable) else ()
    if not sizes:
        raise HalfnetTypeError(f"input_shape: expected the sizes of one input, got {value!r}")
    return tuple(_checks.integer("input_shape", size, 1) for size in sizes)


def _modules(
    architecture: Architecture, shape: tuple[int, ...], classes: int, shared: _Shared
) -> Iterator[tuple[str, nn.Module]]:
    features = math.prod(shape)
    if architecture.front is not None:
        with _fields.within("front"):
            features = _pooled(architecture.front, shape)
            yield from _front(architecture.front, shape, shared)
    yield "flatten", nn.Flatten()
    for number, layer in enumerate(architecture.hidden, 1):
        with _fields.within(f"hidden layer {number}"):
            yield f"hidden{number}", layer._module(features, f"hidden{number}", shared)
        yield f"relu{number}", nn.ReLU()
        features = layer.units
    yield "output", nn.Linear(features, classes)


def _front(
    front: Front, shape: tuple[int, ...], shared: _Shared
) -> Iterator[tuple[str, nn.Module]]:
    if len(shape) == 2:
        yield "channel", nn.Unflatten(1, (1, shape[0]))  # grey images without a channel dimension
    channels = shape[0] if len(shape) == 3 else 1
    yield "conv", front._module(channels, "conv", shared)
    # ReLU keeps the order of numbers, so pooling may come first and leave it a quarter of them.
    yield "pool", nn.MaxPool2d(2)
    yield "conv_relu", nn.ReLU()


def _pooled(front: Front, shape: tuple[int, ...]) -> int:
    """Return how many numbers the front end makes of one image."""
    if len(shape) not in (2, 3):
        raise HalfnetValueError(f"input_shape: expected (channels, height, width), got {shape}")
    sides = [(side + 2 * front.padding - front.kernel + 1) // 2 for side in shape[-2:]]
    if min(sides) < 1:
        raise HalfnetValueError(
            f"kernel: expected one that leaves 2x2 to pool of images {shape}, got {front.kernel}"
        )
    return front.filters * math.prod(sides)
