"""`halfnet.save` and `halfnet.load`: a model and its architecture, whole or not at all."""

import json
import os
import stat

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import halfnet
from halfnet.exceptions import HalfnetFileError


def network():
    return nn.Sequential(
        halfnet.HalfConv2d(3, 8, 5, rank=4, padding="same", draw="orthogonal"),
        nn.BatchNorm2d(8),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        halfnet.HalfLinear(8 * 16, 12, rank=4, binary=True, init=halfnet.Init(sigma=0.5)),
        nn.Sequential(nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 5, bias=False)),
    )


class Residual(nn.Module):
    """A class of a user's own: constructor arguments are attributes."""

    def __init__(self, width: int, rank: int, scale: float = 1.0):
        super().__init__()
        self.width, self.rank, self.scale = width, rank, scale
        self.inner = halfnet.HalfLinear(width, width, rank=rank)
        self.register_buffer("steps", torch.tensor(torch.linspace(0, 1, 3).tolist()))

    def forward(self, x):
        return x + self.scale * self.inner(x)


def test_a_model_comes_back_with_the_same_bits(tmp_path):
    model, x = network(), torch.randn(4, 3, 8, 8)
    model(x)  # the batch statistics are state too
    model.eval()
    model[1].train()
    halfnet.save(model, tmp_path / "model.safetensors")
    loaded = halfnet.load(tmp_path / "model.safetensors")
    assert repr(loaded) == repr(model)
    assert [m.training for m in loaded.modules()] == [m.training for m in model.modules()]
    assert torch.equal(loaded(x), model(x))
    assert loaded[6].init == halfnet.Init(sigma=0.5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes_come_back(dtype, tmp_path):
    model = nn.Sequential(
        halfnet.HalfLinear(6, 4, rank=0, noise="fixed", affine=False), nn.Linear(4, 2)
    ).to(dtype)
    halfnet.save(model, tmp_path / "m")
    x = torch.randn(3, 6, dtype=dtype)
    assert torch.equal(halfnet.load(tmp_path / "m")(x), model(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 4), nn.Conv1d(2, 4, 3, padding=1), nn.ConvTranspose2d(2, 4, 3, stride=2),
        nn.BatchNorm1d(4, affine=False), nn.GroupNorm(2, 4), nn.LayerNorm((2, 3)),
        nn.Embedding(5, 3),
        nn.PReLU(4), nn.LeakyReLU(0.3), nn.Softmax(dim=-1), nn.AvgPool2d((2, 1)), nn.Identity(),
        nn.AdaptiveAvgPool2d((1, None)), nn.Unflatten(1, (2, 3)), nn.Upsample(scale_factor=2),
        nn.Dropout2d(0.1), nn.GELU("tanh"), nn.Bilinear(3, 4, 5, bias=False), nn.RMSNorm(4),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_torchs_layers(layer, tmp_path):
    halfnet.save(nn.ModuleDict({"layer": layer}), tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m")["layer"]
    assert repr(loaded) == repr(layer)
    for name, tensor in layer.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_a_layer_used_twice_stays_one(tmp_path):
    shared = halfnet.HalfLinear(6, 6, rank=2)
    model = nn.Sequential(shared, nn.Tanh(), nn.ModuleList([shared]), nn.Sequential(shared))
    halfnet.save(model, tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m")
    assert loaded[0] is loaded[2][0] is loaded[3][0]


def test_a_bare_layer_and_a_users_own_class(tmp_path):
    layer = halfnet.HalfLinear(6, 4, rank=2)
    halfnet.save(layer, tmp_path / "layer")
    assert torch.equal(halfnet.load(tmp_path / "layer").weight, layer.weight)
    model = nn.Sequential(Residual(6, 2, scale=0.5), nn.ReLU())
    halfnet.save(model, tmp_path / "own")
    x = torch.randn(3, 6)
    assert torch.equal(halfnet.load(tmp_path / "own", classes=[Residual])(x), model(x))
    with pytest.raises(HalfnetFileError, match=r"classes: expected one named 'Residual', got \[\]"):
        halfnet.load(tmp_path / "own")


class Scaled(halfnet.HalfLinear):
    """A half layer of a user's own, with an argument more."""

    def __init__(self, in_features, out_features, rank, scale=1.0):
        super().__init__(in_features, out_features, rank)
        self.scale = scale

    def forward(self, x):
        return self.scale * super().forward(x)


class Plain(halfnet.HalfConv1d):
    pass


def test_subclasses_of_half_layers(tmp_path):
    model = nn.Sequential(Plain(2, 4, 3, rank=2, draw="orthogonal"), Scaled(5, 4, 2, scale=3.0))
    halfnet.save(model, tmp_path / "m")
    x = torch.randn(3, 2, 7)
    assert torch.equal(halfnet.load(tmp_path / "m", classes=[Plain, Scaled])(x), model(x))


def test_two_classes_of_one_name_are_refused(tmp_path):
    two = [type("Twin", (nn.Module,), {}) for _ in range(2)]
    with pytest.raises(halfnet.HalfnetError, match=r"model: .* names, got two named 'Twin'"):
        halfnet.save(nn.Sequential(*(cls() for cls in two)), tmp_path / "m")
    assert not list(tmp_path.iterdir())
    halfnet.save(nn.ReLU(), tmp_path / "m")
    with pytest.raises(halfnet.HalfnetError, match=r"classes: .* names, got two named 'Twin'"):
        halfnet.load(tmp_path / "m", classes=two)
    with pytest.raises(TypeError, match="classes: expected classes of modules, got 3"):
        halfnet.load(tmp_path / "m", classes=[3])


class Normed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.norm = nn.BatchNorm1d(width)


def test_modes_inside_a_users_class_come_back(tmp_path):
    model = nn.Sequential(Normed(3), nn.Linear(3, 3))
    model[0].norm.eval()
    model[1].bias.requires_grad_(False)
    halfnet.save(model, tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m", classes=[Normed])
    assert [m.training for m in loaded.modules()] == [m.training for m in model.modules()]
    assert [p.requires_grad for p in loaded.parameters()] == [True, True, True, False]


def test_saving_through_a_link_keeps_it(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    halfnet.save(nn.ReLU(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert isinstance(halfnet.load(tmp_path / "file"), nn.ReLU)


def test_the_device_is_the_callers(tmp_path):
    halfnet.save(network(), tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m", device="meta")
    assert all(p.is_meta for p in loaded.parameters())
    assert loaded[0].eps.is_meta


def test_loading_leaves_the_random_state_alone(tmp_path):
    halfnet.save(network(), tmp_path / "m")
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    halfnet.save(halfnet.load(tmp_path / "m"), tmp_path / "m")
    assert torch.equal(torch.rand(3), expected)


def test_the_file_is_readable_by_others_and_holds_what_was_learned(tmp_path):
    halfnet.save(network(), tmp_path / "m")
    with safe_open(tmp_path / "m", framework="pt") as file:
        names = set(file.keys())
        architecture = json.loads(file.metadata()["architecture"])
    assert {"0.B", "0.sigma", "0.u", "0.u0", "0._extra_state"} <= names
    assert not any(name.endswith((".z", ".eps")) for name in names)
    assert architecture["class"] == "Sequential"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o666 & ~umask


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    halfnet.save(network(), tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        halfnet.save(network(), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


class Tied(nn.Module):
    """Ties two parameters in its constructor, as language models do."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.read, self.write = nn.Linear(width, width), nn.Linear(width, width)
        self.write.weight = self.read.weight


def test_parameters_that_a_class_ties_stay_tied(tmp_path):
    model = nn.Sequential(Tied(3))
    halfnet.save(model, tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m", classes=[Tied])
    assert loaded[0].read.weight is loaded[0].write.weight
    assert torch.equal(loaded[0].write.weight, model[0].write.weight)
    assert torch.equal(loaded[0].write.bias, model[0].write.bias)


class Odd(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
        self.width = width
        self.extra = nn.Parameter(torch.zeros(1)) if width > 3 else None


def changed_after_building():
    model = Odd(5)
    model.extra = None
    return model


class Hidden(nn.Module):
    def __init__(self, width):
        super().__init__()


class Many(nn.Module):
    def __init__(self, *widths):
        super().__init__()


class Doubling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width * 2


class Once(nn.Module):
    times = 0

    def __init__(self, width):
        super().__init__()
        self.width = width
        Once.times += 1
        if Once.times > 1:
            Once.times = 0
            raise RuntimeError("only once")


class Stateful(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def get_extra_state(self):
        return {"a": 1}

    def set_extra_state(self, state):
        pass


class Tensorial(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = halfnet.HalfLinear(6, 6, rank=2)
        self.act, self.drop = nn.ReLU(), nn.Dropout(0.5)


def replaced(name, part):
    """Return a module whose constructor makes another part than it now has."""
    model = Parts()
    setattr(model, name, part)
    return model


class Random(nn.Module):
    """Learns nothing, so its file has nothing to show the draws' dtype."""

    def __init__(self):
        super().__init__()
        self.layer = halfnet.HalfLinear(3, 3, rank=0, noise="fixed", affine=False)


UNSAVABLE = {
    "rebuild, got differences at act.;": lambda: replaced("act", nn.GELU()),
    r"rebuild, got differences at inner\.;": lambda: replaced(
        "inner", halfnet.HalfLinear(6, 6, rank=2, binary=True)
    ),
    r"rebuild, got differences at drop\.;": lambda: replaced("drop", nn.Dropout(0.1)),
    "expected a tensor with data for weight, got one that is not": lambda: nn.LazyLinear(4),
    "model: expected a torch module, got dict": dict,
    "model: expected a tensor with data for weight, got the meta device": lambda: nn.Linear(
        2, 2, device="meta"
    ),
    "expected one that its constructor's arguments rebuild, got differences at 1.weight": tied,
    r"attribute of the same name, got none for 'd_model'": lambda: nn.TransformerEncoderLayer(4, 2),
    r"each constructor argument of model \(Hidden\) .* got none for 'width'": lambda: Hidden(3),
    r"named constructor arguments, got \*widths in Many": lambda: Many(3, 4),
    r"named constructor arguments, got \*args in LSTM": lambda: nn.LSTM(3, 4),
    r"got differences at the arguments of the rebuilt one": lambda: Doubling(3),
    r"rebuild, but building it failed: only once": lambda: Once(3),
    r"expected a tensor with data for _extra_state, got dict": lambda: Stateful(3),
    r"got Tensor for model.table": lambda: Tensorial(torch.zeros(3)),
    r"expected one that its constructor's arguments rebuild, got differences at extra": (
        changed_after_building
    ),
}


@pytest.mark.parametrize("message", UNSAVABLE)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_what_cannot_be_saved_is_refused_and_nothing_written(message, tmp_path):
    with pytest.raises(halfnet.HalfnetError, match=message):
        halfnet.save(UNSAVABLE[message](), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def spoiled(path, tensors=None, **architecture):
    halfnet.save(nn.Sequential(halfnet.HalfLinear(6, 4, rank=2, seed=3)), path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del metadata["sha256"]  # or nothing but that would be noticed
    node = json.loads(metadata["architecture"])
    node["children"]["0"] |= architecture
    save_file(found | (tensors or {}), path, metadata | {"architecture": json.dumps(node)})


def doubling(levels):
    """A few bytes that would make 2**30 modules: each level holds the one below twice."""
    node = {"class": "Sequential", "children": {}}
    place = "model.0"
    for level in range(levels):
        inner = {"a": node, "b": {"same_as": place + ".a" * (levels - level + 1)}}
        node = {"class": "Sequential", "children": inner}
    return {"a": node}


def write(path, content=b"", metadata=None, **tensors):
    if content:
        path.write_bytes(content)
    else:
        save_file(tensors or {"a": torch.zeros(1)}, path, metadata)


FILES = {
    "expected a safetensors file": lambda path: write(path, b"no model at all"),
    "expected the format 'halfnet-model-1' that halfnet.save writes, got None": write,
    "got 'halfnet-model-99'": lambda path: write(path, metadata={"format": "halfnet-model-99"}),
    "cannot be rebuilt: 'architecture'": lambda path: write(
        path, metadata={"format": "halfnet-model-1"}
    ),
    "cannot be rebuilt: Expecting value": lambda path: write(
        path, metadata={"format": "halfnet-model-1", "architecture": "x", "modes": "{}"}
    ),
    "expected a layer of torch or halfnet, got 'system'": lambda path: spoiled(
        path, **{"class": "system"}
    ),
    "expected a layer of torch or halfnet, got 'functional'": lambda path: spoiled(
        path, **{"class": "functional"}
    ),
    "expected the arguments of Linear": lambda path: spoiled(path, **{"class": "Linear"}),
    "got .*args in LSTM": lambda path: spoiled(path, **{"class": "LSTM"}),
    "unexpected keyword argument": lambda path: spoiled(path, args={"command": "ls"}),
    "expected a JSON object, got list": lambda path: spoiled(
        path, **{"class": "Sequential", "children": {"0": []}}
    ),
    "cannot be rebuilt: ": lambda path: spoiled(path, args=3),
    "dtype: expected one of torch's .*, got 'nn'": lambda path: spoiled(
        path, args={"in_features": 6, "out_features": 4, "rank": 2, "dtype": {"dtype": "nn"}}
    ),
    "modulo by zero": lambda path: spoiled(
        path,
        **{"class": "GroupNorm"},
        args={"num_groups": 0, "num_channels": 4, "eps": 1e-5, "affine": True, "bias": True},
    ),
    "model.0.b: expected a module built before, got 'model.0'": lambda path: spoiled(
        path, **{"class": "Sequential", "children": {"b": {"same_as": "model.0"}}}
    ),
    "expected at most 100000 modules": lambda path: spoiled(
        path, **{"class": "Sequential", "children": doubling(30)}
    ),
    r"0\.B: expected shape \(6, 2\), got \(6, 3\)": lambda path: spoiled(
        path, {"0.B": torch.zeros(6, 3)}
    ),
    "checksum of the draws": lambda path: spoiled(
        path, {"0._extra_state": torch.tensor([1, 0, 3, 5, 6])}
    ),
}


@pytest.mark.parametrize("message", FILES)
def test_bad_files_are_named(message, tmp_path):
    path = tmp_path / "model.safetensors"
    FILES[message](path)
    with pytest.raises(HalfnetFileError, match=message) as error:
        halfnet.load(path)
    assert str(path) in str(error.value)


def test_every_truncation_is_found(tmp_path):
    path = tmp_path / "model.safetensors"
    halfnet.save(nn.Sequential(halfnet.HalfLinear(6, 4, rank=2)), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(HalfnetFileError, match="expected a safetensors file"):
            halfnet.load(path)


def test_a_changed_number_is_noticed(tmp_path):
    path = tmp_path / "m"
    halfnet.save(nn.Linear(3, 3), path)
    content = path.read_bytes()
    for place in (len(content) - 1, len(content) - 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(HalfnetFileError, match="was damaged or edited"):
            halfnet.load(path)


def test_the_same_model_is_the_same_bytes(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), halfnet.HalfLinear(3, 2, rank=1))
    texts = {name: name for name in "zyxabc"}
    files = []
    for name in "12":
        halfnet.save(model, tmp_path / name, metadata=texts)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_the_dtype_of_a_layer_that_learns_nothing_comes_back(tmp_path):
    model = Random().bfloat16()
    halfnet.save(model, tmp_path / "m")
    torch.set_default_dtype(torch.float64)
    try:
        loaded = halfnet.load(tmp_path / "m", classes=[Random])
    finally:
        torch.set_default_dtype(torch.float32)
    x = torch.randn(2, 3, dtype=torch.bfloat16)
    assert torch.equal(loaded.layer(x), model.layer(x))


def test_a_seed_of_its_own_and_a_redraw_are_no_difference(tmp_path):
    model = halfnet.resample_(Parts(), seed=5).eval()
    halfnet.save(model, tmp_path / "m")
    loaded = halfnet.load(tmp_path / "m", classes=[Parts])
    assert torch.equal(loaded.inner.weight, model.inner.weight)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(HalfnetFileError, match=r"a file that halfnet\.save wrote, got a fo"):
        halfnet.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere/m'$"):
        halfnet.save(nn.ReLU(), tmp_path / "nowhere" / "m")


def test_a_missing_file_is_pythons_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        halfnet.load(tmp_path / "nothing")
