"""The paper's tables as data, files of the user's own, and the models that they are built into."""

import copy
import hashlib
import pickle
import re
from dataclasses import FrozenInstanceError, asdict, replace

import pytest
import torch
from torch import nn

import halfnet
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError, HalfnetValueError
from halfnet.lab import specs
from halfnet.lab._sources import KNOWN
from halfnet.lab.specs import Architecture, ConvSpec, DenseSpec, HalfConvSpec, HalfSpec, LowRank

TABLES = specs.paper().tables
ROWS = [(table, row) for table in TABLES for row in table.rows]

# Of each table: rows, and the sums of its columns as the paper prints them, accuracies in
# hundredths: params, train mean and deviation, test mean and deviation.
SUMS = {
    "mnist": (12, 117714, 109648, 454, 109254, 441),
    "mnist-conv": (9, 291972, 88166, 119, 87711, 154),
    "mnist-two": (8, 159504, 72918, 346, 73078, 372),
    "mnist-binary": (5, 30418, 43556, 481, 43555, 482),
    "fashion": (10, 115321, 85316, 369, 83488, 375),
    "fashion-conv": (9, 291972, 80474, 338, 78873, 352),
    "fashion-two": (8, 159504, 68023, 435, 66398, 427),
    "fashion-binary": (5, 30418, 40311, 519, 39818, 486),
    "cifar10": (6, 3283359, 41408, 230, 40786, 260),
}
# Of all 360 numbers, compared with the paper's source when this was written.
NUMBERS = "d949c6b9cf3aec03a21c640d524a0988943c41c70d84556fbdbc6c837a3bf4e0"

TABLE = """
[[tables]]
key = "mine"
title = "My own"
dataset = "mnist"

[[tables.rows]]
name = "a"
hidden = [{ kind = "half", units = 8, rank = 2 }]
"""
PRESET = """
[presets.mine]
rate = 1e-2
batch_size = 32
epochs = 2
"""


def printed(row):
    paper = row.paper
    return (paper.printed_params or paper.params, *paper.train, *paper.test)


def shape_of(table):
    return KNOWN[table.dataset].image


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def mlp(*units):
    return Architecture(None, tuple(DenseSpec(units=n) for n in units))


# --- The paper's tables ----------------------------------------------------------------------


def test_nine_tables_in_the_papers_order():
    assert [table.number for table in TABLES] == [f"A{n}" for n in range(1, 10)]
    assert [table.key for table in TABLES] == list(SUMS)
    assert len(ROWS) == 72
    datasets = ["mnist"] * 4 + ["fashion-mnist"] * 4 + ["cifar10"]
    assert [table.dataset for table in TABLES] == datasets
    assert specs.paper() is specs.paper()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.key)
def test_sums_of_the_columns(table):
    params, *scores = zip(*map(printed, table.rows), strict=True)
    hundredths = [sum(round(100 * x) for x in column) for column in scores]
    assert (len(table.rows), sum(params), *hundredths) == SUMS[table.key]


def test_every_number_is_as_printed():
    lines = ["{} {:.2f} {:.2f} {:.2f} {:.2f}".format(*printed(row)) for _, row in ROWS]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == NUMBERS


@pytest.mark.parametrize(
    ("table", "row", "numbers"),
    [
        ("mnist", "u, u0", (778, 82.02, 1.10, 82.55, 0.90)),
        ("mnist-conv", "random", (1066, 93.08, 0.25, 93.25, 0.40)),
        ("mnist-binary", "k=2", (3130, 78.13, 2.27, 78.59, 2.12)),
        ("fashion-two", "full", (55050, 89.75, 0.25, 87.40, 0.27)),
        ("cifar10", "Half-Half k=8/32", (274157, 63.98, 0.78, 63.12, 0.69)),
    ],
)
def test_numbers_stand_at_the_right_row(table, row, numbers):
    assert printed(specs.paper().table(table).row(row)) == numbers


def test_misprints():
    found = {
        (table.key, row.name): (row.paper.printed_params, row.paper.params)
        for table, row in ROWS
        if row.paper.printed_params is not None
    }
    assert found == {("fashion", "MLP h=10"): (7910, 7960), ("fashion", "k=4"): (4695, 4698)}
    for table, row in found:
        assert "prints" in specs.paper().table(table).row(row).paper.note


