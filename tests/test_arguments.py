"""Bad input to the layers: one sentence that names the argument, the expectation and the value."""

import numpy as np
import pytest
import torch
from torch import nn

import halfnet
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError


def linear(**options):
    return halfnet.HalfLinear(**{"in_features": 8, "out_features": 4, "rank": 2} | options)


def conv(**options):
    sizes = {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "rank": 2}
    return halfnet.HalfConv2d(**sizes | options)


VALUES = [
    (linear, {"rank": -1}, r"rank: expected an integer from 0 to 8 \(the fan-in is 8\), got -1"),
    (linear, {"rank": 9}, r"rank: expected an integer from 0 to 8 \(the fan-in is 8\), got 9"),
    (linear, {"in_features": 0}, "in_features: expected an integer of at least 1, got 0"),
    (linear, {"out_features": -3}, "out_features: expected an integer of at least 1, got -3"),
    (linear, {"noise": "some"}, "noise: expected one of 'learned', 'fixed', 'none', got 'some'"),
    (linear, {"noise": "none", "rank": 0}, "rank: expected at least 1 with noise='none', got 0"),
    (linear, {"draw": "uniform"}, "draw: expected one of 'normal', 'orthogonal', got 'uniform'"),
    (linear, {"init": "he"}, "init: expected one of 'default', 'paper', got 'he'"),
    (linear, {"seed": -1}, "seed: expected an integer from 0 to 18446744073709551615, got -1"),
    (linear, {"seed": 2**64}, "seed: expected .*, got 18446744073709551616"),
    (conv, {"groups": 3}, "groups: expected a divisor of in_channels = 4, got 3"),
    (conv, {"groups": 4}, "groups: expected a divisor of out_channels = 6, got 4"),
    (conv, {"kernel_size": (3, 3, 3)}, r"kernel_size: expected one integer or 2 of them, got \(3"),
    (conv, {"kernel_size": 0}, "kernel_size: expected an integer of at least 1, got 0"),
    (conv, {"stride": 0}, "stride: expected an integer of at least 1, got 0"),
    (conv, {"dilation": (1, 0)}, "dilation: expected an integer of at least 1, got 0"),
    (conv, {"padding": -1}, "padding: expected an integer of at least 0, got -1"),
    (conv, {"padding": "full"}, "padding: expected one of 'same', 'valid', got 'full'"),
    (conv, {"padding": "same", "stride": 2}, r"stride: expected 1 with padding='same', got \(2, 2"),
    (conv, {"padding_mode": "wrap"}, "padding_mode: expected one of 'zeros', .* got 'wrap'"),
    (conv, {"rank": 37}, r"rank: expected an integer from 0 to 36 \(the fan-in is 36\), got 37"),
]
TYPES = [
    (linear, {"rank": 2.0}, "rank: expected an integer from 0 to 8 .*, got 2.0"),
    (linear, {"rank": "2"}, "rank: expected an integer from 0 to 8 .*, got '2'"),
    (linear, {"rank": None}, "rank: .* got None"),
    (linear, {"rank": True}, "rank: .* got True"),
    (linear, {"noise": None}, "noise: expected one of 'learned', 'fixed', 'none', got None"),
    (linear, {"init": 3}, "init: expected one of 'default', 'paper', got 3"),
    (
        linear,
        {"dtype": torch.int64},
        "dtype: expected one of torch's float32, .* got torch.int64",
    ),
    (linear, {"dtype": torch.complex64}, "dtype: expected one of torch's .*, got torch.complex64"),
    (linear, {"dtype": "float"}, "dtype: expected one of torch's .*, got 'float'"),
    (linear, {"seed": 0.5}, "seed: expected an integer from 0 to 18446744073709551615, got 0.5"),
    (linear, {"dtype": torch.float8_e4m3fn}, "dtype: expected one of torch's .*float8_e4m3fn"),
    (linear, {"affine": "no"}, "affine: expected True, False or 'scale', got 'no'"),
    (linear, {"binary": 1}, "binary: expected True or False, got 1"),
    (conv, {"kernel_size": (3, 0.5)}, "kernel_size: expected an integer of at least 1, got 0.5"),
    (conv, {"groups": 1.5}, "groups: expected an integer of at least 1, got 1.5"),
]


@pytest.mark.parametrize(("make", "options", "message"), VALUES)
def test_values(make, options, message):
    with pytest.raises(HalfnetValueError, match=message):
        make(**options)


@pytest.mark.parametrize(("make", "options", "message"), TYPES)
def test_types(make, options, message):
    with pytest.raises(HalfnetTypeError, match=message):
        make(**options)


def test_errors_are_also_pythons_own():
    assert issubclass(HalfnetValueError, ValueError)
    assert issubclass(HalfnetTypeError, TypeError)
    assert issubclass(HalfnetValueError, halfnet.HalfnetError)
    assert issubclass(HalfnetTypeError, halfnet.HalfnetError)


def test_numpys_integers_are_integers():
    layer = halfnet.HalfLinear(np.int64(8), np.int32(4), rank=np.uint8(2), seed=np.uint64(2**63))
    assert layer.seed == 2**63
    assert type(layer.rank) is int


@pytest.mark.parametrize("binary", [False, True])
def test_inputs_that_do_not_fit(binary):
    layer = linear(binary=binary)
    with pytest.raises(HalfnetValueError, match=r"input: expected size 8 in dimension -1, got sha"):
        layer(torch.randn(3, 7))
    with pytest.raises(HalfnetValueError, match=r"input: expected size 8 .* got shape \(\)"):
        layer(torch.tensor(1.0))
    with pytest.raises(HalfnetTypeError, match="input: expected a tensor, got list"):
        layer([[1.0] * 8])
    with pytest.raises(HalfnetTypeError, match=r"input: expected torch.float32 .* torch.float64"):
        layer(torch.randn(3, 8, dtype=torch.float64))
    with pytest.raises(HalfnetTypeError, match=r"input: expected torch.float32 .* torch.int64"):
        layer(torch.ones(3, 8, dtype=torch.int64))
    with pytest.raises(HalfnetValueError, match=r"input: expected size 4 in dimension -3, got sha"):
        conv(binary=binary)(torch.randn(2, 3, 8, 8))
    with pytest.raises(HalfnetValueError, match=r"input: .* dimension -3, got shape \(4, 8\)"):
        conv(binary=binary)(torch.randn(4, 8))


@pytest.mark.parametrize("rows", [1, 100])  # one for each way to compute
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool], ids=str)
def test_inputs_that_autocast_does_not_cast(dtype, rows):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear()(torch.ones(rows, 8, dtype=torch.float16)).dtype == torch.bfloat16
        with pytest.raises(HalfnetTypeError, match=f"input: expected torch.float32 .* got {dtype}"):
            linear()(torch.ones(rows, 8, dtype=dtype))
        with pytest.raises(
            HalfnetTypeError, match=r"input: expected torch.float64 .* torch.float3"
        ):
            linear(dtype=torch.float64)(torch.ones(rows, 8))


def test_a_failed_construction_takes_no_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with pytest.raises(halfnet.HalfnetError):
        linear(rank=100)
    assert torch.equal(torch.rand(2), expected)


def test_the_weight_cannot_be_replaced_unnoticed():
    with pytest.raises(KeyError, match="attribute 'weight' already exists"):
        linear().weight = nn.Parameter(torch.zeros(4, 8))
    with pytest.raises(AttributeError):
        linear().weight = torch.zeros(4, 8)
