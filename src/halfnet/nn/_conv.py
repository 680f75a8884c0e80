"""The convolutional half layers: the units are the filters."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from halfnet import _checks
from halfnet._init import Init
from halfnet.exceptions import HalfnetValueError
from halfnet.nn import _dense
from halfnet.nn._base import HalfLayer

Size: TypeAlias = int | tuple[int, ...]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


D = TypeVar("D", bound=nn.Module)


class _HalfConv(HalfLayer, Generic[D]):
    """A convolution whose filters are drawn from a learned distribution."""

    _dims: ClassVar[int]
    _dense: ClassVar[type[nn.Module]]
    _convolve: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        rank: int,
        *,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        noise: str = "learned",
        affine: bool | str = True,
        binary: bool = False,
        draw: str = "normal",
        init: str | Init = "default",
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        in_channels = _checks.integer("in_channels", in_channels, 1)
        out_channels = _checks.integer("out_channels", out_channels, 1)
        groups = _checks.integer("groups", groups, 1)
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise HalfnetValueError(
                    f"groups: expected a divisor of {name} = {channels}, got {groups}"
                )
        kernel_size = _checks.sizes("kernel_size", kernel_size, self._dims, 1)
        stride = _checks.sizes("stride", stride, self._dims, 1)
        dilation = _checks.sizes("dilation", dilation, self._dims, 1)
        padding_mode = _checks.choice("padding_mode", padding_mode, _PADDING_MODES)
        if not isinstance(padding, str):
            padding = _checks.sizes("padding", padding, self._dims, 0)
        elif _checks.choice("padding", padding, ("same", "valid")) == "same" and max(stride) > 1:
            raise HalfnetValueError(f"stride: expected 1 with padding='same', got {stride}")
        super().__init__(
            out_channels,
            in_channels // groups * math.prod(kernel_size),
            rank,
            layout=(in_channels // groups, *kernel_size),
            noise=noise,
            affine=affine,
            binary=binary,
            draw=draw,
            init=init,
            seed=seed,
            device=device,
            dtype=dtype,
        )
        self.in_channels, self.kernel_size, self.stride = in_channels, kernel_size, stride
        self.padding, self.dilation, self.groups = padding, dilation, groups
        self.padding_mode = padding_mode

    @classmethod
    def from_conv(
        cls,
        conv: D,
        rank: int,
        *,
        init: str | Init = "moments",
        noise: str = "learned",
        affine: bool | str | None = None,
        binary: bool = False,
        draw: str = "normal",
        seed: int | None = None,
    ) -> Self:
        """Return a half layer of a convolution's shape, device, dtype and modes.

        The arguments are those of `HalfLinear.from_linear`.
        """
        _dense.check_replaceable("conv", conv, cls._dense)
        return cls._standing_for(
            conv, rank, init=init, affine=affine, noise=noise, binary=binary, draw=draw, seed=seed
        )

    @property
    def out_channels(self) -> int:
        """Number of filters."""
        return self.units

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of `x` with the layer's filters."""
        x = self._checked(x, -1 - self._dims, self.in_channels)
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, self._margins(), mode=self.padding_mode), 0
        convolve = type(self)._convolve
        kept = self._kept_now() if self._keepers else None
        weight = self._dense_weight() if kept is None else kept.factors[0]
        return convolve(x, weight, self.u0, self.stride, padding, self.dilation, self.groups)

    def _margins(self) -> list[int]:
        """Return the padding before and after each dimension, the last one first, as `F.pad`."""
        if self.padding == "valid":
            return [0, 0] * self._dims
        if isinstance(self.padding, str):
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(total // 2, total - total // 2) for total in totals]
        else:
            pairs = [(p, p) for p in self.padding]
        return [side for pair in reversed(pairs) for side in pair]

    def _shape_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _dense.CONV_SIZES}

    def config(self) -> dict[str, Any]:
        """Return the arguments that build a layer like this one, with these draws."""
        return self._shape_config() | self._common_config()

    def to_dense(self) -> D:
        """Return the `nn.Conv*` that computes the same; it shares nothing with this layer."""
        dense = self._dense(**self._shape_config(), bias=self.u0 is not None, device="meta")
        self._into_dense(dense)
        return cast(D, dense)

    def widen(self, out_channels: int) -> Self:
        """Return a layer of more filters drawn from the learned geometry.

        The first filters are this layer's own, unchanged. The new ones start at the mean of the
        learned u and u0. With groups > 1 the old filters would move to other inputs: refused.
        """
        if self.groups > 1:
            raise HalfnetValueError(f"groups: expected 1 in a layer to widen, got {self.groups}")
        return self._widened("out_channels", out_channels)

    def extra_repr(self) -> str:
        """Return what `print` shows between the brackets."""
        sizes = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        shown = {"stride": (1,), "padding": (0,), "dilation": (1,)}
        changed = [
            f"{k}={v}" for k, d in shown.items() if (v := getattr(self, k)) != d * self._dims
        ]
        changed += [f"groups={self.groups}"] if self.groups > 1 else []
        changed += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join([sizes, *changed, self._common_repr()])


class HalfConv1d(_HalfConv[nn.Conv1d]):
    """A 1-d convolution that learns the distribution its filters are drawn from.

    The arguments are those of `HalfConv2d`.
    """

    _dims, _dense, _convolve = 1, nn.Conv1d, F.conv1d


class HalfConv2d(_HalfConv[nn.Conv2d]):
    """A 2-d convolution that learns the distribution its filters are drawn from.

    Stands where `torch.nn.Conv2d` stood. The filters are the units of `HalfLinear`: each is
    flattened to r_h = B z_h + sigma * eps_h and has a scale u_h and a shift u0_h.

    Args:
        in_channels: Channels of the input.
        out_channels: Number of filters, m.
        kernel_size: Size of a filter; an integer or one for each dimension.
        rank: Columns of B, from 0 to the fan-in d = in_channels / groups x the kernel's size.
        stride: As in torch.
        padding: As in torch: a size, "same" or "valid".
        dilation: As in torch.
        groups: As in torch. All groups share one geometry.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        noise: "learned" (sigma is learned), "fixed" (sigma is 1) or "none" (r_h = B z_h).
        affine: Whether each filter learns a scale u and a shift u0; "scale" for u alone.
        binary: Whether the weights are sign(r_h), -1 or +1; see `HalfLinear` for the gradient.
        draw: "normal", or "orthogonal" for a z with orthogonal columns.
        init: "default", "paper", or an `Init` with numbers.
        seed: The draws' seed; None takes a new one from torch's global generator.
        device: As in torch.
        dtype: As in torch.

    Shape:
        Input (N, in_channels, H, W) or without N, output as `torch.nn.Conv2d`.

    Examples:
        >>> layer = halfnet.HalfConv2d(3, 32, kernel_size=5, rank=8)
        >>> layer(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 32, 28, 28])
    """

    _dims, _dense, _convolve = 2, nn.Conv2d, F.conv2d


class HalfConv3d(_HalfConv[nn.Conv3d]):
    """A 3-d convolution that learns the distribution its filters are drawn from.

    The arguments are those of `HalfConv2d`.
    """

    _dims, _dense, _convolve = 3, nn.Conv3d, F.conv3d
