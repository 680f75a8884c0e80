"""The engine: networks side by side compute and learn what each would alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import halfnet
from halfnet._engine._adam import Adam
from halfnet._engine._batches import Batches, Pixels, flip_crop
from halfnet._engine._losses import BinaryCrossEntropy, CrossEntropy, SquaredError
from halfnet._engine._stack import Stack
from halfnet._engine._training import NotFiniteError, Training
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.lab import specs
from halfnet.lab.specs import (
    Architecture,
    ConvSpec,
    DenseSpec,
    HalfConvSpec,
    HalfSpec,
    LowRankSpec,
    Recipe,
)

GREY, COLOUR, FLAT = (12, 12), (3, 12, 12), (20,)
CONV = ConvSpec(filters=4, kernel=5)
PADDED = HalfConvSpec(filters=4, kernel=3, padding=1, rank=2)
SIGNS = HalfConvSpec(filters=4, kernel=3, rank=2, binary=True)
HALF = HalfSpec(units=8, rank=3)

NETWORKS = {
    "linear": (FLAT, Architecture(None, ())),
    "dense": (FLAT, Architecture(None, (DenseSpec(units=8), DenseSpec(units=5)))),
    "low rank": (FLAT, Architecture(None, (LowRankSpec(units=8, rank=2),))),
    "half": (FLAT, Architecture(None, (HALF, HALF))),
    "random": (
        FLAT,
        Architecture(None, (HalfSpec(units=8, rank=0, noise="fixed", affine=False),)),
    ),
    "sigma": (FLAT, Architecture(None, (HalfSpec(units=8, rank=0),))),
    "no noise": (
        FLAT,
        Architecture(None, (HalfSpec(units=8, rank=3, noise="none"), DenseSpec(units=4))),
    ),
    "fixed": (FLAT, Architecture(None, (HalfSpec(units=8, rank=3, noise="fixed"),))),
    "binary": (FLAT, Architecture(None, (HalfSpec(units=8, rank=3, binary=True),))),
    "binary, fixed": (
        FLAT,
        Architecture(None, (HalfSpec(units=8, rank=0, noise="fixed", binary=True),)),
    ),
    "conv": (COLOUR, Architecture(CONV, (DenseSpec(units=8),))),
    "conv, grey": (GREY, Architecture(CONV, (HALF,))),
    "half conv": (COLOUR, Architecture(PADDED, (HALF,))),
    "binary conv": (GREY, Architecture(SIGNS, ())),
    "odd sizes": ((2, 11, 9), Architecture(replace(CONV, kernel=4), (HALF,))),
}  # fmt: skip

RECIPE = Recipe(rate=1e-2, batch_size=16, epochs=3)


def networks(name, count=3, init="default"):
    shape, architecture = NETWORKS[name]
    models = [specs.build(architecture, shape, 4, seed=seed, init=init) for seed in range(count)]
    return shape, models


def some_data(shape, n=50, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    return images, rng.integers(0, 4, n, dtype=np.uint8)


@pytest.mark.parametrize("rows", [3, 40], ids=["few rows", "many rows"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_stack_computes_what_its_networks_do(name, rows):
    shape, models = networks(name)
    stack = Stack(models)
    x = torch.rand(rows, *shape)
    together = stack(x)
    alone = torch.stack([model(x) for model in models])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    together.square().sum().backward()
    alone.square().sum().backward()
    for key, parameter in stack.named_parameters():
        own = torch.stack([model.get_parameter(key).grad for model in models])
        torch.testing.assert_close(parameter.grad, own, rtol=1e-3, atol=1e-4 * own.abs().max())


def test_the_networks_of_a_stack_are_its_numbers():
    _, models = networks("half")
    stack = Stack(models)
    with torch.no_grad():
        stack.get_parameter("hidden1.B")[1] = 7
    out = stack.models()
    assert (out[1].hidden1.B == 7).all()
    assert not (out[0].hidden1.B == 7).any()
    assert out[0].hidden1.B is not models[0].hidden1.B


def test_a_stack_says_what_it_cannot_hold():
    with pytest.raises(HalfnetValueError, match="at least one"):
        Stack([])
    with pytest.raises(HalfnetTypeError, match=r"expected nn\.Sequential, got Linear"):
        Stack([nn.Linear(2, 2)])
    with pytest.raises(HalfnetValueError, match="one architecture, got others in '0'"):
        Stack([nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU())])
    with pytest.raises(HalfnetTypeError, match="got BatchNorm1d"):
        Stack([nn.Sequential(nn.BatchNorm1d(2))])
    convolution = nn.Conv2d(1, 2, 3)
    with pytest.raises(HalfnetTypeError, match="MaxPool2d"):
        Stack([nn.Sequential(convolution, nn.ReLU(), nn.Flatten())])
    with pytest.raises(HalfnetTypeError, match="before Flatten"):
        Stack([nn.Sequential(convolution, nn.MaxPool2d(3), nn.ReLU(), nn.Flatten())])
    strided = nn.Conv2d(1, 2, 3, stride=2)
    with pytest.raises(HalfnetValueError, match="of stride and dilation 1"):
        Stack([nn.Sequential(strided, nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())])


@pytest.mark.parametrize("name", ["dense", "half", "binary", "half conv"])
def test_networks_learn_side_by_side_what_each_would_alone(name):
    """A plain loop of torch's own parts is the oracle."""
    shape, models = networks(name)
    images, labels = some_data(shape)
    training = Training(models, RECIPE, images, labels)
    training.run_epoch()
    x, y = training.batches.images / 255, training.batches.labels
    generator = torch.Generator().manual_seed(halfnet._draws.derived_seed(0, "epoch 0"))
    order = torch.randperm(len(x), generator=generator)
    for model, trained in zip(networks(name)[1], training.stack.models(), strict=True):
        optimizer = torch.optim.Adam(model.parameters(), lr=RECIPE.rate)
        for index in order.split(RECIPE.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
        for key, parameter in model.named_parameters():
            # Where a gradient is nearly 0, Adam's first steps blow rounding up.
            error = (trained.get_parameter(key) - parameter).abs()
            assert error.mean() < 0.02 * RECIPE.rate, key


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("loss", [CrossEntropy, BinaryCrossEntropy, SquaredError])
def test_a_step_without_autograd_is_the_same_to_the_last_bit(loss, weighted):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 300)).astype(np.float32)
    y = rng.integers(0, 4, 50) if loss is CrossEntropy else rng.random((50, 4), np.float32).round()
    weights = rng.random((3, 50), np.float32) if weighted else None
    runs = []
    for short in (True, False):
        architecture = Architecture(None, (HalfSpec(units=64, rank=3),))
        models = [specs.build(architecture, (300,), 4, seed=seed) for seed in range(3)]
        training = Training(models, RECIPE, x, y, loss=loss(), weights=weights)
        assert training._short is not None
        if not short:
            training._short = None
        scores = [training.run_epoch() for _ in range(3)]
        runs.append((scores, training.optimizer.numbers()))
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("name", ["half", "sigma", "binary", "dense"])
def test_only_networks_that_it_knows_are_stepped_without_autograd(name):
    assert Training(networks(name)[1], RECIPE, *some_data(NETWORKS[name][0]))._short is None


