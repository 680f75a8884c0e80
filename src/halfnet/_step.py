"""A half layer's training step with a backward pass of its own: what `_products` computes, sooner.

Autograd would keep and read more of the large intermediate results; here sums and products are made
in place, thin products are multiplied in the order that is fastest, and a gradient that nobody
needs is not computed. It serves where plain tensors are trained step by step, with all of B, sigma,
u and u0 there. Everything else, torch.compile, torch.func, autocast and forward mode among it, is
left to `_products`, to which a second derivative returns too.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

from halfnet import _products
from halfnet._matmul import by_onednn, goes_around, product

_PLAIN = (Tensor, Parameter)
_transformed: Any = getattr(torch._C, "_are_functorch_transforms_active", None)


def applies(x: Tensor, *parts: Tensor | None) -> bool:
    """Whether `linear` can stand in for `_products.linear`: B, sigma, u, u0, z and eps follow x."""
    return (
        _transformed is not None
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not _transformed()
        and forward_ad._current_level < 0
        and type(x) in _PLAIN
        and all(type(part) in _PLAIN and part.dtype == x.dtype for part in parts)  # type: ignore[union-attr]
        and not any(part.requires_grad for part in parts[-2:])  # type: ignore[union-attr]
        and not _products.autocasts(x)
    )


def linear(
    x: Tensor, B: Tensor, sigma: Tensor, u: Tensor, u0: Tensor, z: Tensor, eps: Tensor
) -> Tensor:
    """Return u (r . x) + u0 for x (..., d), where `applies` says so."""
    factored = _products.prefers_factored(x, len(eps))
    rows = x.reshape(-1, x.shape[-1])
    out: Tensor = _Step.apply(rows, B, sigma, u, u0, z, eps, factored)  # type: ignore[no-untyped-call]
    return out if x.dim() == 2 else out.view(*x.shape[:-1], len(eps))


class _Step(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        B: Tensor,
        sigma: Tensor,
        u: Tensor,
        u0: Tensor,
        z: Tensor,
        eps: Tensor,
        factored: bool,
    ) -> Tensor:
        if factored:
            r = None
            a = product(x * sigma, eps.mT).addmm_(_thin(x, B), z.mT)
        else:
            r = (eps * sigma).addmm_(z, B.mT)
            a = product(x, r.mT)
        ctx.save_for_backward(x, B, sigma, u, u0, z, eps, r, a)
        return torch.addcmul(u0, a, u)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,), (*inputs, r, a) = grads, ctx.saved_tensors
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a second derivative is wanted
            return _differentiable(inputs, needs, g, r is None)
        x, B, sigma, u, _, z, eps = inputs
        scaled = g * u
        to_x = to_B = to_sigma = None
        if r is None:
            thin = _thin(scaled, z)
            to_B = product(thin.mT, x).mT if needs[1] else None
            if needs[0] or needs[2]:
                large = product(scaled, eps)  # serves both, where a dense layer has two
                to_sigma = (large * x).sum(0) if needs[2] else None
                to_x = large.mul_(sigma).addmm_(thin, B.mT) if needs[0] else None
        else:
            to_x = product(scaled, r) if needs[0] else None
            if needs[1] or needs[2]:
                large = product(scaled.mT, x)
                to_B = product(z.mT, large).mT if needs[1] else None
                to_sigma = large.mul_(eps).sum(0) if needs[2] else None
        to_u = torch.mul(g, a, out=scaled).sum(0) if needs[3] else None
        return to_x, to_B, to_sigma, to_u, g.sum(0) if needs[4] else None, None, None, None


def _thin(x: Tensor, B: Tensor) -> Tensor:
    """Return x B for few columns in B: oneDNN takes it as it is."""
    return by_onednn(x, B) if goes_around(x, B) else _products.thin(x, B)


def _differentiable(
    inputs: list[Tensor], needs: tuple[bool, ...], grad: Tensor, factored: bool
) -> tuple[Tensor | None, ...]:
    """Return the gradients as `_products` has them, with what it takes to go on from them."""
    x, B, sigma, u, u0, z, eps = inputs
    out = _products.linear(x, B, sigma, u, u0, z, eps, factored)
    asked = [tensor for tensor, needed in zip(inputs, needs, strict=False) if needed]
    found = iter(torch.autograd.grad(out, asked, grad, create_graph=True))
    return *(next(found) if needed else None for needed in needs[:7]), None
