"""The arithmetic of a half layer: r_h = B z_h + sigma * eps_h for all units, and r_h . x.

Here z (m, k), eps (m, d), B (d, k) and sigma (d,) are plain tensors; a part that a configuration
lacks is None. With eps but no sigma, sigma is one. `directions`, `variances` and `signs` also take
many layers at once, each part with the same extra dimension in front.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F


def autocasts(like: Tensor) -> bool:
    """Whether autocast is on for this tensor's device; some, as meta, have none."""
    device = like.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def no_autocast(like: Tensor) -> AbstractContextManager[None]:
    """Return a context without autocast: what is drawn or compared keeps its full precision."""
    return torch.autocast(like.device.type, enabled=False) if autocasts(like) else nullcontext()


def at_least_float32(x: Tensor) -> Tensor:
    """Return `x`, from a half precision in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def directions(
    B: Tensor | None, sigma: Tensor | None, z: Tensor | None, eps: Tensor | None
) -> Tensor:
    """Return the (m, d) matrix whose rows are the r_h."""
    noise = eps if eps is None or sigma is None else eps * sigma.unsqueeze(-2)
    if B is None or z is None:
        assert noise is not None
        return noise
    with no_autocast(z):
        if noise is None:
            return z @ B.mT
        add_product = torch.addmm if z.dim() == 2 else torch.baddbmm
        return add_product(noise, z, B.mT)


def variances(B: Tensor | None, sigma: Tensor | None) -> Tensor:
    """Return the variances of the coordinates of r: the diagonal of BB' + diag(sigma^2).

    They are float32 at least: in float16 the square of a small number is 0.
    """
    noise = None if sigma is None else at_least_float32(sigma).square()
    if B is None:
        assert noise is not None
        return noise
    low_rank = at_least_float32(B).square().sum(-1)
    return low_rank if noise is None else low_rank + noise


def signs(r: Tensor, std: Tensor) -> Tensor:
    """Return sign(r) in {-1, +1}, sign(0) = +1, with a clipped straight-through gradient.

    The gradient is passed on where |r| is at most half its coordinate's standard deviation `std`.
    Weights further from 0 would not change sign soon, and their gradients only drown the others':
    on validation data this bound beats both the plain form and the usual |r| <= 1, by a sixth of
    the errors (benchmarks/straight_through.py). Being relative, it ignores scale as the sign does.
    r - r.detach() is exactly 0, so the signs are exact, and it carries the gradient (and a NaN).
    """
    fixed = r.detach()
    limit = 0.5 * std.unsqueeze(-2)
    sign = torch.where(fixed >= 0, 1.0, -1.0).to(r.dtype)
    return torch.where(fixed.abs() > limit, 0, r - fixed) + sign


def linear(
    x: Tensor,
    B: Tensor | None,
    sigma: Tensor | None,
    u: Tensor | None,
    u0: Tensor | None,
    z: Tensor | None,
    eps: Tensor | None,
    factor: bool | None = None,
) -> Tensor:
    """Return u_h (r_h . x) + u0_h for x (..., d), (..., m), by the way that is fastest.

    Where there is noise, `factor` says whether not to build the matrix of the r_h.
    """
    if eps is None:
        assert B is not None
        assert z is not None
        return F.linear(thin(x, B), z if u is None else z * u.unsqueeze(-1), u0)
    if prefers_factored(x, len(eps)) if factor is None else factor:
        return affine(factored(x, B, sigma, z, eps), u, u0)
    return affine(F.linear(x, directions(B, sigma, z, eps)), u, u0)


def affine(a: Tensor, u: Tensor | None, u0: Tensor | None) -> Tensor:
    """Return u a + u0, in the dtype of `a`."""
    if u is None:
        return a
    if u0 is None:
        return a * u.to(a.dtype)
    return torch.addcmul(u0.to(a.dtype), a, u.to(a.dtype))


def prefers_factored(x: Tensor, units: int) -> bool:
    """Whether `factored` is faster than building the matrix of the r_h.

    Building costs some passes over m x d numbers, factoring some over n x d, so it is the number
    of rows beside the number of units that decides; where x needs a gradient, factoring also
    saves one large product of three. Measured by benchmarks/paths.py.
    """
    if torch.compiler.is_exporting():  # the number of rows may be a symbol: don't fix it
        return False
    rows = x.numel() // x.shape[-1]
    needs_gradient = x.requires_grad and torch.is_grad_enabled()
    return rows <= (units if needs_gradient else units // 2)


def thin(x: Tensor, B: Tensor) -> Tensor:
    """Return x B for x (..., d) and few columns in B.

    Multiplied as (B'x')': the libraries take up to three times as long where the result has many
    rows and few columns.
    """
    rows = x.reshape(-1, x.shape[-1])
    return (B.mT @ rows.mT).mT.reshape(*x.shape[:-1], B.shape[-1])


def factored(
    x: Tensor, B: Tensor | None, sigma: Tensor | None, z: Tensor | None, eps: Tensor
) -> Tensor:
    """Return r_h . x without building the matrix of the r_h.

    The gradients of sigma and of x both come from one large product, g @ eps, so a training step
    has two products of n m d where a dense layer has three. Written this way, autograd does just
    that, as x * sigma is the only thing that the product is differentiated in.
    """
    noise = F.linear(x if sigma is None else x * sigma, eps)
    return noise if B is None or z is None else noise + F.linear(thin(x, B), z)