def test_what_is_not_to_be_learned_stays():
    architecture = Architecture(None, (HALF,))
    model = specs.build(architecture, FLAT, 4, seed=0)
    model.hidden1.B.requires_grad_(False)
    before = model.hidden1.B.clone(), model.hidden1.sigma.clone()
    training = Training([model], RECIPE, *some_data(FLAT))
    training.run_epoch()
    (after,) = training.stack.models()
    assert torch.equal(after.hidden1.B, before[0])
    assert not torch.equal(after.hidden1.sigma, before[1])


def test_accuracy_is_that_of_each_network_on_unchanged_images():
    shape, models = networks("half")
    images, labels = some_data(shape)
    training = Training(models, replace(RECIPE, augmentation="none"), images, labels)
    with torch.no_grad():
        answers = [model(torch.from_numpy(images) / 255).argmax(-1).numpy() for model in models]
    wanted = [100 * (answer == labels).mean() for answer in answers]
    assert training.accuracy(images, labels) == pytest.approx(wanted, abs=1e-4)


def test_an_epoch_says_the_loss_and_accuracy_it_trained_on():
    shape, models = networks("dense", count=2)
    images, labels = some_data(shape, n=16)
    training = Training(models, RECIPE, images, labels)  # one batch: the networks as they began
    told = []
    scores = training.run_epoch(told.append)
    x, y = torch.from_numpy(images) / 255, torch.from_numpy(labels).long()
    for model, loss, accuracy in zip(models, scores.loss, scores.accuracy, strict=True):
        assert loss == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)
        assert accuracy == pytest.approx(100 * (model(x).argmax(-1) == y).float().mean().item())
    assert told == [1]


def test_the_rate_rises_and_falls_as_the_recipe_says(monkeypatch):
    shape, models = networks("linear", count=1)
    images, labels = some_data(shape, n=160)
    recipe = Recipe(rate=0.1, batch_size=16, epochs=2, schedule="cosine", warmup=0.25)
    training = Training(models, recipe, images, labels)
    rates, step = [], Adam.step

    def note(self, rate):
        rates.append(rate)
        step(self, rate)

    monkeypatch.setattr(Adam, "step", note)
    training.run_epoch()
    training.run_epoch()
    assert len(rates) == 20
    assert rates[:5] == pytest.approx([0.1 * (i + 1) / 6 for i in range(5)])
    assert rates[5] == pytest.approx(0.1)
    assert rates[6:] == pytest.approx(
        [0.1 * 0.5 * (1 + math.cos(math.pi * i / 15)) for i in range(1, 15)]
    )
    rates.clear()
    Training(models, RECIPE, images, labels).run_epoch()
    assert rates == [RECIPE.rate] * 10


