import pytest
import torch
from torch import nn

import halfnet
from halfnet._draws import derived_seed


def model():
    shared = halfnet.HalfLinear(6, 6, rank=2)
    return nn.ModuleDict(
        {
            "a": shared,
            "b": nn.Sequential(halfnet.HalfConv1d(2, 4, 3, rank=2, draw="orthogonal"), shared),
            "c": nn.Linear(6, 2),
        }
    )


def test_redraws_each_layer_from_the_seed_and_its_name():
    first, second = model(), model()
    learned = {name: p.clone() for name, p in first.named_parameters()}
    assert halfnet.resample_(first, seed=5) is first
    halfnet.resample_(second, seed=5)
    for name, layer in first.named_modules():
        if isinstance(layer, halfnet.HalfLayer):
            assert layer.seed == derived_seed(5, name)
            assert torch.equal(layer.z, second.get_submodule(name).z)
            assert torch.equal(layer.eps, second.get_submodule(name).eps)
    assert first["a"] is first["b"][1]
    assert first["b"][0].draw == "orthogonal"
    assert all(torch.equal(p, learned[name]) for name, p in first.named_parameters())
    halfnet.resample_(first, seed=6)
    assert not torch.isclose(first["a"].eps, second["a"].eps).any(dim=1).any()


def test_derived_seeds_are_stable():
    """A model that was resampled with a seed is that model for ever: these never change."""
    assert derived_seed(5, "blocks.0.mlp") == 3966776706042470381
    assert derived_seed(5, "") != derived_seed(5, "0") != derived_seed(50, "")


def test_a_compiled_model_gets_the_same_draws():
    plain, compiled = (nn.Sequential(halfnet.HalfLinear(6, 4, rank=2)) for _ in range(2))
    halfnet.resample_(plain, seed=3)
    halfnet.resample_(torch.compile(compiled), seed=3)
    assert torch.equal(plain[0].eps, compiled[0].eps)
    halfnet.resample_(plain[0], seed=4)  # the layer itself, whose name is empty
    halfnet.resample_(torch.compile(compiled[0]), seed=4)
    assert torch.equal(plain[0].eps, compiled[0].eps)


def test_without_a_seed_torchs_generator_governs():
    layer = halfnet.HalfLinear(6, 4, rank=2)
    torch.manual_seed(3)
    first = halfnet.resample_(layer).eps.clone()
    assert not torch.equal(halfnet.resample_(layer).eps, first)
    torch.manual_seed(3)
    assert torch.equal(halfnet.resample_(layer).eps, first)


def test_dtype_and_state_follow():
    layer = halfnet.HalfLinear(6, 4, rank=2, dtype=torch.bfloat16)
    halfnet.resample_(layer, seed=1)
    other = halfnet.HalfLinear(6, 4, rank=2, dtype=torch.bfloat16)
    other.load_state_dict(layer.state_dict())
    assert layer.eps.dtype == torch.bfloat16
    assert torch.equal(other.eps, layer.eps)


def test_bad_input():
    with pytest.raises(halfnet.HalfnetError, match="module: expected a torch module, got int"):
        halfnet.resample_(3)
    with pytest.raises(ValueError, match="module: expected one with half layers, got Linear with"):
        halfnet.resample_(nn.Linear(3, 3))
    layer = halfnet.HalfLinear(6, 4, rank=2, seed=9)
    for seed in (-1, 2**64, 0.5, "x", True):
        with pytest.raises(halfnet.HalfnetError, match="seed: expected an integer from 0 to"):
            halfnet.resample_(layer, seed=seed)
    assert layer.seed == 9
