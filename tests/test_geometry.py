"""The three views: a covariance, a metric and a kernel from one B and sigma."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import halfnet
from halfnet import Geometry

ACTIVATIONS = {
    "relu": torch.relu,
    "sign": torch.sign,
    "erf": torch.erf,
    "identity": lambda a: a,
}


def parts(d=20, k=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    B = torch.randn(d, k, dtype=torch.float64, generator=generator)
    sigma = torch.rand(d, dtype=torch.float64, generator=generator)
    return B, sigma


GEOMETRIES = {
    "B and sigma": lambda: Geometry(*parts()),
    "B": lambda: Geometry(parts()[0]),
    "sigma": lambda: Geometry(None, parts()[1]),
}


@pytest.fixture(params=GEOMETRIES)
def geometry(request):
    return GEOMETRIES[request.param]()


def rows(n, d=20, scale=0.3):
    return torch.randn(n, d, dtype=torch.float64) * scale


# -- covariance, inner product and distance -------------------------------------------------------


def test_covariance_inner_and_distance_are_one(geometry):
    x, y = rows(7), rows(7)
    sigma = geometry.covariance()
    torch.testing.assert_close(geometry.inner(x, y), torch.einsum("ni,ij,nj->n", x, sigma, y))
    squared = torch.einsum("ni,ij,nj->n", x - y, sigma, x - y)
    torch.testing.assert_close(geometry.distance(x, y), squared.sqrt())


def test_inner_and_distance_broadcast(geometry):
    x, y = rows(3)[:, None], rows(5)[None]
    assert geometry.inner(x, y).shape == geometry.distance(x, y).shape == (3, 5)
    torch.testing.assert_close(geometry.distance(x, y)[1, 2], geometry.distance(x[1, 0], y[0, 2]))
    torch.testing.assert_close(geometry.inner(x, y), geometry.kernel(x[:, 0], y[0], "identity"))


def test_embedding_has_the_distances_of_the_subspace():
    B, _ = parts()
    geometry = Geometry(B)
    x, y = rows(6), rows(6)
    apart = (geometry.embed(x) - geometry.embed(y)).norm(dim=-1)
    torch.testing.assert_close(apart, geometry.distance(x, y))
    assert Geometry(None, parts()[1]).embed(x).shape == (6, 0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_distance_is_a_metric(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y, z = torch.randn(3, 20, dtype=torch.float64, generator=generator)
    geometry = Geometry(*parts(seed=seed))
    d = geometry.distance
    assert d(x, x) == 0
    assert d(x, y) > 0
    assert d(x, y) == d(y, x)
    assert d(x, z) <= d(x, y) + d(y, z) + 1e-12


def test_only_covariance_builds_a_matrix_of_d_by_d():
    geometry = Geometry(torch.randn(10**6, 2), torch.rand(10**6))  # d x d would be 4 TB
    x = torch.randn(3, 10**6)
    geometry.kernel(x)
    geometry.distance(x[0], x[1])
    geometry.spectrum()
    assert geometry.sample(2, 0).shape == (2, 10**6)


def test_spectrum_is_the_singular_values(geometry):
    B = geometry.B
    if B is None:
        assert geometry.spectrum().shape == (0,)
        return
    values = geometry.spectrum()
    torch.testing.assert_close(values.square().sum(), B.square().sum())
    torch.testing.assert_close(values**2, torch.linalg.eigvalsh(B.T @ B).flip(0))


# -- samples --------------------------------------------------------------------------------------


def test_the_empirical_covariance_of_samples_approaches_sigma(geometry):
    n = 100_000
    r = geometry.sample(n, seed=3)
    sigma = geometry.covariance()
    empirical = r.T @ r / n
    # the standard error of an entry: sqrt((s_ij^2 + s_ii s_jj) / n)
    error = ((sigma**2 + torch.outer(sigma.diag(), sigma.diag())) / n).sqrt().clamp(min=1e-12)
    assert ((empirical - sigma) / error).abs().max() < 5


def test_the_empirical_covariance_of_a_layers_units_approaches_sigma():
    n = 100_000
    layer = halfnet.HalfLinear(12, n, rank=3, affine=False, seed=5)
    with torch.no_grad():
        layer.B.copy_(torch.randn(12, 3))
        layer.sigma.copy_(torch.rand(12))
    sigma = layer.geometry.covariance()
    error = ((sigma**2 + torch.outer(sigma.diag(), sigma.diag())) / n).sqrt()
    assert ((layer.weight.T @ layer.weight / n - sigma) / error).abs().max() < 5


def test_samples_are_differentiable_and_follow_torchs_seed():
    B, sigma = (part.requires_grad_() for part in parts())
    assert gradcheck(lambda B, sigma: Geometry(B, sigma).sample(3, 1), (B, sigma))
    torch.manual_seed(5)
    first = Geometry(B, sigma).sample(4)
    torch.manual_seed(5)
    assert torch.equal(Geometry(B, sigma).sample(4), first)
    assert not torch.equal(Geometry(B, sigma).sample(4), first)
    assert Geometry(B, sigma).sample(0, 1).shape == (0, 20)


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_kernels_agree_with_monte_carlo(activation, geometry):
    g, n = ACTIVATIONS[activation], 100_000
    x, y = rows(6), rows(4)
    y[0] = 3 * x[0]
    y[1] = -x[1]
    r = geometry.sample(n, seed=7)
    fx, fy = g(x @ r.T), g(y @ r.T)
    estimate = fx @ fy.T / n
    spread = ((fx**2) @ (fy**2).T / n - estimate**2).clamp(min=0).sqrt()
    error = spread / n**0.5 + 1e-9
    assert ((geometry.kernel(x, y, activation) - estimate).abs() / error).max() < 4.5


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_kernel_of_x_alone_is_symmetric_and_positive(activation, geometry):
    x = rows(30)
    K = geometry.kernel(x, activation=activation)
    torch.testing.assert_close(K, K.T)
    torch.testing.assert_close(K, geometry.kernel(x, x.clone(), activation), atol=2e-7, rtol=1e-7)
    assert torch.linalg.eigvalsh(K).min() > -1e-9


def test_kernels_agree_with_each_other_where_theory_says_so(geometry):
    x, y = rows(6), rows(5)

    def kernel(activation, scale=1.0):
        return geometry.kernel(x * scale, y * scale, activation)

    # relu(a) relu(b) + relu(-a) relu(-b) + cross terms = ab: the even part of the kernel
    relu = geometry.kernel(x, y) - geometry.kernel(x, -y)
    torch.testing.assert_close(2 * relu, kernel("identity"))
    # erf turns into sign where its argument grows, and into 2 a / sqrt(pi) where it shrinks
    torch.testing.assert_close(kernel("erf", 1e5), kernel("sign"), rtol=1e-4, atol=1e-4)
    small = kernel("erf", 1e-4) * 1e8
    torch.testing.assert_close(small, kernel("identity") * 4 / math.pi, rtol=1e-4, atol=1e-6)
    # relu's kernel is homogeneous, sign's ignores scale, and d relu / d(inner) is (1 + sign) / 4
    torch.testing.assert_close(kernel("relu", 3.0), 9 * kernel("relu"))
    torch.testing.assert_close(kernel("sign", 3.0), kernel("sign"))
    diagonal = geometry.kernel(x).diagonal()
    torch.testing.assert_close(diagonal, geometry.inner(x, x) / 2)
    torch.testing.assert_close(
        geometry.kernel(x, activation="sign").diagonal(), torch.ones(6, dtype=torch.float64)
    )


def awkward():
    """Rows that are equal, zero, parallel and opposite."""
    x = rows(6)
    x[1] = x[0]
    x[2] = 0
    x[3] = 2.5 * x[0]
    x[4] = -x[0]
    return x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_finite_everywhere(activation, dtype, geometry):
    x = awkward().to(dtype).requires_grad_()
    leaves = [p.to(dtype).requires_grad_() for p in (geometry.B, geometry.sigma) if p is not None]
    both = len(leaves) == 2
    geometry = Geometry(*leaves) if both or geometry.sigma is None else Geometry(None, *leaves)
    for other in (None, x, x.detach().clone(), torch.zeros_like(x)):
        K = geometry.kernel(x, other, activation)
        first = torch.autograd.grad(K.sum(), [x, *leaves], create_graph=True)
        assert all(gradient.isfinite().all() for gradient in first)
        second = sum((gradient**2).sum() for gradient in first)
        assert all(
            gradient is None or gradient.isfinite().all()
            for gradient in torch.autograd.grad(second, [x, *leaves], allow_unused=True)
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_subnormal_rows_are_finite(activation):
    geometry = Geometry(None, torch.ones(3))
    x = torch.tensor([[1e-42, 0, 0], [0.3, 0.5, 0], [2e-38, 0, 0]], requires_grad=True)
    kernel = geometry.kernel(x, activation=activation)
    kernel.sum().backward()
    assert kernel.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_kernel_gradients(activation):
    B, sigma = (part.requires_grad_() for part in parts(5, 2))
    x, y = rows(3, 5).requires_grad_(), rows(2, 5).requires_grad_()

    def run(x, y, B, sigma):
        return Geometry(B, sigma).kernel(x, y, activation)

    assert gradcheck(run, (x, y, B, sigma))
    assert gradgradcheck(run, (x, y, B, sigma))


def test_relu_kernel_gradient_is_exact_along_parallel_rows():
    """Away from its cusp at 0 the kernel of a row with itself is smooth: x' Sigma x / 2."""
    geometry = Geometry(*parts())
    x = rows(4).requires_grad_()
    geometry.kernel(x).diagonal().sum().backward()
    torch.testing.assert_close(x.grad, x.detach() @ geometry.covariance())


