"""From trained weights to what a half layer learns: their second moments, or they themselves.

`weight` is an (m, d) matrix whose rows are units. All is computed in float64.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from halfnet._init import Values

STARTS = ("fresh", "moments", "lstsq")
"""How a layer that replaces a trained one can start."""

_STEPS = 100  # of the alternation; it stops before where a step gains a millionth of the energy
_GAIN = 1e-6


class Fitted(NamedTuple):
    """B (d, k), sigma (d,) and u (m,), each None or of no use where the layer lacks it."""

    B: Tensor
    sigma: Tensor
    u: Tensor


def moments(weight: Tensor, rank: int, noise: str, start: Values, *, scaled: bool) -> Fitted:
    """Return B, sigma and u such that u^2 (B B' + diag(sigma^2)) is close to S = W'W / m.

    B spans S's leading eigenvectors. Where sigma is learned, sigma^2 is what they leave of the
    diagonal, so that each coordinate's second moment is kept exactly. Where it is fixed at 1, one
    number stands for the rest of the spectrum: the probabilistic principal components of Tipping
    and Bishop (1999), with u for the noise's size. All units get the same u.
    """
    m, d = weight.shape
    _, values, vectors = torch.linalg.svd(weight, full_matrices=False)
    energies = weight.new_zeros(d)
    energies[: len(values)] = values.square() / m
    axes = weight.new_zeros(d, rank)
    kept = min(rank, len(values))
    axes[:, :kept] = vectors[:kept].T
    u, rest = start.u if scaled else 1.0, 0.0
    if noise == "fixed":
        rest = energies[rank:].mean().item() if rank < d else 0.0
        u = max(rest, 1e-6 * energies.mean().item()) ** 0.5 if scaled else 1.0
        rest = u * u
    B = axes * (energies[:rank] - rest).clamp(min=0).sqrt()
    left = weight.square().mean(0) - B.square().sum(1)
    u = u or 1.0  # of weights that are all 0
    return Fitted(B / u, left.clamp(min=0).sqrt() / u, weight.new_full((m,), u))


def least_squares(
    weight: Tensor, z: Tensor | None, eps: Tensor | None, noise: str, start: Values, *, scaled: bool
) -> Fitted:
    """Return the B, sigma and u for which u_h (B z_h + sigma * eps_h) is closest to the weights.

    Given u, each coordinate of B and sigma is a linear regression over the units; given B and
    sigma, each unit's u is one number. The two alternate, each step as close or closer, from u = 1.
    With a rank of m or more the weights are reached exactly, whatever the draw.
    """
    m = len(weight)
    z = weight.new_zeros(m, 0) if z is None else z
    energy = weight.square().sum()
    u = weight.new_ones(m)
    error = weight.new_tensor(torch.inf)
    for _ in range(_STEPS):
        B, sigma = _regress(weight, u.unsqueeze(1), z, eps, noise)
        r = z @ B.T + (0 if eps is None else eps * sigma)
        before, error = error, (weight - u.unsqueeze(1) * r).square().sum()
        if not scaled or before - error <= _GAIN * energy:
            break
        u = scales(weight, r)
    else:
        B, sigma = _regress(weight, u.unsqueeze(1), z, eps, noise)
    size = u.square().mean().sqrt() / start.u if scaled and noise != "fixed" else 1.0
    size = size or 1.0
    return Fitted(B * size, sigma * size, u / size)


def scales(weight: Tensor, r: Tensor) -> Tensor:
    """Return the u for which u_h r_h is closest to the weights; 1 where r_h is 0."""
    norms = r.square().sum(1)
    nothing = norms == 0
    return torch.where(nothing, 1, (weight * r).sum(1) / torch.where(nothing, 1, norms))


def _regress(
    weight: Tensor, u: Tensor, z: Tensor, eps: Tensor | None, noise: str
) -> tuple[Tensor, Tensor]:
    """Return the best B and sigma given u: w_hi regressed on u_h z_h and u_h eps_hi, for each i.

    As all coordinates share u z, sigma is found on what it doesn't explain (Frisch and Waugh).
    """
    left, values, right = torch.linalg.svd(u * z, full_matrices=False)
    usable = values > 1e-10 * values[:1]  # they fall: the first is the largest
    left, values, right = left[:, usable], values[usable], right[usable]
    sigma = weight.new_ones(weight.shape[1])
    noises = weight.new_zeros(()) if eps is None else u * eps
    if eps is not None and noise == "learned":
        unexplained = noises - left @ (left.T @ noises)
        size = unexplained.square().sum(0)
        lost = size <= 1e-20 * noises.square().sum(0)
        sigma = torch.where(lost, 0, (unexplained * weight).sum(0) / torch.where(lost, 1, size))
    target = weight - noises * sigma
    return (right.T @ ((left.T @ target) / values.unsqueeze(1))).T, sigma