def test_the_papers_recipe():
    recipe = specs.paper().preset("paper").recipe("mnist")
    assert (recipe.rate, recipe.batch_size, recipe.epochs) == (1e-3, 128, 10)
    assert (recipe.schedule, recipe.augmentation, recipe.init) == ("constant", "none", "paper")
    cifar10 = specs.paper().preset("paper").recipe("cifar10")
    assert (cifar10.epochs, cifar10.batch_size, cifar10.init) == (50, 128, "paper")
    assert specs.paper().preset("paper").recipe("fashion-mnist") == recipe


def test_what_is_read_is_frozen_copied_pickled_and_recorded():
    row = specs.paper().table("mnist-conv").row("k=4")
    with pytest.raises(FrozenInstanceError):
        row.name = "other"
    tables = specs.paper()
    assert pickle.loads(pickle.dumps(tables)) == tables == copy.deepcopy(tables)
    assert len({row for _, row in ROWS}) > 60  # hashable
    record = asdict(row.architecture)
    assert record["front"]["kind"] == "full"
    assert record["hidden"][0]["kind"] == "half"


# --- Models ----------------------------------------------------------------------------------

DISTINCT = {(row.architecture, shape_of(table)): row for table, row in ROWS}


@pytest.mark.parametrize(
    ("table", "row"), ROWS, ids=[f"{table.key}: {row.name}" for table, row in ROWS]
)
def test_every_row_learns_as_many_numbers_as_the_paper_says(table, row):
    with torch.device("meta"):
        model = specs.build(row, shape_of(table), 10, seed=0)
    assert count(model) == row.paper.params


@pytest.mark.parametrize("spec", DISTINCT, ids=lambda spec: DISTINCT[spec].name)
def test_forward_and_backward(spec):
    architecture, shape = spec
    model = specs.build(architecture, shape, 10, seed=0)
    out = model(torch.rand(3, *shape))
    assert out.shape == (3, 10)
    out.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 0, name


def test_distinct_architectures():
    """MNIST and Fashion-MNIST share theirs; the paper's u, u0 and sigma rows are MNIST's alone."""
    assert len(DISTINCT) == 12 + 9 + 8 + 5 + 6


def features(model, images):
    return model[: list(dict(model.named_children())).index("flatten") + 1](images)


@pytest.mark.parametrize(("table", "size"), [("mnist-conv", 2304), ("cifar10", 8192)])
def test_front_ends(table, size):
    table = specs.paper().table(table)
    for row in table.rows:
        model = specs.build(row, shape_of(table), 10, seed=0)
        images = torch.rand(2, *shape_of(table))
        found = features(model, images)
        assert found.shape == (2, size)
        # As the paper has it: ReLU first.
        images = images.unsqueeze(1) if images.dim() == 3 else images
        expected = nn.functional.max_pool2d(model.conv(images).relu(), 2).flatten(1)
        assert torch.equal(found, expected)
        assert isinstance(model.conv, halfnet.HalfConv2d) == row.name.startswith("Half-Half")


def test_grey_images_with_or_without_a_channel_dimension():
    row = specs.paper().table("mnist-conv").row("k=4")
    one, other = (specs.build(row, shape, 10, seed=3) for shape in [(28, 28), (1, 28, 28)])
    images = torch.rand(5, 28, 28)
    assert torch.equal(one(images), other(images.unsqueeze(1)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("random", {"rank": 0, "noise": "fixed", "affine": False, "binary": False}),
        ("u, u0", {"rank": 0, "noise": "fixed", "affine": True, "binary": False}),
        ("sigma", {"rank": 0, "noise": "learned", "affine": True, "binary": False}),
        ("k=16", {"rank": 16, "noise": "learned", "affine": True, "binary": False}),
    ],
)
def test_half_layers_of_mnist(name, options):
    layer = specs.build(specs.paper().table("mnist").row(name), (28, 28), 10).hidden1
    assert {key: layer.config()[key] for key in options} == options


def test_binary_rows_are_binary():
    for table in (specs.paper().table("mnist-binary"), specs.paper().table("fashion-binary")):
        for row in table.rows:
            assert specs.build(row, (28, 28), 10).hidden1.binary, row.name


