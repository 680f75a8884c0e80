"""The fully connected half layer."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfnet import _checks, _products, _step
from halfnet._init import Init
from halfnet.nn import _dense
from halfnet.nn._base import HalfLayer


class HalfLinear(HalfLayer):
    """A linear layer that learns the distribution its weights are drawn from.

    Stands where `torch.nn.Linear(in_features, out_features)` stood. Unit h computes
    u_h (r_h . x) + u0_h with r_h = B z_h + sigma * eps_h; z_h and eps_h are drawn once from N(0, 1)
    and frozen. Learned are B (in_features x rank), sigma (in_features), u and u0 (out_features).

    Args:
        in_features: Size of each input, d.
        out_features: Number of units, m.
        rank: Columns of B, from 0 (no B) to in_features.
        noise: "learned" (sigma is learned), "fixed" (sigma is 1) or "none" (r_h = B z_h).
        affine: Whether each unit learns a scale u and a shift u0; "scale" for u alone.
        binary: Whether the weights are sign(r_h), -1 or +1. The gradient passes straight through
            the sign where r_h is within half a standard deviation of 0, and is cut off elsewhere:
            on validation data better than the plain form and than a bound of 1.
        draw: "normal", or "orthogonal" for a z with orthogonal columns.
        init: "default", "paper", or an `Init` with numbers.
        seed: The draws' seed, from 0 to 2**64 - 1. One seed gives one draw: two layers of the same
            seed share theirs. None takes a new one from torch's global generator.
        device: As in torch.
        dtype: As in torch. The draws are made in float32 and cast once.

    Copies made by deepcopy, as `nn.TransformerEncoder` makes its layers, share their draws like
    everything else; `resample_` gives each its own.

    Shape:
        Input (..., in_features), output (..., out_features).

    Examples:
        >>> layer = halfnet.HalfLinear(784, 64, rank=16)
        >>> layer(torch.randn(128, 784)).shape
        torch.Size([128, 64])
        >>> sum(p.numel() for p in layer.parameters())  # nn.Linear(784, 64) has 50,240
        13456
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rank: int,
        *,
        noise: str = "learned",
        affine: bool | str = True,
        binary: bool = False,
        draw: str = "normal",
        init: str | Init = "default",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        out_features = _checks.integer("out_features", out_features, 1)
        in_features = _checks.integer("in_features", in_features, 1)
        super().__init__(
            out_features,
            in_features,
            rank,
            layout=(in_features,),
            noise=noise,
            affine=affine,
            binary=binary,
            draw=draw,
            init=init,
            seed=seed,
            device=device,
            dtype=dtype,
        )

    @classmethod
    def from_linear(
        cls,
        linear: nn.Linear,
        rank: int,
        *,
        init: str | Init = "moments",
        noise: str = "learned",
        affine: bool | str | None = None,
        binary: bool = False,
        draw: str = "normal",
        seed: int | None = None,
    ) -> Self:
        """Return a half layer of an `nn.Linear`'s shape, device, dtype and modes.

        Args:
            linear: The layer, which is left as it is.
            rank: Columns of B, from 0 to the layer's in_features.
            init: How to start. "moments": B and sigma such that Sigma is close to the second
                moments W'W / m of the trained weights, which keeps their geometry and, as the units
                are drawn from it, not their function. "lstsq": B, sigma and u closest to the
                weights for the units' given draws, and u0 the bias. "fresh" or an `Init`: as a
                new layer.
            noise: As in `HalfLinear`.
            affine: As in `HalfLinear`; None for u0 where the layer has a bias, and u in any case.
            binary: As in `HalfLinear`.
            draw: As in `HalfLinear`.
            seed: As in `HalfLinear`.

        Examples:
            >>> layer = halfnet.HalfLinear.from_linear(nn.Linear(784, 64), rank=16)
        """
        _dense.check_replaceable("linear", linear, nn.Linear)
        return cls._standing_for(
            linear, rank, init=init, affine=affine, noise=noise, binary=binary, draw=draw, seed=seed
        )

    @property
    def in_features(self) -> int:
        """Size of each input."""
        return self.fan_in

    @property
    def out_features(self) -> int:
        """Number of units."""
        return self.units

    def forward(self, x: Tensor) -> Tensor:
        """Return the units' outputs for each input."""
        if self._keepers and (kept := self._kept_now()) is not None:
            try:
                return kept.linear(x)
            except (RuntimeError, TypeError):
                self._checked(x, -1, self.fan_in)  # which says it in this library's words
                raise
        x = self._checked(x, -1, self.fan_in)
        if self.binary:
            return _products.affine(F.linear(x, self._directions()), self.u, self.u0)
        parts = (self.B, self.sigma, self.u, self.u0, self.z, self.eps)
        if _step.applies(x, *parts):
            return _step.linear(x, *parts)  # type: ignore[arg-type]
        B, sigma, z, eps = self._parts
        return _products.linear(x, B, sigma, self.u, self.u0, z, eps)

    def _factors(self) -> tuple[Tensor, ...]:
        z, d, m, k = self.z, self.fan_in, self.units, self.rank
        if self.noise != "none" or self.binary or k * (d + m) >= d * m:
            return super()._factors()
        assert self.B is not None
        assert z is not None
        z = z.to(self._dtype)
        return self.B.T.contiguous(), z if self.u is None else z * self.u.unsqueeze(-1)

    def config(self) -> dict[str, Any]:
        """Return the arguments that build a layer like this one, with these draws."""
        sizes = {"in_features": self.in_features, "out_features": self.out_features}
        return sizes | self._common_config()

    def to_dense(self) -> nn.Linear:
        """Return the `nn.Linear` that computes the same; it shares nothing with this layer."""
        dense = nn.Linear(self.fan_in, self.units, bias=self.u0 is not None, device="meta")
        self._into_dense(dense)
        return dense

    def widen(self, out_features: int) -> Self:
        """Return a layer of more units drawn from the learned geometry.

        The first units are this layer's own, unchanged. The new ones start at the mean of the
        learned u and u0.
        """
        return self._widened("out_features", out_features)

    def extra_repr(self) -> str:
        """Return what `print` shows between the brackets."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, {self._common_repr()}"
