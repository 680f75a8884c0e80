import pytest
import torch
from contract import LayerContract
from torch import nn
from torch.nn import functional as F

import halfnet


class ConvContract(LayerContract):
    paths = ("materialised",)
    widen_name = "out_channels"


class TestHalfConv1d(ConvContract):
    def create(self, **options):
        return halfnet.HalfConv1d(3, 6, 5, **options, padding=2)

    def inputs(self, dtype=torch.float32):
        return torch.randn(4, 3, 9, dtype=dtype)

    def dense(self, x, weight, bias):
        return F.conv1d(x, weight, bias, padding=2)


class TestHalfConv2d(ConvContract):
    def create(self, **options):
        return halfnet.HalfConv2d(2, 6, (3, 2), **options, stride=2, dilation=(1, 2))

    def inputs(self, dtype=torch.float32):
        return torch.randn(3, 2, 7, 6, dtype=dtype)

    def dense(self, x, weight, bias):
        return F.conv2d(x, weight, bias, stride=2, dilation=(1, 2))


class TestHalfConv3d(ConvContract):
    def create(self, **options):
        return halfnet.HalfConv3d(2, 4, 2, **options)

    def inputs(self, dtype=torch.float32):
        return torch.randn(2, 2, 3, 4, 3, dtype=dtype)

    def dense(self, x, weight, bias):
        return F.conv3d(x, weight, bias)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [0, (1, 2), "same", "valid"], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("binary", [False, True])
def test_every_option_as_torch_has_it(padding_mode, padding, groups, binary):
    options = {"padding_mode": padding_mode, "padding": padding, "groups": groups}
    options |= {"dilation": (2, 1)}
    # a kernel of 4 in dilation 1: "same" pads one more after than before
    layer = halfnet.HalfConv2d(4, 6, (2, 4), rank=2, binary=binary, **options)
    x = torch.randn(2, 4, 8, 9)
    torch_layer = nn.Conv2d(4, 6, (2, 4), **options)
    with torch.no_grad():
        torch_layer.weight.copy_(layer.weight)
        torch_layer.bias.copy_(layer.bias)
    torch.testing.assert_close(layer(x), torch_layer(x))
    torch.testing.assert_close(layer(x[0]), torch_layer(x[0]))  # without a batch dimension
    torch.testing.assert_close(layer.to_dense()(x), torch_layer(x))


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (1, 0), (2, 1), (2, 0)])
def test_channels_last_and_strides(stride, padding):
    layer = halfnet.HalfConv2d(4, 6, 3, rank=2, stride=stride, padding=padding)
    x = torch.randn(2, 4, 8, 9)
    out = layer.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(out, layer(x))


def test_fan_in_is_of_one_group():
    layer = halfnet.HalfConv2d(4, 6, 3, rank=18, groups=2)
    assert layer.fan_in == 18
    with pytest.raises(
        halfnet.HalfnetError, match=r"rank: .* 0 to 18 \(the fan-in is 18\), got 19"
    ):
        halfnet.HalfConv2d(4, 6, 3, rank=19, groups=2)
    with pytest.raises(halfnet.HalfnetError, match="groups: expected 1 in a layer to widen, got 2"):
        layer.widen(8)


def test_print():
    layer = halfnet.HalfConv2d(2, 4, 3, rank=2, stride=2, padding="valid", groups=2, seed=9)
    assert repr(layer) == (
        "HalfConv2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=valid, groups=2, rank=2, "
        "seed=9)"
    )