def test_two_layers_are_alike_and_apart():
    model = specs.build(specs.paper().table("mnist-two").row("k=8"), (28, 28), 10, seed=0)
    assert (model.hidden1.rank, model.hidden2.rank) == (8, 8)
    assert model.hidden1.seed != model.hidden2.seed


def test_a_seed_decides_everything_and_leaves_torchs_generator_alone():
    row = specs.paper().table("cifar10").row("Half-Half k=8/32")
    before = torch.get_rng_state()
    one = specs.build(row, (3, 32, 32), 10, seed=2**64 - 1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    same, other = (specs.build(row, (3, 32, 32), 10, seed=s) for s in (2**64 - 1, 1))
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name]), name
    assert not torch.equal(one.output.weight, other.output.weight)
    assert not torch.equal(one.hidden1.eps, other.hidden1.eps)
    assert not torch.equal(one.conv.z, other.conv.z)
    redrawn = halfnet.resample_(copy.deepcopy(one), seed=1)
    assert torch.equal(redrawn.hidden1.eps, other.hidden1.eps)
    assert torch.equal(redrawn.conv.z, other.conv.z)


def test_without_a_seed_torchs_generator_decides():
    row = specs.paper().table("mnist").row("k=4")
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(specs.build(row, (28, 28), 10))
    assert torch.equal(models[0].output.weight, models[1].output.weight)
    assert torch.equal(models[0].hidden1.eps, models[1].hidden1.eps)
    assert not torch.equal(models[0].hidden1.eps, models[2].hidden1.eps)


def test_init_and_draw_come_from_the_recipe_unless_the_layer_has_its_own():
    front = HalfConvSpec(filters=4, kernel=5, rank=3)
    own = HalfSpec(units=8, rank=2, init=halfnet.Init(sigma=0.5), draw="normal")
    architecture = Architecture(front, (HalfSpec(units=8, rank=2), own))
    model = specs.build(architecture, (1, 28, 28), 10, init="paper", draw="orthogonal")
    assert [layer.sigma[0] for layer in (model.conv, model.hidden1, model.hidden2)] == [1, 1, 0.5]
    assert [layer.draw for layer in (model.conv, model.hidden1, model.hidden2)] == [
        "orthogonal",
        "orthogonal",
        "normal",
    ]
    default = specs.build(architecture, (1, 28, 28), 10)
    assert default.hidden1.sigma[0] != 1
    assert default.hidden1.draw == "normal"


