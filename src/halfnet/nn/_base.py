"""What every half layer is: parameters over frozen draws, and the dense layer it stands in for."""

from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.utils.parametrize import type_before_parametrizations

from halfnet import _checks, _fit, _products
from halfnet._draws import KINDS
from halfnet._geometry import Geometry
from halfnet._init import Init, resolve
from halfnet.exceptions import HalfnetTypeError, HalfnetValueError
from halfnet.nn import _dense
from halfnet.nn._computed import ComputedWeight
from halfnet.nn._frozen import FrozenDraws
from halfnet.nn._kept import Keeping

NOISES = ("learned", "fixed", "none")
SCALE = "scale"  # an `affine` of u alone
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # autocast leaves all others alone


class HalfLayer(Keeping, FrozenDraws):
    """Base class of the half layers, for `isinstance`; build one of its subclasses.

    Each unit's weight vector is r_h = B z_h + sigma * eps_h with frozen z_h and eps_h, and its
    output u_h (r_h . x) + u0_h. B, sigma, u and u0 are Parameters, or None where a configuration
    lacks them.
    """

    B: Parameter | None
    sigma: Parameter | None
    u: Parameter | None
    u0: Parameter | None

    def __init__(
        self,
        units: int,
        fan_in: int,
        rank: int,
        *,
        layout: tuple[int, ...],
        noise: str = "learned",
        affine: bool | str = True,
        binary: bool = False,
        draw: str = "normal",
        init: str | Init = "default",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rank = _checks.integer("rank", rank, 0, fan_in, f"the fan-in is {fan_in}")
        noise = _checks.choice("noise", noise, NOISES)
        if noise == "none" and rank == 0:
            raise HalfnetValueError("rank: expected at least 1 with noise='none', got 0")
        dtype = _checks.floating_dtype("dtype", dtype)
        affine, binary = _affine(affine), _checks.boolean("binary", binary)
        initial = resolve(init, fan_in, rank, noise=noise, binary=binary)
        super().__init__(
            units,
            fan_in,
            rank,
            layout=layout,
            has_eps=noise != "none",
            kind=_checks.choice("draw", draw, KINDS),
            seed=_checks.seed_or_new("seed", seed),
            device=device,
            dtype=dtype,
        )
        self.noise, self.affine, self.binary, self.init = noise, affine, binary, init
        self._initial = initial

        def parameter(present: bool, *shape: int) -> Parameter | None:
            return Parameter(torch.empty(shape, device=device, dtype=dtype)) if present else None

        self.register_parameter("B", parameter(rank > 0, fan_in, rank))
        self.register_parameter("sigma", parameter(noise == "learned", fan_in))
        self.register_parameter("u", parameter(self.affine is not False, units))
        self.register_parameter("u0", parameter(self.affine is True, units))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set B, sigma, u and u0 to their initial values. The draws stay: see `resample_`."""
        initial = self._initial
        with torch.no_grad():
            if self.B is not None:
                self.B.normal_(std=initial.B)
            for parameter, value in (
                (self.sigma, initial.sigma),
                (self.u, initial.u),
                (self.u0, initial.u0),
            ):
                if parameter is not None:
                    parameter.fill_(value)

    # -- the layer that it stands in for ---------------------------------------------------------

    @classmethod
    def _standing_for(
        cls,
        dense: nn.Module,
        rank: int,
        *,
        init: str | Init,
        affine: bool | str | None,
        seed: int | None,
        **options: Any,
    ) -> Self:
        """Return a layer of a dense layer's shape, place and modes that starts from its weights."""
        start = _start(init)
        weight, bias = cast(Parameter, dense.weight), cast(Parameter | None, dense.bias)
        affine = (SCALE if bias is None else True) if affine is None else affine
        seed = _checks.seed_or_new("seed", seed)  # out here: within, each would be the same
        with torch.random.fork_rng(devices=[], enabled=start != "fresh"):
            layer = cls(
                **_dense.sizes(dense),
                rank=rank,
                affine=affine,
                seed=seed,
                init=init if start == "fresh" and init != "fresh" else "default",
                device=weight.device,
                dtype=weight.dtype,
                **options,
            )
        layer._start_from(weight, bias, start)
        for name, parameter in layer.named_parameters():
            source = bias if name == "u0" and bias is not None else weight
            parameter.requires_grad_(source.requires_grad)
        return layer.train(dense.training)

    @torch.no_grad()
    def _start_from(self, weight: Tensor, bias: Tensor | None, start: str) -> None:
        """Set what is learned from trained weights, as `start` says; "fresh" leaves it."""
        if start == "fresh":
            return
        rows, scaled = weight.reshape(self.units, -1).double(), self.u is not None
        noise, values = self.noise, self._initial
        if start == "moments":
            fitted = _fit.moments(rows, self.rank, noise, values, scaled=scaled)
            shift = None if bias is None else bias.mean().expand_as(bias)
        else:
            z, eps = (None if t is None else t.double() for t in (self.z, self.eps))
            fitted = _fit.least_squares(rows, z, eps, noise, values, scaled=scaled)
            shift = bias
        B, sigma, u = fitted
        if self.binary:  # whose weights forget the latent r's size: back to where it starts
            std = _products.variances(B, None if noise == "none" else sigma).mean().sqrt()
            size = self._initial.sigma / std if noise == "learned" and std > 0 else 1.0
            B, sigma = B * size, sigma * size
        for parameter, value in ((self.B, B), (self.sigma, sigma), (self.u, u), (self.u0, shift)):
            if parameter is not None and value is not None:
                parameter.copy_(value)
        if self.binary and self.u is not None:
            signs = self._directions().double()
            size = rows.square().mean().sqrt().expand(self.units)
            self.u.copy_(size if start == "moments" else _fit.scales(rows, signs))

    def config(self) -> dict[str, Any]:
        """Return the arguments that build a layer like this one, with these draws."""
        raise NotImplementedError

    def to_dense(self) -> nn.Module:
        """Return the ordinary torch layer that computes the same; it shares nothing with this."""
        raise NotImplementedError

    @property
    def _dtype(self) -> torch.dtype:
        """The dtype that the layer computes in: that of what is learned, where there is some."""
        learned = self.B if self.B is not None else self.sigma if self.sigma is not None else self.u
        return self._frozen.dtype if learned is None else learned.dtype

    @property
    def _parts(self) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
        """B, sigma, z and eps in one dtype: mixed precision may have given parameters another."""
        z, eps = (None if t is None else t.to(self._dtype) for t in (self.z, self.eps))
        return self.B, self.sigma, z, eps

    def _directions(self) -> Tensor:
        r = _products.directions(*self._parts)
        if not self.binary:
            return r
        return _products.signs(r, _products.variances(self.B, self._spread).sqrt())

    @property
    def _spread(self) -> Tensor | None:
        """Sigma as numbers: the learned ones, ones where they are fixed, None without noise."""
        return self._frozen.new_ones(self.fan_in) if self.noise == "fixed" else self.sigma

    @property
    def weight(self) -> Tensor:
        """The dense weight u_h r_h, in the layout of the torch layer, computed at each reading.

        Gradients flow through it to what is learned. Writing into it, or into its `data`, raises.
        """
        kept = self._kept_now() if self._keepers else None
        weight = kept.factors[0] if kept and len(kept.factors) == 1 else self._dense_weight()
        # what traces the layer sees a plain tensor, and has no use for one that raises
        return weight if torch.compiler.is_compiling() else weight.as_subclass(ComputedWeight)

    def _dense_weight(self) -> Tensor:
        r = self._directions()
        scaled = r if self.u is None else r * self.u.unsqueeze(-1)
        return scaled.view(self.units, *self._layout)

    def _factors(self) -> tuple[Tensor, ...]:
        with _products.no_autocast(self._frozen):
            return (self._dense_weight(),)

    @property
    def bias(self) -> Parameter | None:
        """The shift u0, under the name that torch's layers give it."""
        return self.u0

    @property
    def geometry(self) -> Geometry:
        """The learned distribution of the r_h: see `Geometry`."""
        return Geometry(self.B, self._spread, binary=self.binary)

    def _checked(self, x: Tensor, channel_dim: int, channels: int) -> Tensor:
        """Return `x`, or say how it doesn't fit this layer."""
        if not isinstance(x, Tensor):
            raise HalfnetTypeError(f"input: expected a tensor, got {type(x).__name__}")
        if x.dim() < -channel_dim or x.shape[channel_dim] != channels:
            raise HalfnetValueError(
                f"input: expected size {channels} in dimension {channel_dim}, "
                f"got shape {tuple(x.shape)}"
            )
        dtype = self._dtype
        if x.dtype != dtype and not (
            _products.autocasts(x) and x.dtype in _CAST and dtype in _CAST
        ):
            raise HalfnetTypeError(f"input: expected {dtype} as the layer's, got {x.dtype}")
        return x

    def _into_dense(self, dense: nn.Module) -> None:
        """Give a dense layer that was made on the meta device this layer's numbers."""
        dense.weight = Parameter(self._dense_weight().detach().clone())
        if self.u0 is not None:
            dense.bias = Parameter(self.u0.detach().clone())
        dense.train(self.training)

    # -- more units ------------------------------------------------------------------------------

    def _widened(self, name: str, units: int) -> Self:
        units = _checks.integer(name, units, self.units, why=f"the layer has {self.units}")
        if self.draw != "normal":
            raise HalfnetValueError(
                f"draw: expected 'normal' in a layer to widen, got {self.draw!r}, whose units "
                "change with their number"
            )
        cls = type_before_parametrizations(self)
        try:
            with torch.random.fork_rng(devices=[]):  # its initial values are about to be replaced
                wide: Self = cls(**{**self.config(), name: units}, device=self._frozen.device)
        except TypeError as error:
            raise HalfnetTypeError(
                f"widen: expected a class that the arguments of config() build, got "
                f"{cls.__name__}: {error}"
            ) from error
        with torch.no_grad():
            for key, theirs in wide.named_parameters(recurse=False):
                ours = getattr(self, key)  # by name: a parametrized one isn't among the parameters
                if key in ("u", "u0"):
                    theirs.fill_(ours.mean())
                theirs[: len(ours)] = ours
                theirs.requires_grad_(ours.requires_grad)
        return wide.train(self.training)

    def _common_config(self) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "noise": self.noise,
            "affine": self.affine,
            "binary": self.binary,
            "draw": self.draw,
            "init": self.init,
            "seed": self.seed,
            "dtype": self._frozen.dtype,
        }

    def _common_repr(self) -> str:
        shown = {"noise": "learned", "affine": True, "binary": False, "draw": "normal"}
        changed = [f"{k}={v!r}" for k, d in shown.items() if (v := getattr(self, k)) != d]
        return ", ".join([f"rank={self.rank}", *changed, f"seed={self.seed}"])


def _start(init: str | Init) -> str:
    """Return which of `_fit.STARTS` an `init` of from_linear, from_conv or convert_ means."""
    return "fresh" if isinstance(init, Init) else _checks.choice("init", init, _fit.STARTS)


def _affine(value: bool | str) -> bool | str:
    if not isinstance(value, bool) and value != SCALE:
        raise HalfnetTypeError(f"affine: expected True, False or {SCALE!r}, got {value!r}")
    return value
