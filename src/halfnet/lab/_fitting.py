"""A network trained on data of the user's own: what `halfnet train` does."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import nn

from halfnet import _checks, _fields
from halfnet._draws import derived_seed
from halfnet._engine._low_rank import LowRank
from halfnet._engine._memory import keep_freed_memory
from halfnet._engine._training import EpochScores, NotFiniteError, Training
from halfnet.exceptions import HalfnetValueError
from halfnet.lab._inputs import Array, Indices, Inputs, Layout, classes_of, numbered
from halfnet.lab.specs import (
    Architecture,
    ConvSpec,
    DenseSpec,
    HalfConvSpec,
    Recipe,
    build,
)
from halfnet.nn._standardize import Standardize

RECIPE = Recipe(rate=3e-3, batch_size=128, epochs=10, schedule="cosine", warmup=0.05)
"""How `halfnet train` trains where its user says nothing else."""
_ENOUGH_STEPS = 1000  # fewer leave a network of few rows no better than chance

T = TypeVar("T")
OnStep: TypeAlias = Callable[[int, int, EpochScores | None], None]
"""Is told the steps done, the steps of all epochs, and where one ends its scores."""


class Parts(NamedTuple, Generic[T]):
    """A number for each part of the data."""

    train: T
    validation: T
    test: T


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A trained model, which takes raw inputs, and how it did."""

    model: nn.Sequential
    layout: Layout
    params: int
    dense_params: int
    """What the same network would learn if all of its layers were dense."""
    rows: Parts[int]
    accuracy: Parts[float | None]
    """In percent; None for a part without rows."""
    seconds: float


# --- Training --------------------------------------------------------------------------------


def _say_nothing(done: int, total: int, scores: EpochScores | None) -> None:
    pass


def set_threads(count: int) -> None:
    """Let torch compute with so many threads."""
    torch.set_num_threads(_checks.integer("threads", count, 1, 1024))


def default_layers(inputs: Inputs) -> str:
    """Return the layers of a user who names none: rank 16, or less where inputs are fewer."""
    return f"half(64, k={min(16, inputs.x[0].size)})"


def with_enough_epochs(recipe: Recipe, inputs: Inputs) -> Recipe:
    """Return the recipe with more epochs if rows are so few that it makes hardly any steps."""
    steps = math.ceil(len(inputs.x) / recipe.batch_size)
    return replace(recipe, epochs=max(recipe.epochs, math.ceil(_ENOUGH_STEPS / steps)))


def fit(
    inputs: Inputs,
    architecture: Architecture,
    recipe: Recipe,
    *,
    seed: int = 0,
    validation: float = 0.1,
    on_step: OnStep = _say_nothing,
) -> Fitted:
    """Train a network on a part of the data, and measure it on all parts.

    Args:
        inputs: With labels.
        architecture: The layers.
        recipe: How to train.
        seed: Of draws, initial values, and which rows are kept apart.
        validation: The fraction of rows to keep apart, from 0 to 0.9.
        on_step: Is told of the progress.
    """
    if inputs.labels is None:
        raise HalfnetValueError("inputs: expected labels to learn, got none")
    classes = classes_of(inputs.labels)
    y = numbered(inputs.labels, classes)
    layout = Layout.of(inputs, classes)
    test_x, test_y = _labelled(inputs.test, layout)
    learned, kept = _split(len(y), validation, seed)
    scale = _scale(inputs, learned)
    network = build(
        architecture, layout.shape, len(classes), seed, init=recipe.init, draw=recipe.draw
    )
    keep_freed_memory()
    start = time.perf_counter()
    training = Training(
        [network],
        recipe,
        _scaled(scale, inputs.x[learned]),
        y[learned],
        brightest=inputs.brightest,
    )
    _run(training, on_step)

    def accuracy(x: Array, answers: Indices) -> float | None:
        return training.accuracy(_scaled(scale, x), answers)[0] if len(x) else None

    return Fitted(
        model=_whole(scale, training.stack.models()[0]),
        layout=layout,
        params=_count(network),
        dense_params=_dense_params(architecture, layout),
        rows=Parts(len(learned), len(kept), len(test_x)),
        accuracy=Parts(
            accuracy(inputs.x[learned], y[learned]),
            accuracy(inputs.x[kept], y[kept]),
            accuracy(test_x, test_y),
        ),
        seconds=time.perf_counter() - start,
    )