@pytest.mark.parametrize("name", ["half", "half conv", "binary"])
def test_lower_precision_comes_close(name):
    shape, models = networks(name)
    images, labels = some_data(shape)
    ends = []
    for precision in ("float32", "bfloat16"):
        training = Training(models, replace(RECIPE, precision=precision), images, labels)
        ends.append(training.run_epoch().loss)
        kinds = {parameter.dtype for parameter in training.stack.parameters()}
        assert kinds == {torch.float32}
    assert ends[0] == pytest.approx(ends[1], rel=0.05)
    assert ends[0] != ends[1]


def test_a_loss_that_is_no_number_is_said_with_its_step():
    shape, models = networks("dense")
    images, labels = some_data(shape)
    with torch.no_grad():
        models[2].hidden1.weight[0, 0] = math.nan
    training = Training(models, RECIPE, images, labels)
    with pytest.raises(NotFiniteError, match=r"network 2 .* step 1 \(epoch 1\)"):
        training.run_epoch()


@pytest.mark.parametrize("name", ["dense", "half", "conv"])
def test_a_run_that_stops_and_goes_on_ends_with_the_same_bits(name):
    shape, models = networks(name)
    images, labels = some_data(shape)
    recipe = replace(RECIPE, schedule="cosine", warmup=0.1)
    through = Training(models, recipe, images, labels)
    stopped = Training(models, recipe, images, labels)
    for _ in range(3):
        through.run_epoch()
    stopped.run_epoch()
    resumed = Training(models, recipe, images, labels)
    resumed.load_state(stopped.state())
    resumed.run_epoch()
    resumed.run_epoch()
    for one, other in zip(through.stack.parameters(), resumed.stack.parameters(), strict=True):
        assert torch.equal(one, other)


def test_adam_takes_the_steps_that_torchs_own_does():
    models = [nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        model[1].bias.requires_grad_(False)
    before = models[0][1].bias.clone()
    ours = Adam(models[0], weight_decay=0.01)
    torchs = torch.optim.Adam(models[1].parameters(), weight_decay=0.01)
    for rate in (0.1, 0.01, 0.02):
        x = torch.randn(7, 5)
        ours.zero_grad()
        torchs.zero_grad()
        torchs.param_groups[0]["lr"] = rate
        for model in models:
            model(x).square().sum().backward()
        ours.step(rate)
        torchs.step()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(models[0][1].bias, before)


# -- batches --------------------------------------------------------------------------------------


def test_batches_hold_each_image_once_in_an_order_of_the_seed_and_the_epoch():
    images = np.arange(50, dtype=np.uint8)[:, None]
    batches = Batches(images, images[:, 0] % 4, size=16)
    assert len(batches) == 4

    def order(batches, epoch):
        x, y, _ = zip(*batches.epoch(epoch), strict=True)
        assert [len(part) for part in x] == [16, 16, 16, 2]
        found = (torch.cat(x)[:, 0] * 255).round().long()
        assert torch.equal(found % 4, torch.cat(y))
        return found.tolist()

    first = order(batches, 0)
    assert sorted(first) == list(range(50))
    assert first == order(Batches(images, images[:, 0] % 4, size=16), 0)
    assert first != order(batches, 1)
    assert first != order(Batches(images, images[:, 0] % 4, size=16, seed=1), 0)


def test_pixels_are_scaled_from_0_to_1_or_to_mean_0_and_deviation_1():
    images = torch.from_numpy(some_data(COLOUR, 200)[0])
    assert torch.equal(Pixels(images, 255)(images[:3]), images[:3].float() * (1 / 255))
    standard = Pixels(images, 255, "standard")(images)
    torch.testing.assert_close(standard.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(standard.std((0, 2, 3)), torch.ones(3), atol=1e-4, rtol=0)
    grey = images[:, 0]
    assert Pixels(grey, 255, "standard")(grey).shape == grey.shape
    already = torch.rand(4, 3)
    assert torch.equal(Pixels(already, 255)(already), already)


def test_images_are_mirrored_and_shifted_by_up_to_four_pixels():
    image = torch.zeros(1, 1, 12, 12, dtype=torch.uint8)
    image[..., 5, 3] = 200  # one bright pixel shows where the image went
    many = image.expand(4000, -1, -1, -1)
    moved = flip_crop(many, torch.Generator().manual_seed(0))
    assert moved.shape == many.shape
    assert moved.dtype == torch.uint8
    visible = moved.flatten(1).max(1).values == 200  # at the left it may be shifted out of sight
    where = moved.flatten(1).float().argmax(1)[visible]
    rows, columns = where // 12, where % 12
    assert set((rows - 5).tolist()) == set(range(-4, 5))
    # The plain image puts the pixel at 3 + shift, the mirrored one at 8 + shift.
    assert set(columns.tolist()) == set(range(12))
    assert visible.float().mean() == pytest.approx(8 / 9, abs=0.02)
