"""A module with frozen draws: how z and eps are made, moved, saved, copied and checked."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from halfnet import _checks, _draws
from halfnet.exceptions import HalfnetError, HalfnetValueError

_KINDS = list(_draws.KINDS)
_RECORD = ("format version", "kind of draw", "seed", "checksum", "shape of a unit's weights")


class _Drawn(NamedTuple):
    """A canonical draw: float32, on the CPU, the same bits on every machine."""

    z: Tensor | None
    eps: Tensor | None
    checksum: int


class FrozenDraws(nn.Module):
    """The buffers z (units, rank) and eps (units, fan_in), which a seed regenerates.

    They are never saved. In their place the state dict holds one small tensor: the format version,
    the kind of draw, the seed, and the checksum of the canonical float32 draw. Loading it makes
    that seed's draws and verifies them. On the meta device nothing is drawn until `to_empty` or a
    load with `assign=True` gives the layer a real one.
    """

    z: Tensor | None
    eps: Tensor | None

    def __init__(
        self,
        units: int,
        fan_in: int,
        rank: int,
        *,
        layout: tuple[int, ...],
        has_eps: bool,
        kind: str,
        seed: int,
        device: torch.device | str | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.units, self.fan_in, self.rank = units, fan_in, rank
        self._layout = layout  # how a unit's fan_in weights are laid out in the dense weight
        self.draw, self.seed = kind, seed
        self._checksum: int | None = None
        self._versions: tuple[int, ...] | None = None
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        z = torch.empty(units, rank, **options) if rank else None
        eps = torch.empty(units, fan_in, **options) if has_eps else None
        self.register_buffer("z", z, persistent=False)
        self.register_buffer("eps", eps, persistent=False)
        if not self._frozen.is_meta:
            self._install(self._make(seed, kind), self._frozen.device, dtype)

    # -- making ----------------------------------------------------------------------------------

    @property
    def _frozen(self) -> Tensor:
        """One of the two buffers: the layer has at least one, on its device and of its dtype."""
        frozen = self.eps if self.z is None else self.z
        assert frozen is not None
        return frozen

    def _make(self, seed: int, kind: str) -> _Drawn:
        z = _draws.KINDS[kind](seed, _draws.Z, self.units, self.rank) if self.rank else None
        eps = (
            _draws.normal(seed, _draws.EPS, self.units, self.fan_in)
            if self.eps is not None
            else None
        )
        with torch.inference_mode(False):  # or the layer could never be trained again
            return _Drawn(
                None if z is None else torch.from_numpy(z),
                None if eps is None else torch.from_numpy(eps),
                _draws.checksum(z, eps),
            )

    def _place(self, device: torch.device, dtype: torch.dtype) -> None:
        """Put the canonical draw, cast once, on `device`."""
        now = self._frozen
        # float32 and float64 hold the canonical draw exactly; from any other dtype a cast to a
        # second one would round twice, or not give back what the first had lost.
        exact = now.dtype in (dtype, torch.float32, torch.float64) and not now.is_meta
        if device.type != "meta" and not exact:
            self._install(self._make(self.seed, self.draw), device, dtype)
        elif (now.device, now.dtype) != (device, dtype):
            self._set_buffers(self.z, self.eps, device, dtype)

    def _install(self, drawn: _Drawn, device: torch.device, dtype: torch.dtype) -> None:
        self._checksum = drawn.checksum
        self._set_buffers(drawn.z, drawn.eps, device, dtype)

    def _set_buffers(
        self, z: Tensor | None, eps: Tensor | None, device: torch.device, dtype: torch.dtype
    ) -> None:
        with torch.inference_mode(False):  # as in _make
            for name, source in (("z", z), ("eps", eps)):
                self._buffers[name] = None if source is None else source.to(device, dtype)
        self._versions = self._versions_now()

    def _versions_now(self) -> tuple[int, ...]:
        """Return torch's counts of what was written into z and eps."""
        return tuple(draw._version for draw in (self.z, self.eps) if draw is not None)

    def _check_untouched(self) -> None:
        """Raise if z or eps was overwritten in place: the seed would not make them any more."""
        versions = self._versions_now()
        if versions == self._versions or self._checksum is None:
            return
        drawn = self._make(self.seed, self.draw)
        for name, own in (("z", drawn.z), ("eps", drawn.eps)):
            now = self._buffers[name]
            if (
                now is not None
                and own is not None
                and not torch.equal(now.cpu(), own.to(now.dtype))
            ):
                raise HalfnetValueError(
                    f"{name}: expected the draws of seed {self.seed}, got others, as something "
                    "wrote into them; redraw(seed) or a state dict replaces them"
                )
        self._versions = versions

    def redraw(self, seed: int) -> None:
        """Replace z and eps by another seed's. What was learned stays."""
        seed = _checks.integer("seed", seed, 0, _checks.SEED_LIMIT - 1)
        if self._frozen.is_meta:
            self._checksum = None  # of a draw that was left behind
        else:
            drawn = self._make(seed, self.draw)
            self._install(drawn, self._frozen.device, self._frozen.dtype)
        self.seed = seed

    # -- moving and copying ----------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # `fn` may leave memory uninitialised (to_empty) or round (to a dtype), so the draws don't
        # go through it: an empty tensor like them shows where they are to be.
        self._check_untouched()
        draws = {name: self._buffers[name] for name in ("z", "eps")}
        target = fn(self._frozen.new_empty(0))
        self._buffers.update(dict.fromkeys(draws))
        try:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        finally:
            self._buffers.update(draws)
        self._place(target.device, target.dtype)
        if target.is_shared() and not target.is_cuda:
            for buffer in draws.values():
                if buffer is not None:
                    buffer.share_memory_()
            self._versions = self._versions_now()
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The default goes through __getstate__, which would draw everything again.
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        with torch.inference_mode(False):  # as in _make
            new.__dict__ = copy.deepcopy(self._lasting(), memo)
        untouched = self._versions == self._versions_now()
        new._versions = new._versions_now() if untouched else None
        return new

    def _lasting(self) -> dict[str, Any]:
        """Return the attributes that a copy takes over: what `frozen` keeps is not among them."""
        return {key: v for key, v in self.__dict__.items() if key not in ("_kept", "_keepers")}

    def __getstate__(self) -> dict[str, Any]:
        self._check_untouched()
        state = self._lasting()
        state["_buffers"] = {  # empty ones, for the device and dtype
            name: buffer.new_empty(0) if name in ("z", "eps") and buffer is not None else buffer
            for name, buffer in self._buffers.items()
        }
        state["_draws_format"] = _draws.FORMAT_VERSION
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        version, expected = state.pop("_draws_format"), state["_checksum"]
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._check_version(version)
        device, dtype = self._frozen.device, self._frozen.dtype
        if device.type == "meta":
            for name, width in (("z", self.rank), ("eps", self.fan_in)):
                if (buffer := self._buffers[name]) is not None:
                    self._buffers[name] = buffer.new_empty(self.units, width)
            return
        drawn = self._make(self.seed, self.draw)
        if expected is not None:
            self._check_checksum(drawn.checksum, expected, self.seed)
        self._install(drawn, device, dtype)

    # -- the state dict --------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """Return what regenerates and verifies the draws, some 40 bytes."""
        if self._checksum is None:  # on the meta device nothing was drawn
            return torch.empty(4 + len(self._layout), dtype=torch.int64, device="meta")
        self._check_untouched()
        signed = self.seed - 2**64 if self.seed >= 2**63 else self.seed
        record = [_draws.FORMAT_VERSION, _KINDS.index(self.draw), signed, self._checksum]
        return torch.tensor([*record, *self._layout], dtype=torch.int64, device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Make and verify the draws that a record names; one that fails changes nothing."""
        seed, kind, checksum = self._read(state)
        ours = self._checksum is not None and self._versions == self._versions_now()
        same = ours and (seed, kind) == (self.seed, self.draw)
        drawn = None if same else self._make(seed, kind)
        self._check_checksum(self._checksum if drawn is None else drawn.checksum, checksum, seed)
        if drawn is not None:
            self._install(drawn, self._frozen.device, self._frozen.dtype)
            self.seed, self.draw = seed, kind

    def _read(self, state: Any) -> tuple[int, str, int]:
        wanted = f"an int64 tensor ({', '.join(_RECORD)})"
        if not isinstance(state, Tensor):
            raise HalfnetValueError(f"record of the draws: expected {wanted}, got {state!r}")
        short = state.dim() != 1 or len(state) < len(_RECORD)
        if state.dtype != torch.int64 or short or state.is_meta:
            raise HalfnetValueError(
                f"record of the draws: expected {wanted}, got {state.dtype} of shape "
                f"{tuple(state.shape)} on {state.device}"
            )
        version, kind, seed, checksum, *layout = state.tolist()
        self._check_version(version)
        if not 0 <= kind < len(_KINDS):
            raise HalfnetValueError(
                f"kind of draw: expected a number below {len(_KINDS)}, got {kind}"
            )
        if tuple(layout) != self._layout:
            raise HalfnetValueError(
                f"shape of a unit's weights: expected {self._layout}, got {tuple(layout)}"
            )
        return seed % 2**64, _KINDS[kind], checksum

    @staticmethod
    def _check_version(version: int) -> None:
        if version != _draws.FORMAT_VERSION:
            raise HalfnetValueError(
                f"format version of the draws: expected {_draws.FORMAT_VERSION}, got {version}: "
                "the state was damaged or saved by another version of halfnet"
            )

    def _check_checksum(self, ours: int | None, theirs: int, seed: int) -> None:
        if ours != theirs:
            raise HalfnetValueError(
                f"checksum of the draws: expected {ours:#x} for seed {seed} with {self.units} "
                f"units, rank {self.rank} and fan-in {self.fan_in}, got {theirs:#x}: the state "
                "is damaged or comes from a layer of another shape or noise"
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # Everything is checked before anything is changed; torch would load what fits. Hooks may
        # change the state dict, so they run before the checks, and not again in super().
        hooks, self._load_state_dict_pre_hooks = self._load_state_dict_pre_hooks, OrderedDict()
        arguments = (
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )  # fmt: skip
        try:
            for hook in hooks.values():
                hook(*arguments)
            if self._fits(state_dict, prefix, local_metadata, error_msgs):
                super()._load_from_state_dict(*arguments)
                self._follow_parameters(state_dict, prefix, local_metadata)
        finally:
            self._load_state_dict_pre_hooks = hooks

    def _fits(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        error_msgs: list[str],
    ) -> bool:
        """Whether what is there fits; then the draws are installed, else it is said why not.

        Keys that are missing or unexpected are torch's to report: only it knows of `strict`.
        """
        key = prefix + "_extra_state"
        assign = bool(local_metadata.get("assign_to_params_buffers"))
        problems = self._misfits(state_dict, prefix, assign)
        if not problems and key in state_dict:
            try:
                self.set_extra_state(state_dict[key])
            except HalfnetError as error:
                problems.append(f"{key}: {error}")
        error_msgs.extend(problems)
        return not problems

    def _follow_parameters(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        """Put the draws where the parameters are: assign=True may have moved these."""
        key = prefix + "_extra_state"
        home = next(self.parameters(recurse=False), None)
        if home is not None:
            self._place(home.device, home.dtype)
        elif key in state_dict and local_metadata.get("assign_to_params_buffers"):
            self._place(state_dict[key].device, self._frozen.dtype)

    def _misfits(self, state_dict: dict[str, Any], prefix: str, assign: bool) -> list[str]:
        """Say which of the state's entries cannot become the layer's parameters."""
        problems = []
        for name, ours in self.named_parameters(recurse=False):
            theirs = state_dict.get(prefix + name, ours)
            if not isinstance(theirs, Tensor) or not theirs.dtype.is_floating_point:
                got = theirs.dtype if isinstance(theirs, Tensor) else type(theirs).__name__
                problems.append(f"{prefix}{name}: expected a floating-point tensor, got {got}")
            elif theirs.layout != torch.strided:
                problems.append(f"{prefix}{name}: expected a dense tensor, got {theirs.layout}")
            elif theirs.shape != ours.shape:
                problems.append(
                    f"size mismatch for {prefix}{name}: expected {tuple(ours.shape)}, "
                    f"got {tuple(theirs.shape)}"
                )
            elif theirs.is_meta and not (ours.is_meta or assign):
                problems.append(f"{prefix}{name}: expected a tensor with data, got one on meta")
        return problems