def _labelled(inputs: Inputs | None, layout: Layout) -> tuple[Array, Indices]:
    """Return inputs with their classes' numbers, none where there are none."""
    if inputs is None or inputs.labels is None:
        return np.empty(0), np.empty(0, dtype=np.int64)
    return inputs.x, layout.index(inputs.labels)


def _split(rows: int, validation: float, seed: int) -> tuple[Indices, Indices]:
    """Return which rows to learn from, and which to keep apart."""
    fraction = _fields.number(0, 0.9)("validation", validation)
    count = min(max(1, round(fraction * rows)), rows - 1) if fraction else 0
    seed = derived_seed(_checks.seed_or_new("seed", seed), "validation")
    order = np.random.default_rng(seed).permutation(rows)
    return np.sort(order[count:]), np.sort(order[:count])


def _run(training: Training, on_step: OnStep) -> None:
    steps = len(training.batches)
    total = steps * training.recipe.epochs
    for before in range(0, total, steps):

        def tell(done: int, before: int = before) -> None:
            on_step(before + done, total, None)

        try:
            scores = training.run_epoch(tell)
        except NotFiniteError as error:
            what = str(error).replace(" of network 0", "")  # there is no other
            advice = f"a smaller rate than {training.recipe.rate:g} may help"
            raise NotFiniteError(f"{what}; {advice}") from None
        on_step(before + steps, total, scores)


# --- What a model computes around what it learned ------------------------------------------------


def _scale(inputs: Inputs, learned: Indices) -> Standardize:
    """Return what brings raw inputs to the size that a network learns best from.

    Pixels are divided by the brightest. Columns get mean 0 and deviation 1, over the rows to learn
    from; numbers in images do so together, since neighbours have one unit.
    """
    if inputs.pixels:
        scale = Standardize()
        scale.scale.fill_(inputs.brightest)
        return scale
    x = inputs.x[learned]
    axis = 0 if x.ndim == 2 else None
    mean, deviation = x.mean(axis, dtype=np.float64), x.std(axis, dtype=np.float64)
    constant = x.max(axis) == x.min(axis)
    scale = Standardize(np.shape(mean))
    scale.mean.copy_(torch.as_tensor(mean))
    scale.scale.copy_(torch.as_tensor(np.where(constant, 1.0, deviation)))
    return scale


def _scaled(scale: Standardize, x: Array) -> Array:
    """Return what the layers after `scale` read; pixels stay uint8, and `Training` divides them."""
    return x if x.dtype == np.uint8 else scale(torch.from_numpy(x)).numpy()


def _whole(scale: Standardize, network: nn.Sequential) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module](scale=scale)
    for name, layer in network.named_children():
        layers[name] = _as_two(layer) if isinstance(layer, LowRank) else layer
    return nn.Sequential(layers)


@torch.no_grad()
def _as_two(layer: LowRank) -> nn.Sequential:
    """Return torch's own layers that compute the same, which any program can load."""
    first = nn.Linear(layer.in_features, layer.rank, bias=False)
    second = nn.Linear(layer.rank, layer.out_features)
    first.weight.copy_(layer.U.mT)
    second.weight.copy_(layer.V.mT)
    second.bias.copy_(layer.bias)
    return nn.Sequential(first, second)


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _dense_params(architecture: Architecture, layout: Layout) -> int:
    front = architecture.front
    if isinstance(front, HalfConvSpec):
        front = ConvSpec(filters=front.filters, kernel=front.kernel, padding=front.padding)
    hidden = tuple(DenseSpec(units=layer.units) for layer in architecture.hidden)
    with torch.device("meta"):
        model = build(Architecture(front, hidden), layout.shape, len(layout.classes), seed=0)
    return _count(model)
