import pytest
import torch

import halfnet


def values(layer):
    return layer.B.std().item(), layer.sigma[0].item(), layer.u[0].item(), layer.u0[0].item()


def test_the_papers():
    B, *rest = values(halfnet.HalfLinear(784, 64, rank=16, init="paper"))
    assert pytest.approx(0.01, rel=0.05) == B
    assert rest == [1.0, 1.0, 0.0]


def test_numbers_and_what_they_leave_to_the_default():
    default = values(halfnet.HalfLinear(784, 64, rank=16))
    B, sigma, u, u0 = values(halfnet.HalfLinear(784, 64, rank=16, init=halfnet.Init(B=2.0, u0=3.0)))
    assert pytest.approx(2, rel=0.05) == B
    assert (sigma, u) == default[1:3]
    assert u0 == 3
    assert halfnet.Init(B=0.0) == halfnet.Init(B=0)
    zero = halfnet.HalfLinear(784, 64, rank=16, init=halfnet.Init(B=0))
    assert zero.B.abs().max() == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"B": -1}, r"init\.B: expected a finite number of at least 0, got -1"),
        ({"sigma": "x"}, r"init\.sigma: expected a finite number, got 'x'"),
        ({"u": float("nan")}, r"init\.u: expected a finite number, got nan"),
        ({"u": 10**400}, r"init\.u: expected a finite number, got 1000"),
        ({"u0": True}, r"init\.u0: expected a finite number, got True"),
    ],
)
def test_numbers_that_are_none(values, message):
    with pytest.raises(halfnet.HalfnetError, match=message):
        halfnet.Init(**values)


@pytest.mark.parametrize("options", [{}, {"noise": "none"}, {"noise": "fixed"}, {"binary": True}])
def test_the_default_keeps_the_size_of_signals_at_any_fan_in(options):
    """Standardized inputs give outputs of one size, whether the fan-in is 64 or 8192."""
    sizes = []
    for fan_in in (64, 784, 8192):
        layer = halfnet.HalfLinear(fan_in, 256, rank=16, **options)
        sizes.append(layer(torch.randn(200, fan_in)).std().item())
    assert max(sizes) < 1.5 * min(sizes)
    assert 0.05 < sizes[0] < 5