def test_sign_kernel_cusps_have_gradient_zero():
    geometry = Geometry(*parts())
    x = rows(1).requires_grad_()
    y = 2 * x.detach()
    K = geometry.kernel(x, y, "sign")
    assert K.item() == 1
    assert torch.autograd.grad(K, x)[0].abs().max() == 0


@pytest.mark.parametrize("activation", ["relu", "erf", "sign"])
def test_float32_kernels_at_784_inputs_agree_with_float64(activation):
    B, sigma = parts(784, 16)
    x = torch.rand(30, 784, dtype=torch.float64)
    x[1] = x[0] * (1 + 1e-6)
    for scale in (1e-3, 1, 1e3):
        exact = Geometry(B, sigma).kernel(x * scale, activation=activation)
        single = Geometry(B.float(), sigma.float()).kernel(
            (x * scale).float(), activation=activation
        )
        # angles below 1e-3 are not resolved, which relu's smooth kernel doesn't feel
        limit = 1e-5 if activation == "relu" else 1.5e-3
        assert ((single - exact).abs() / exact.abs().max()).max() < limit
    if activation == "sign":
        assert torch.equal(single.diagonal(), torch.ones(30))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_half_precision_geometries_are_computed_in_float32(activation, dtype):
    B, sigma = (part.to(dtype) for part in parts(784, 16))
    x = torch.rand(10, 784).to(dtype)
    x = x / 8 if activation in ("relu", "identity") else x  # or the kernel itself would overflow
    low, high = Geometry(B, sigma), Geometry(B.double(), sigma.double())
    kernel = low.kernel(x, activation=activation)
    assert kernel.dtype == dtype
    torch.testing.assert_close(
        kernel.double(), high.kernel(x.double(), activation=activation), rtol=0.01, atol=0.01
    )
    for single in (low.spectrum(), low.distance(x, x.flip(0)), low.inner(x, x)):
        assert single.dtype == dtype
        assert single.isfinite().all()