def test_inputs_of_other_forms():
    assert specs.build(mlp(5), (7,), 3)(torch.rand(4, 7)).shape == (4, 3)
    assert specs.build(mlp(), (2, 3, 4, 5), 2)(torch.rand(4, 2, 3, 4, 5)).shape == (4, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "k=4"}, HalfnetTypeError, "model: expected a Row or an Architecture"),
        ({"classes": 1}, HalfnetValueError, "classes: expected an integer of at least 2, got 1"),
        ({"input_shape": 784}, HalfnetTypeError, "input_shape: expected the sizes"),
        ({"input_shape": ()}, HalfnetTypeError, "input_shape: expected the sizes"),
        ({"input_shape": (0, 28)}, HalfnetValueError, "input_shape: expected an integer of at lea"),
        ({"seed": -1}, HalfnetValueError, "seed: expected an integer from 0"),
        (
            {"model": Architecture(ConvSpec(filters=1, kernel=28), ())},
            HalfnetValueError,
            "front, kernel: expected one that leaves 2x2",
        ),
        (
            {"model": Architecture(ConvSpec(filters=1, kernel=3), ()), "input_shape": (9,)},
            HalfnetValueError,
            "front, input_shape: expected",
        ),
        (
            {"model": Architecture(None, (DenseSpec(units=3), HalfSpec(units=2, rank=4)))},
            HalfnetValueError,
            "hidden layer 2, rank: expected an integer from 0 to 3",
        ),
    ],
)
def test_bad_arguments_of_build(arguments, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        specs.build(**{"model": mlp(), "input_shape": (28, 28), "classes": 10} | arguments)


# --- W = UV ----------------------------------------------------------------------------------


def test_low_rank_is_a_linear_layer_of_that_rank():
    layer = LowRank(30, 20, rank=4)
    assert count(layer) == 4 * (30 + 20) + 20
    x = torch.randn(6, 30)
    weight = (layer.U @ layer.V).T
    assert torch.linalg.matrix_rank(weight) == 4
    torch.testing.assert_close(layer(x), nn.functional.linear(x, weight, layer.bias))
    assert str(layer) == "LowRank(in_features=30, out_features=20, rank=4)"


def test_low_rank_gradients():
    layer = LowRank(5, 4, rank=2).double()
    x = torch.randn(3, 5, dtype=torch.float64)

    def forward(U, V, bias):
        return torch.func.functional_call(layer, {"U": U, "V": V, "bias": bias}, x)

    assert torch.autograd.gradcheck(forward, tuple(layer.parameters()))


@pytest.mark.parametrize("rank", [1, 4, 64])
def test_low_rank_starts_at_the_size_of_a_dense_layer(rank):
    with torch.no_grad():
        weights = [LowRank(784, 64, rank) for _ in range(20)]
        size = torch.stack([layer.U @ layer.V for layer in weights]).std().item()
        dense = nn.Linear(784, 64).weight.std().item()
        assert size == pytest.approx(dense, rel=0.1)
        assert torch.cat([layer.bias for layer in weights]).abs().max() <= 784**-0.5


def test_low_rank_in_a_model_that_is_saved(tmp_path):
    layers = Architecture(None, (specs.LowRankSpec(units=64, rank=16),))
    model = specs.build(layers, (28, 28), 10, seed=0)
    assert count(model) == 16 * (784 + 64) + 64 + 650
    halfnet.save(model, tmp_path / "model.safetensors")
    again = halfnet.load(tmp_path / "model.safetensors", classes=[LowRank])
    x = torch.rand(2, 28, 28)
    assert torch.equal(again(x), model(x))


@pytest.mark.parametrize("rank", [0, 21])
def test_low_rank_of_no_use(rank):
    with pytest.raises(HalfnetValueError, match="rank: expected an integer from 1 to 20"):
        LowRank(30, 20, rank=rank)


# --- Names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda: specs.paper().table("mnist2"), "unknown table 'mnist2': the nearest name is 'mn"),
        (lambda: specs.paper().table("MNIST"), "unknown table 'MNIST': the nearest name is 'mnis"),
        (lambda: specs.paper().preset("papr"), "unknown preset 'papr': the nearest name is 'pape"),
        (
            lambda: specs.paper().table("mnist").row("mlp h=63"),
            "table 'mnist', unknown row 'mlp h=63': the nearest name is 'MLP h=64' (of LP, MLP h",
        ),
        (
            lambda: specs.paper().preset("paper").recipe("cifar"),
            "unknown data set 'cifar': the nearest name is 'cifar10'",
        ),
        (lambda: specs.Specs((), ()).table("a"), "unknown table 'a': there are none"),
        (lambda: specs.paper().table(3), "table: expected a name, got 3"),
    ],
)
def test_unknown_names(look, message):
    with pytest.raises(HalfnetError, match=f"^{re.escape(message)}"):
        look()


# --- Files of the user's own -----------------------------------------------------------------


def test_a_file_of_tables_and_presets(tmp_path):
    own = specs.load(write(tmp_path, TABLE + PRESET))
    row = own.table("mine").row("a")
    assert (row.paper, own.table("mine").number) == (None, "")
    assert count(specs.build(row, (28, 28), 10)) == 784 * 2 + 784 + 2 * 8 + 90
    assert [preset.name for preset in own.presets] == ["paper", "mine"]
    assert own.preset("mine").recipe("cifar10") == specs.Recipe(
        rate=0.01, batch_size=32, epochs=2, init="default", draw="normal"
    )
    assert specs.load(str(write(tmp_path, ""))).presets == specs.paper().presets


