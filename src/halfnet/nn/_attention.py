"""Attention whose projections are layers of their own, so that they can be half layers."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from halfnet.nn._dense import parameter_problems

A = TypeVar("A", bound=nn.MultiheadAttention)

PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_NESTED = "_nested_tensors_with_dense_attention"
_PACKED = "in_proj_weight"
_WEIGHTS = tuple(f"{name}_weight" for name in PROJECTIONS)


class HalfMultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with q_proj, k_proj and v_proj as layers, half or dense.

    `convert_` turns attention into it and `fold_` turns it back. The arithmetic and all arguments
    are torch's own: it is given the projections' weights as `nn.MultiheadAttention` gives them
    where key and value have their own sizes. Its biases stay where they were, in in_proj_bias.
    torch's fused inference, which reads a packed in_proj_weight, sees that there is none.
    """

    in_proj_weight = None  # type: ignore[assignment]
    q_proj: nn.Module
    k_proj: nn.Module
    v_proj: nn.Module

    @property
    def q_proj_weight(self) -> Tensor:  # type: ignore[override]
        """The weight of the queries' projection."""
        return self._weight_of(self.q_proj)

    @property
    def k_proj_weight(self) -> Tensor:  # type: ignore[override]
        """The weight of the keys' projection."""
        return self._weight_of(self.k_proj)

    @property
    def v_proj_weight(self) -> Tensor:  # type: ignore[override]
        """The weight of the values' projection."""
        return self._weight_of(self.v_proj)

    @staticmethod
    def _weight_of(projection: nn.Module) -> Tensor:
        weight: Tensor = projection.weight  # type: ignore[assignment]
        return weight


def problems(attention: nn.MultiheadAttention) -> Iterator[str]:
    """Yield why the projections of an attention cannot become layers."""
    own = {_PACKED, *_WEIGHTS, "in_proj_bias", "bias_k", "bias_v", "out_proj"}
    more = {*attention._parameters, *attention._buffers, *attention._modules} - own
    if more:
        yield f"one that also has {', '.join(sorted(more))}"
    if "forward" in attention.__dict__:
        yield "a forward that was put in the place of its own"
    if attention._state_dict_hooks or attention._load_state_dict_pre_hooks:
        yield "hooks on its state dict"
    for key in (_PACKED, *_WEIGHTS):
        parameter = attention._parameters.get(key)
        if parameter is not None:
            yield from (f"a {key} {problem}" for problem in parameter_problems(parameter))


def projections(attention: nn.MultiheadAttention) -> dict[str, nn.Linear]:
    """Return the three projections of an attention as linear layers on its own numbers."""
    packed = attention._parameters[_PACKED]
    layers = {}
    for place, name in enumerate(PROJECTIONS):
        whole = packed if packed is not None else attention._parameters[f"{name}_weight"]
        assert whole is not None
        weight = whole if packed is None or whole.is_meta else whole.chunk(3)[place]
        layer = nn.Linear(weight.shape[1], attention.embed_dim, bias=False, device="meta")
        layer.weight = Parameter(weight.detach(), whole.requires_grad)
        layers[name] = layer.train(attention.training)
    return layers


def halved(
    attention: nn.MultiheadAttention, halves: Mapping[str, nn.Module]
) -> HalfMultiheadAttention:
    """Return an attention with these projections; the other ones are dense, all else is shared."""
    state = attention.__dict__ | {
        "_packed": attention._qkv_same_embed_dim,
        "_qkv_same_embed_dim": False,  # which sends torch to the three weights
    }
    left_out = (_PACKED, *_WEIGHTS)
    state["_parameters"] = {k: p for k, p in attention._parameters.items() if k not in left_out}
    dense = {n: layer for n, layer in projections(attention).items() if n not in halves}
    for layer in dense.values():
        layer.weight = Parameter(layer.weight.detach().clone(), layer.weight.requires_grad)
    state["_modules"] = attention._modules | dense | dict(halves)
    return _made(HalfMultiheadAttention, state)


def unhalved(
    attention: HalfMultiheadAttention, layers: Mapping[str, nn.Linear]
) -> nn.MultiheadAttention:
    """Return torch's attention with the weights of these projections, the inverse of `halved`."""
    state: dict[str, Any] = attention.__dict__.copy()
    packed = state["_qkv_same_embed_dim"] = state.pop("_packed")
    weights = [cast(Parameter, layers[name].weight) for name in PROJECTIONS]
    parameters: dict[str, Parameter | None] = dict.fromkeys((_PACKED, *_WEIGHTS))
    if packed:
        learns = any(weight.requires_grad for weight in weights)
        parameters[_PACKED] = Parameter(torch.cat([w.detach() for w in weights]), learns)
    else:
        parameters |= dict(zip(_WEIGHTS, weights, strict=True))
    state["_parameters"] = parameters | attention._parameters
    state["_modules"] = {k: m for k, m in attention._modules.items() if k not in PROJECTIONS}
    return _made(nn.MultiheadAttention, state)


def _made(cls: type[A], state: dict[str, Any]) -> A:
    new = cls.__new__(cls)
    new.__dict__.update(state)
    return new


def set_nesting(model: nn.Module) -> None:
    """Let encoders pad where they would hand on nested tensors, which only torch's attention takes.

    Where all attention is torch's again, they do as they did.
    """
    for module in model.modules():
        if not isinstance(module, nn.TransformerEncoder):
            continue
        if any(isinstance(part, HalfMultiheadAttention) for part in module.modules()):
            module.__dict__.setdefault(_NESTED, module.use_nested_tensor)
            module.use_nested_tensor = False
        elif _NESTED in module.__dict__:
            module.use_nested_tensor = module.__dict__.pop(_NESTED)