def test_large_and_small_norms_do_not_overflow():
    geometry = Geometry(*(part.float() for part in parts()))
    x = rows(5).float()
    expected = geometry.kernel(x, activation="sign")
    for scale in (1e-25, 1e18):
        torch.testing.assert_close(geometry.kernel(x * scale, activation="sign"), expected)
    torch.testing.assert_close(geometry.kernel(x * 1e15, activation="erf"), expected)
    big = geometry.kernel(x * 1e15, activation="relu")
    torch.testing.assert_close(big / 1e30, geometry.kernel(x))
    assert geometry.distance(x * 1e25, x * 0).isfinite().all()


def test_autocast_does_not_blur_a_kernel():
    geometry = Geometry(*(part.float() for part in parts()))
    x = rows(5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(geometry.kernel(x), geometry.kernel(x.clone()))
        blurred = geometry.kernel(x, activation="sign")
        covariance = geometry.covariance()
    assert torch.equal(blurred, geometry.kernel(x, activation="sign"))
    assert torch.equal(covariance, geometry.covariance())


@pytest.mark.parametrize("activation", ["relu", "sign"])
def test_at_a_zero_row_the_gradient_is_zero_by_definition(activation):
    geometry = Geometry(*parts())
    zero = torch.zeros(1, 20, dtype=torch.float64, requires_grad=True)
    geometry.kernel(rows(3), zero, activation).sum().backward()
    assert zero.grad.abs().max() == 0


def test_at_a_zero_row_the_smooth_kernels_have_their_own_gradient():
    geometry = Geometry(*parts())
    y = rows(3)
    images = y @ geometry.covariance()
    sizes = (1 + 2 * geometry.inner(y, y)).sqrt()[:, None]
    gradients = {"identity": images, "erf": 4 / math.pi * images / sizes}
    for activation, gradient in gradients.items():
        zero = torch.zeros(1, 20, dtype=torch.float64, requires_grad=True)
        geometry.kernel(zero, y, activation).sum().backward()
        torch.testing.assert_close(zero.grad, gradient.sum(0, keepdim=True))
        together = torch.cat([torch.zeros_like(y[:1]), y]).requires_grad_()
        geometry.kernel(together, activation=activation)[0].sum().backward()
        torch.testing.assert_close(together.grad[:1], gradient.sum(0, keepdim=True))


def test_relu_kernel_in_forward_mode():
    geometry, x, direction = Geometry(*parts()), rows(4), rows(4)
    _, tangent = torch.func.jvp(geometry.kernel, (x,), (direction,))
    step = 1e-6
    ahead, behind = (geometry.kernel(x + sign * step * direction) for sign in (1, -1))
    torch.testing.assert_close(tangent, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_zero_rows():
    geometry = Geometry(*parts())
    x, zero = rows(1), torch.zeros(1, 20, dtype=torch.float64)
    assert geometry.kernel(x, zero).item() == 0
    assert geometry.kernel(x, zero, "sign").item() == 0
    assert geometry.kernel(zero, zero, "sign").item() == 1  # sign(0) is +1, twice
    assert geometry.kernel(zero, zero, "erf").item() == 0


def test_distance_gradient_is_zero_at_its_cusp_and_right_elsewhere():
    geometry = Geometry(*parts())
    x = rows(2).requires_grad_()
    geometry.distance(x, x.detach().clone()).sum().backward()
    assert x.grad.abs().max() == 0
    y = rows(2).requires_grad_()
    assert gradcheck(geometry.distance, (x, y))
    assert gradgradcheck(geometry.distance, (x, y))


def test_everything_is_differentiable_in_b_and_sigma():
    B, sigma = (part.requires_grad_() for part in parts(5, 2))
    x, y = rows(3, 5), rows(3, 5)
    for run in (
        lambda g: g.covariance(),
        lambda g: g.inner(x, y),
        lambda g: g.distance(x, y),
        lambda g: g.embed(x),
        lambda g: g.spectrum(),
    ):
        assert gradcheck(lambda B, sigma, run=run: run(Geometry(B, sigma)), (B, sigma))


# -- binary layers --------------------------------------------------------------------------------


def test_a_binary_geometry_has_unit_variances():
    B, sigma = parts()
    covariance = Geometry(B, sigma).covariance()
    scale = covariance.diag().rsqrt()
    binary = Geometry(B, sigma, binary=True)
    torch.testing.assert_close(binary.covariance(), covariance * scale[:, None] * scale)
    x, y = rows(4), rows(4)
    expected = torch.einsum("ni,ij,nj->n", x, binary.covariance(), y)
    torch.testing.assert_close(binary.inner(x, y), expected)


def test_the_sign_of_binary_samples_has_the_arcsine_covariance():
    """What theory says of a layer's binary weights: E[sign r_i sign r_j] = 2/pi asin(rho_ij)."""
    n = 100_000
    layer = halfnet.HalfLinear(8, n, rank=3, binary=True, affine=False, seed=3)
    with torch.no_grad():
        layer.B.copy_(torch.randn(8, 3))
        layer.sigma.copy_(torch.rand(8))
    expected = torch.asin(layer.geometry.covariance().clamp(-1, 1)) * 2 / math.pi
    found = layer.weight.T @ layer.weight / n
    torch.testing.assert_close(found, expected, atol=5 / n**0.5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_binary_geometries_of_small_numbers_in_half_precision(dtype):
    B, sigma = (part.to(dtype) * 1e-4 for part in parts())  # whose squares are 0 in float16
    variances = Geometry(B, sigma, binary=True).covariance().diag()
    assert variances.dtype == dtype
    torch.testing.assert_close(variances.float(), torch.ones(20), rtol=0.02, atol=0)


@pytest.mark.parametrize("scale", [1e-13, 1e-20, 1e-30])
def test_a_binary_geometry_forgets_any_scale(scale):
    B, sigma = (part.float() for part in parts())
    wanted = Geometry(B, sigma, binary=True).covariance()
    small = [(part * scale).requires_grad_() for part in (B, sigma)]
    covariance = Geometry(*small, binary=True).covariance()
    torch.testing.assert_close(covariance, wanted, rtol=1e-4, atol=1e-5)
    covariance[0, 1].backward()
    assert all(part.grad.isfinite().all() for part in small)


def test_a_binary_kernel_is_refused_with_the_reason():
    layer = halfnet.HalfLinear(20, 10, rank=3, binary=True)
    with pytest.raises(
        halfnet.HalfnetError, match="kernel: expected a continuous layer, got a bin"
    ):
        layer.geometry.kernel(torch.randn(3, 20))


def test_coordinates_that_never_vary_stay_zero_in_a_binary_geometry():
    B, sigma = parts()
    B[3], sigma[3] = 0, 0
    B.requires_grad_()
    covariance = Geometry(B, sigma, binary=True).covariance()
    assert covariance[3].abs().max() == 0
    covariance.sum().backward()
    assert B.grad.isfinite().all()


# -- of layers, and bad input ---------------------------------------------------------------------


def test_the_geometry_of_each_kind_of_layer():
    fixed = halfnet.HalfLinear(6, 4, rank=2, noise="fixed").geometry
    torch.testing.assert_close(fixed.covariance(), fixed.B @ fixed.B.T + torch.eye(6))
    none = halfnet.HalfLinear(6, 4, rank=2, noise="none").geometry
    torch.testing.assert_close(none.covariance(), none.B @ none.B.T)
    random = halfnet.HalfLinear(6, 4, rank=0, noise="fixed", affine=False).geometry
    torch.testing.assert_close(random.covariance(), torch.eye(6))
    assert random.rank == 0
    conv = halfnet.HalfConv2d(3, 4, 5, rank=2).geometry
    assert (conv.fan_in, conv.rank) == (75, 2)
    assert repr(conv) == "Geometry(fan_in=75, rank=2)"
    assert repr(halfnet.HalfLinear(6, 4, 2, binary=True).geometry).endswith("rank=2, binary)")


def test_the_relu_kernel_is_the_limit_of_a_wide_layer():
    layer = halfnet.HalfLinear(20, 200_000, rank=4, affine=False)
    x = torch.randn(5, 20)
    features = torch.relu(layer(x))
    limit = layer.geometry.kernel(x)
    error = (features @ features.T / 200_000 - limit).abs().max() / limit.max()
    assert error < 0.02


@pytest.mark.parametrize("spoilt", ["x", "B"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_stays_none(spoilt, value):
    """A training that diverged must not look like one that learned to tell nothing apart."""
    B, sigma = parts()
    x, y = rows(3), rows(4)
    (x if spoilt == "x" else B)[1] = value
    geometry = Geometry(B, sigma)
    assert not geometry.distance(x[1], y[0]).isfinite()
    for activation in ("relu", "sign", "erf", "identity"):
        assert not geometry.kernel(x, y, activation=activation)[1].isfinite().any(), activation
        assert not geometry.kernel(x, activation=activation)[1, 1].isfinite(), activation
    assert not Geometry(B * value, sigma, binary=True).covariance().isfinite().all()


def test_distances_of_large_half_precision_numbers():
    geometry = Geometry(None, torch.full((6,), 1e-3, dtype=torch.float16))
    x = torch.zeros(6, dtype=torch.float16)
    x[0] = 60000
    assert geometry.distance(x, -x) == pytest.approx(120, rel=1e-2)


def test_autocast_does_not_blur_an_embedding():
    B, _ = (part.float() for part in parts())
    x = rows(3).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = Geometry(B).embed(x)
    assert torch.equal(found, x @ B)


BAD_CALLS = {
    r"sigma: expected torch.float32 as B, got torch.float64": lambda: Geometry(
        torch.ones(5, 2), torch.ones(5, dtype=torch.float64)
    ),
    "B: expected a tensor where sigma is None": lambda: Geometry(None),
    r"B: expected shape \(d, k\), both at least 1, got \(5,\)": lambda: Geometry(torch.ones(5)),
    r"B: expected .* both at least 1, got \(5, 0\)": lambda: Geometry(torch.ones(5, 0)),
    r"sigma: expected a floating-point tensor, got torch.int64": lambda: Geometry(
        None, torch.tensor([1, 2])
    ),
    r"sigma: expected shape \(5,\), got \(4,\)": lambda: Geometry(torch.ones(5, 2), torch.ones(4)),
    r"sigma: expected shape \(d,\), got \(2, 2\)": lambda: Geometry(None, torch.ones(2, 2)),
    r"x: expected size 20 in the last dimension, got shape \(3, 7\)": lambda: Geometry(
        *parts()
    ).embed(rows(3, 7)),
    r"y: expected size 20 in the last dimension": lambda: Geometry(*parts()).inner(
        rows(3), rows(3, 7)
    ),
    r"x: expected rows \(n, d\), got shape \(20,\)": lambda: Geometry(*parts()).kernel(rows(3)[0]),
    r"x: expected torch.float64, got torch.float32": lambda: Geometry(*parts()).embed(
        torch.ones(3, 20)
    ),
    "B: expected a tensor, got list": lambda: Geometry([[1.0]]),
    r"y: expected a tensor, got list": lambda: Geometry(*parts()).kernel(rows(3), [[1.0]]),
    r"activation: expected one of 'relu', 'sign', 'erf', 'identity', got 'tanh'": lambda: Geometry(
        *parts()
    ).kernel(rows(3), activation="tanh"),
    r"n: expected an integer of at least 0, got -1": lambda: Geometry(*parts()).sample(-1),
    r"seed: expected an integer from 0 to 18446744073709551615, got -1": lambda: Geometry(
        *parts()
    ).sample(1, -1),
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_input(message):
    with pytest.raises(halfnet.HalfnetError, match=message):
        BAD_CALLS[message]()