def test_all_that_a_file_can_say(tmp_path):
    text = """
    [[tables]]
    key = "mine"
    title = "Everything"
    dataset = "cifar10"
    front = { kind = "full", filters = 2, kernel = 3, padding = 1 }
    [[tables.rows]]
    name = "a"
    hidden = [{ kind = "low-rank", units = 8, rank = 2 }]
    [[tables.rows]]
    name = "b"
    front = { kind = "half", filters = 2, kernel = 3, rank = 1, affine = false }
    [[tables.rows.hidden]]
    kind = "half"
    units = 8
    rank = 2
    noise = "none"
    binary = true
    draw = "orthogonal"
    init = { B = 1, u0 = 0.5 }
    [presets.mine]
    rate = 3e-3
    schedule = "cosine"
    warmup = 0.05
    batch_size = 128
    epochs = 10
    augmentation = "flip-crop"
    init = { B = 0.03, sigma = 0.1 }
    draw = "orthogonal"
    [presets.mine.datasets.mnist]
    augmentation = "none"
    rate = 1
    """
    own = specs.load(write(tmp_path, text))
    a, b = own.table("mine").rows
    front = ConvSpec(filters=2, kernel=3, padding=1)
    assert a.architecture == Architecture(front, (specs.LowRankSpec(units=8, rank=2),))
    assert b.architecture.front == HalfConvSpec(filters=2, kernel=3, rank=1, affine=False)
    init = halfnet.Init(B=1.0, u0=0.5)
    half = HalfSpec(units=8, rank=2, noise="none", binary=True, draw="orthogonal", init=init)
    assert b.architecture.hidden == (half,)
    recipe = own.preset("mine").recipe("cifar10")
    assert (recipe.warmup, recipe.init) == (0.05, halfnet.Init(B=0.03, sigma=0.1))
    mnist = own.preset("mine").recipe("mnist")
    assert mnist == replace(recipe, augmentation="none", rate=1)
    assert isinstance(mnist.rate, float)


HALF = 'kind = "half", units = 8, rank = 2'
SCORES = "train = [9.0, 1], test = [8, 1]"
ROW = "table 'mine', row 'a'"
PAPER = f"{TABLE}paper = {{ params = 2458, {SCORES} }}\n"


def with_paper(text):
    return f"{TABLE}paper = {{ {text} }}\n"


