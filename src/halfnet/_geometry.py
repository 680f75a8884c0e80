"""The geometry that a half layer learns: Sigma = B B' + diag(sigma^2), as a metric and a kernel."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from halfnet import _checks, _draws, _products
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError


class Geometry:
    """The distribution N(0, Sigma) of weight vectors, Sigma = B B' + diag(sigma^2).

    `layer.geometry` gives a layer's. The same object is an inner product and a distance on the
    inputs, and the kernel that a layer of ever more units converges to; the units' own u and u0
    have no part in it. Everything is differentiable in B, sigma and the inputs, with finite
    gradients everywhere, and only `covariance` builds a d x d matrix.

    For a binary layer it is the geometry of the latent r_h, each coordinate scaled to unit
    variance, because the sign forgets scale.

    Args:
        B: Tensor (d, k), or None for a diagonal Sigma.
        sigma: Tensor (d,), or None for Sigma = B B'.
        binary: Whether the weights are the signs of the r_h.

    Examples:
        >>> geometry = halfnet.HalfLinear(784, 64, rank=16).geometry
        >>> x = torch.randn(5, 784)
        >>> geometry.embed(x).shape, geometry.kernel(x).shape
        (torch.Size([5, 16]), torch.Size([5, 5]))
    """

    def __init__(
        self, B: Tensor | None, sigma: Tensor | None = None, *, binary: bool = False
    ) -> None:
        for name, part in (("B", B), ("sigma", sigma)):
            if part is not None and not isinstance(part, Tensor):
                raise HalfnetTypeError(f"{name}: expected a tensor, got {type(part).__name__}")
            if part is not None and not part.is_floating_point():
                raise HalfnetTypeError(
                    f"{name}: expected a floating-point tensor, got {part.dtype}"
                )
        if B is not None and sigma is not None and B.dtype != sigma.dtype:
            raise HalfnetTypeError(f"sigma: expected {B.dtype} as B, got {sigma.dtype}")
        if B is None and sigma is None:
            raise HalfnetValueError("B: expected a tensor where sigma is None, got None")
        if B is not None and (B.dim() != 2 or not B.numel()):
            raise HalfnetValueError(
                f"B: expected shape (d, k), both at least 1, got {tuple(B.shape)}"
            )
        if sigma is not None and sigma.shape != ((sigma.numel() if B is None else len(B)),):
            expected = "(d,)" if B is None else (len(B),)
            raise HalfnetValueError(f"sigma: expected shape {expected}, got {tuple(sigma.shape)}")
        if binary:
            B, sigma = _unit_variance(B, sigma)
        self.B, self.sigma, self.binary = B, sigma, binary

    @property
    def _like(self) -> Tensor:
        like = self.sigma if self.B is None else self.B
        assert like is not None
        return like

    @property
    def fan_in(self) -> int:
        """Number of coordinates, d."""
        return len(self._like)

    @property
    def rank(self) -> int:
        """Number of columns of B, k."""
        return 0 if self.B is None else self.B.shape[1]

    def __repr__(self) -> str:
        kind = ", binary" if self.binary else ""
        return f"Geometry(fan_in={self.fan_in}, rank={self.rank}{kind})"

    def covariance(self) -> Tensor:
        """Return Sigma, (d, d)."""
        diagonal = None if self.sigma is None else torch.diag(self.sigma.square())
        if self.B is None:
            assert diagonal is not None
            return diagonal
        with _products.no_autocast(self.B):
            low_rank = self.B @ self.B.mT
        return low_rank if diagonal is None else low_rank + diagonal

    def embed(self, x: Tensor) -> Tensor:
        """Return B'x, (..., d) to (..., k): the learned subspace's coordinates.

        With noise="none" the Euclidean distance between embeddings is `distance`.
        """
        x = self._checked("x", x)
        with _products.no_autocast(x):
            return x.new_zeros(*x.shape[:-1], 0) if self.B is None else x @ self.B

    def inner(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x' Sigma y for each pair of vectors in the last dimension; the rest broadcasts."""
        inner = (
            self._coordinates(self._lifted("x", x)) * self._coordinates(self._lifted("y", y))
        ).sum(-1)
        return inner.to(self._like.dtype)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the Mahalanobis distance sqrt((x - y)' Sigma (x - y)), the rest broadcasting.

        Where the distance is 0 it has a cusp, and the gradient is 0 by definition.
        """
        difference = self._lifted("x", x) - self._lifted("y", y)
        norms, _ = _norms_and_directions(self._coordinates(difference))
        return norms.squeeze(-1).to(self._like.dtype)

    def kernel(self, x: Tensor, y: Tensor | None = None, activation: str = "relu") -> Tensor:
        """Return E[g(r.x) g(r.y)] over r ~ N(0, Sigma), in closed form, for all pairs of rows.

        Where a kernel has a cusp, the gradient is 0 by definition: for relu and sign at a row with
        x' Sigma x = 0, and for sign also where two rows are parallel. Rows count as parallel where
        their angle is below what the dtype resolves (about 1e-3 in float32, 4e-8 in float64). Half
        precisions are computed in float32. torch.compile leaves the relu kernel to Python.

        Args:
            x: Rows, (n, d).
            y: Rows, (l, d); None for x.
            activation: g: "relu", "sign", "erf" or "identity".

        Returns:
            The (n, l) kernel matrix.
        """
        _checks.choice("activation", activation, _KERNELS)
        if self.binary:
            raise HalfnetValueError(
                "kernel: expected a continuous layer, got a binary one: a sum of signs is not "
                "normal, so the expectation has no closed form"
            )
        with _products.no_autocast(self._like):
            rows = self._rows("x", x)
            others = rows if y is None else self._rows("y", y)
            a, fx = _norms_and_directions(rows)
            b, fy = (a, fx) if y is None else _norms_and_directions(others)
            cosine = fx @ fy.mT
            if y is None:  # a row's angle with itself is 0, whatever rounding says
                itself = torch.eye(len(a), dtype=torch.bool, device=a.device)
                cosine = torch.where(itself, torch.where(a > 0, 1, a).detach(), cosine)
            kernel: Tensor = _KERNELS[activation](_Pairs(rows, others, a, b.mT, cosine))
            return kernel.to(self._like.dtype)

    def sample(self, n: int, seed: int | None = None) -> Tensor:
        """Return n vectors drawn from N(0, Sigma), (n, d), differentiable in B and sigma.

        The draws have a stream of their own: a layer of the same seed shares none of them.
        None takes a seed from torch's global generator.
        """
        n = _checks.integer("n", n, 0)
        seed = _checks.seed_or_new("seed", seed)

        def draw(stream: int, width: int) -> Tensor:
            return torch.from_numpy(_draws.normal(seed, stream, n, width)).to(self._like)

        z = None if self.B is None else draw(_draws.SAMPLE_Z, self.rank)
        eps = None if self.sigma is None else draw(_draws.SAMPLE_EPS, self.fan_in)
        return _products.directions(self.B, self.sigma, z, eps)

    def spectrum(self) -> Tensor:
        """Return the singular values of B, largest first, (k,).

        They are the standard deviations of r along the principal axes of the learned subspace;
        their squares are the energies that the paper's spectral analysis adds up.
        """
        if self.B is None:
            return self._like.new_zeros(0)
        values: Tensor = torch.linalg.svdvals(_products.at_least_float32(self.B))
        return values.to(self.B.dtype)

    def _coordinates(self, x: Tensor) -> Tensor:
        """Return (B'x, sigma * x): vectors whose ordinary inner product is `inner`."""
        with _products.no_autocast(x):
            parts = [] if self.B is None else [x @ _products.at_least_float32(self.B)]
            parts += [] if self.sigma is None else [x * _products.at_least_float32(self.sigma)]
            return torch.cat(parts, -1)

    def _lifted(self, name: str, x: Tensor) -> Tensor:
        """Return `x`, checked and in float32 at least: half precisions have too few digits."""
        return _products.at_least_float32(self._checked(name, x))

    def _rows(self, name: str, x: Tensor) -> Tensor:
        if isinstance(x, Tensor) and x.dim() != 2:
            raise HalfnetValueError(f"{name}: expected rows (n, d), got shape {tuple(x.shape)}")
        return self._coordinates(self._lifted(name, x))

    def _checked(self, name: str, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            raise HalfnetTypeError(f"{name}: expected a tensor, got {type(x).__name__}")
        if x.dim() == 0 or x.shape[-1] != self.fan_in:
            raise HalfnetValueError(
                f"{name}: expected size {self.fan_in} in the last dimension, "
                f"got shape {tuple(x.shape)}"
            )
        if x.dtype != self._like.dtype:
            raise HalfnetTypeError(f"{name}: expected {self._like.dtype}, got {x.dtype}")
        return x


def _unit_variance(B: Tensor | None, sigma: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Scale each coordinate to variance 1; one that never varies stays 0."""
    parts = [
        part for part in (B, None if sigma is None else sigma.unsqueeze(-1)) if part is not None
    ]
    rows = torch.cat([_products.at_least_float32(part) for part in parts], -1)
    _, unit = _norms_and_directions(rows)
    return (
        None if B is None else unit[:, : B.shape[1]].to(B.dtype),
        None if sigma is None else unit[:, -1].to(sigma.dtype),
    )


class _Pairs(NamedTuple):
    """What the closed forms are of: norms and cosines, as products of squared norms overflow.

    The rows themselves are for the kernels that are smooth where a row is 0: norms are not.
    """

    x: Tensor  # (n, p)
    y: Tensor  # (l, p)
    a: Tensor  # norms of x, (n, 1)
    b: Tensor  # norms of y, (1, l)
    c: Tensor  # cosines, (n, l)


def _sqrt(x: Tensor) -> Tensor:
    """Square root with gradient 0 where x is 0 (or below it by rounding).

    Here and below what is compared is what makes a number 0, so that a NaN stays one.
    """
    nothing = x <= 0
    return torch.where(nothing, 0, torch.where(nothing, 1, x).sqrt())


def _norms_and_directions(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows' norms, (n, 1), and the rows over their norms; both 0 for a zero row.

    A row of subnormal numbers has no direction either: the gradient, 1 / norm, would overflow.
    """
    tiny = torch.finfo(rows.dtype).tiny
    largest = rows.detach().abs().amax(-1, keepdim=True)
    # 1 for a zero row: a second derivative divides by the square, and 0 / 0 is no number
    largest = torch.where(largest == 0, 1, largest.clamp(min=tiny))
    norms = _sqrt((rows / largest).square().sum(-1, keepdim=True)) * largest
    nothing = norms < tiny
    return norms, torch.where(nothing, 0, rows / torch.where(nothing, 1, norms))


def _sine(c: Tensor) -> Tensor:
    """Return sin(angle); 0, with gradient 0, where that is lost in rounding."""
    squared = 1 - c.square()
    return _sqrt(torch.where(squared <= 8 * torch.finfo(c.dtype).eps, 0, squared))


def _angle(c: Tensor) -> Tensor:
    """Return the angle of a cosine, from 0 to pi, with gradient 0 where the rows are parallel."""
    sine = _sine(c)
    parallel = sine == 0
    angle = torch.atan2(torch.where(parallel, 0, sine), torch.where(parallel, 1, c))
    return torch.where(parallel, torch.where(c < 0, torch.full_like(c, math.pi), 0), angle)


class _ArcCosine(Function):
    """(sin t + (pi - t) cos t) / 2 pi of the cosine; its derivative is (pi - t) / 2 pi.

    That is finite, but autograd would find it as the difference of two numbers that are not.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(c: Tensor) -> Tensor:
        return (_sine(c) + c * (math.pi - _angle(c))) / (2 * math.pi)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * (math.pi - _angle(ctx.saved_tensors[0])) / (2 * math.pi)

    jvp = backward


def _relu_kernel(pairs: _Pairs) -> Tensor:
    """The arc-cosine kernel of degree 1 (Cho and Saul, 2009)."""
    arc: Tensor = _ArcCosine.apply(pairs.c)  # type: ignore[no-untyped-call]
    return pairs.a * pairs.b * arc


def _sign_kernel(pairs: _Pairs) -> Tensor:
    kernel = 1 - _angle(pairs.c) * (2 / math.pi)
    return torch.where((pairs.a == 0) & (pairs.b == 0), 1, kernel)  # sign(0) is +1, twice


def _erf_kernel(pairs: _Pairs) -> Tensor:
    """Williams (1998): 2 / pi asin(t), t = 2 x.y / sqrt((1 + 2 a^2) (1 + 2 b^2)), by arc tangent.

    1 - t^2 is put together from what is left to 1 in each factor, so that it keeps its digits.
    """
    x, y, a, b, c = pairs
    root = math.sqrt(2)
    size_a, size_b = (torch.hypot(torch.ones_like(n), n * root) for n in (a, b))
    rest_a, rest_b = size_a**-2, size_b**-2
    rest = rest_a + rest_b - rest_a * rest_b
    t = (x * (root / size_a)) @ (y * (root / size_b.mT)).mT
    square = c.square().clamp(max=1)
    return torch.atan2(t, _sqrt((1 - square) + square * rest)) * (2 / math.pi)


def _identity_kernel(pairs: _Pairs) -> Tensor:
    return pairs.x @ pairs.y.mT


_KERNELS = {
    "relu": _relu_kernel,
    "sign": _sign_kernel,
    "erf": _erf_kernel,
    "identity": _identity_kernel,
}