BAD = {
    # unknown keys, the nearest known one in each place
    "top": ("table = 3", "unknown key 'table': the nearest name is 'tables' (of tables, presets)"),
    "table": (
        TABLE.replace("dataset", "data"),
        "table 'mine', unknown key 'data': the nearest name is 'dataset'",
    ),
    "row": (
        TABLE.replace("hidden", "hiden"),
        f"{ROW}, unknown key 'hiden': the nearest name is 'hidden'",
    ),
    "layer": (
        TABLE.replace("rank", "Rnk"),
        f"{ROW}, hidden layer 1, unknown key 'Rnk': the nearest name is 'rank' (of kind, rank,",
    ),
    "front": (
        f'{TABLE}front = {{ kind = "full", filtres = 3, kernel = 3 }}',
        f"{ROW}, front, unknown key 'filtres': the nearest name is 'filters'",
    ),
    "rank of a full front": (
        f'{TABLE}front = {{ kind = "full", filters = 3, kernel = 3, rank = 3 }}',
        f"{ROW}, front, unknown key 'rank'",
    ),
    "paper": (
        with_paper("param = 3"),
        f"{ROW}, paper, unknown key 'param': the nearest name is 'params'",
    ),
    "init": (
        TABLE.replace("rank = 2", "rank = 2, init = { Sigma = 3 }"),
        f"{ROW}, hidden layer 1, unknown key of init 'Sigma': the nearest name is 'sigma'",
    ),
    "preset": (
        f"{PRESET}batchsize = 3",
        "preset 'mine', unknown key 'batchsize': the nearest name is 'batch_size' (of datasets,",
    ),
    "override": (
        f"{PRESET}[presets.mine.datasets.mnist]\nepoch = 3",
        "preset 'mine', data set 'mnist', unknown key 'epoch': the nearest name is 'epochs'",
    ),
    # unknown words
    "kind": (
        TABLE.replace('"half"', '"halff"'),
        f"{ROW}, hidden layer 1, unknown kind 'halff': the nearest name is 'half' (of dense,",
    ),
    "data set": (
        TABLE.replace('"mnist"', '"fashion"'),
        "table 'mine', unknown dataset 'fashion': the nearest name is 'fashion-mnist'",
    ),
    "data set of a preset": (
        f"{PRESET}[presets.mine.datasets.cifar]\nepochs = 3",
        "preset 'mine', unknown data set 'cifar': the nearest name is 'cifar10'",
    ),
    "schedule": (
        f'{PRESET}schedule = "cosin"',
        "preset 'mine', unknown schedule 'cosin': the nearest name is 'cosine' (of constant, cos",
    ),
    # wrong types and ranges
    "text for a number": (
        TABLE.replace("rank = 2", 'rank = "2"'),
        f"{ROW}, hidden layer 1, rank: expected an integer from 0 to 1000000, got '2'",
    ),
    "float for an integer": (
        TABLE.replace("units = 8", "units = 8.0"),
        f"{ROW}, hidden layer 1, units: expected an integer from 1 to 1000000, got 8.0",
    ),
    "true for an integer": (
        TABLE.replace("units = 8", "units = true"),
        f"{ROW}, hidden layer 1, units: expected an integer from 1 to 1000000, got True",
    ),
    "rank": (
        TABLE.replace("rank = 2", "rank = 785"),
        f"{ROW}, hidden layer 1, rank: expected an integer from 0 to 784 (the fan-in is 784), got",
    ),
    "no noise and no rank": (
        TABLE.replace("rank = 2", 'rank = 0, noise = "none"'),
        f"{ROW}, hidden layer 1, rank: expected at least 1 with noise='none', got 0",
    ),
    "flag": (
        TABLE.replace("rank = 2", "rank = 2, binary = 1"),
        f"{ROW}, hidden layer 1, binary: expected true or false, got 1",
    ),
    "init of text": (
        TABLE.replace("rank = 2", 'rank = 2, init = { B = "a" }'),
        f"{ROW}, hidden layer 1, init.B: expected a number from 0 to 1000, got 'a'",
    ),
    "negative deviation of B": (
        TABLE.replace("rank = 2", "rank = 2, init = { B = -1 }"),
        f"{ROW}, hidden layer 1, init.B: expected a number from 0 to 1000, got -1",
    ),
    "kernel": (
        f'{TABLE}front = {{ kind = "full", filters = 3, kernel = 28 }}',
        f"{ROW}, front, kernel: expected one that leaves 2x2",
    ),
    "hidden": (
        TABLE.replace("hidden = [{", "hidden = {").replace("}]", "}"),
        f"{ROW}, hidden: expected a list, got {{'kind'",
    ),
    "layer of text": (
        re.sub("{.*}", '"half"', TABLE),
        f"{ROW}, hidden layer 1, layer: expected keys and values, got 'half'",
    ),
    "key": (
        TABLE.replace('"mine"', '"../mine"'),
        "table '../mine', key: expected lower-case letters and digits with single dashes",
    ),
    "title": (TABLE.replace('"My own"', "3"), "table 'mine', title: expected text, got 3"),
    "name": (
        TABLE.replace('"a"', '" a"'),
        "table 'mine', row ' a', name: expected 1 to 100 printable characters",
    ),
    "tables": ("tables = 3", "tables: expected a list, got 3"),
    "table of text": ('tables = ["a"]', "table 1: expected keys and values, got 'a'"),
    "presets": ("presets = 3", "presets: expected keys and values, got 3"),
    "rate": (
        PRESET.replace("1e-2", "0"),
        "preset 'mine', rate: expected a number above 0 and at most 10, got 0",
    ),
    "true for a number": (
        PRESET.replace("1e-2", "true"),
        "preset 'mine', rate: expected a number above 0 and at most 10, got True",
    ),
    "nan": (
        PRESET.replace("1e-2", "nan"),
        "preset 'mine', rate: expected a number above 0 and at most 10, got nan",
    ),
    "warmup": (
        f"{PRESET}warmup = 0.1",
        "preset 'mine', warmup: expected 0 with schedule = 'constant', got 0.1",
    ),
    "override's range": (
        f"{PRESET}[presets.mine.datasets.mnist]\nepochs = 0",
        "preset 'mine', data set 'mnist', epochs: expected an integer from 1",
    ),
    "score": (
        with_paper("params = 2458, train = [9.0], test = [8, 1]"),
        f"{ROW}, paper, train: expected [mean, standard deviation] in percent, got [9.0]",
    ),
    "percent": (
        with_paper("params = 2458, train = [9.0, 1], test = [108, 1]"),
        f"{ROW}, paper, test's mean: expected a number from 0 to 100, got 108",
    ),
    "params": (
        PAPER.replace("2458", "2457"),
        f"{ROW}, paper, params: expected 2,458 as the architecture has",
    ),
    "misprint of the same": (
        with_paper(f'params = 2458, printed_params = 2458, note = "a", {SCORES}'),
        f"{ROW}, paper, printed_params: expected a count other than params",
    ),
    "misprint without a note": (
        with_paper(f"params = 2458, printed_params = 2457, {SCORES}"),
        f"{ROW}, paper, note: expected what is wrong with printed_params",
    ),
    # what is missing or there twice
    "no kind": (
        TABLE.replace('kind = "half", ', ""),
        f"{ROW}, hidden layer 1, kind: expected one of dense, low-rank, half, got none",
    ),
    "no rank": (
        TABLE.replace(", rank = 2", ""),
        f"{ROW}, hidden layer 1, rank: expected a value, got none",
    ),
    "no key": (TABLE.replace('key = "mine"', ""), "table 1, key: expected a value, got none"),
    "no name": (
        TABLE.replace('name = "a"', ""),
        "table 'mine', row 1, name: expected a value, got none",
    ),
    "no hidden": (
        TABLE[: TABLE.index("hidden")],
        f"{ROW}, hidden: expected a list of layers, got none",
    ),
    "no rows": (
        TABLE[: TABLE.index("[[tables.rows]]")],
        "table 'mine', rows: expected at least one, got none",
    ),
    "no epochs": (
        PRESET.replace("epochs = 2", ""),
        "preset 'mine', epochs: expected a value, got none",
    ),
    "row twice": (
        f"{TABLE}{TABLE[TABLE.index('[[tables.rows]]') :]}",
        "table 'mine', row 'a': expected once, got 2",
    ),
    "table twice": (TABLE * 2, "table 'mine': expected once, got 2"),
    "the paper's table": (
        TABLE.replace('"mine"', '"mnist"'),
        "table 'mnist': this name is the library's own, choose another",
    ),
    "the paper's preset": (
        PRESET.replace("mine", "paper"),
        "preset 'paper': this name is the library's own, choose another",
    ),
    # no TOML
    "syntax": ("tables = [", "expected TOML: "),
    "nesting": (f"a = {'[' * 5000}", "expected TOML: "),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_file_with_a_mistake(text, message, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(HalfnetFileError) as caught:
        specs.load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_the_file_without_the_mistakes_is_read(tmp_path):
    """What the bad files change is good."""
    own = specs.load(write(tmp_path, PAPER + PRESET))
    assert own.table("mine").row("a").paper.test == (8.0, 1.0)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(HalfnetError, match=r"cannot read .*none\.toml: No such file"):
        specs.load(tmp_path / "none.toml")
    with pytest.raises(HalfnetError, match=r"cannot read .*: Is a directory"):
        specs.load(tmp_path)
    with pytest.raises(HalfnetError, match=r"cannot read .*null"):
        specs.load("a\0b")
    with pytest.raises(HalfnetTypeError, match="path: expected a file's path, got 3"):
        specs.load(3)
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe4"')
    with pytest.raises(HalfnetFileError, match="expected TOML"):
        specs.load(tmp_path / "latin.toml")


def test_what_is_made_in_python_is_checked_too():
    with pytest.raises(HalfnetValueError, match="units: expected an integer from 1"):
        DenseSpec(units=0)
    recipe = specs.paper().preset("paper").recipe("mnist")
    with pytest.raises(HalfnetValueError, match="unknown augmentation 'flip': the nearest"):
        replace(recipe, augmentation="flip")
    with pytest.raises(HalfnetValueError, match="unknown init 'papr': the nearest"):
        replace(recipe, init="papr")
    with pytest.raises(HalfnetTypeError, match="draw: expected one of"):
        replace(recipe, draw=3)
    assert replace(recipe, init=halfnet.Init(B=1)).init == halfnet.Init(B=1.0)
