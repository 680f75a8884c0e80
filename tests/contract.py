"""The contract of a half layer, as tests that every layer inherits.

A layer's test class says how it is made (`create`), what goes in (`inputs`) and which torch
function it stands in for (`dense`); everything below then holds it against an oracle that is
computed here from the paper's formulas, with loops where the library has none.
"""

import copy
import io
import itertools
import pickle

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, stack_module_state, vmap

import halfnet
from halfnet import Geometry, _draws, _products

CONFIGURATIONS = [
    {"rank": rank, "noise": noise, "affine": affine}
    for rank, noise, affine in itertools.product(
        (0, 3), ("learned", "fixed", "none"), (True, False)
    )
    if rank or noise != "none"
]
BINARY = [dict(configuration, binary=True) for configuration in CONFIGURATIONS]
PATHS = ("materialised", "factored")
LEARNED = ("B", "sigma", "u", "u0")


def name_of(configuration: dict) -> str:
    return "-".join(f"{key}={value}" for key, value in configuration.items())


def oracle_directions(layer: halfnet.HalfLayer) -> Tensor:
    """r_h by the paper's formula, one unit at a time."""
    rows = []
    for h in range(layer.units):
        r = torch.zeros(layer.fan_in, dtype=layer._frozen.dtype)
        if layer.B is not None:
            for j in range(layer.rank):
                r = r + layer.B[:, j] * layer.z[h, j]
        if layer.eps is not None:
            r = r + (1 if layer.sigma is None else layer.sigma) * layer.eps[h]
        rows.append(r)
    return torch.stack(rows)


def sigma_of(layer: halfnet.HalfLayer) -> Tensor | None:
    return torch.ones(layer.fan_in) if layer.noise == "fixed" else layer.sigma


def perturb(layer: halfnet.HalfLayer) -> halfnet.HalfLayer:
    """Move the parameters off their initial values, where a wrong formula could hide."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return layer


class LayerContract:
    """What every half layer keeps. Subclass, and give the three methods."""

    paths = PATHS  # ways in which the layer can compute, all held against the same oracle
    widen_name: str

    def create(self, **options) -> halfnet.HalfLayer:
        raise NotImplementedError

    def inputs(self, dtype=torch.float32) -> Tensor:
        raise NotImplementedError

    def dense(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Torch's own function of the dense weight, in the layout of the torch layer."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, request, monkeypatch):  # its values come from `paths`: see conftest.py
        monkeypatch.setattr(
            _products, "prefers_factored", lambda *args: request.param == "factored"
        )
        return request.param

    # -- values and gradients ---------------------------------------------------------------------

    @pytest.mark.parametrize("configuration", CONFIGURATIONS + BINARY, ids=name_of)
    def test_equals_the_dense_oracle_in_values_and_gradients(self, configuration, path):
        layer = perturb(self.create(**configuration))
        x = self.inputs().requires_grad_()
        r = oracle_directions(layer).detach()
        latent = r
        if layer.binary:
            r = torch.where(r >= 0, 1.0, -1.0)
        u = torch.ones(layer.units) if layer.u is None else layer.u.detach()
        weight = (u[:, None] * r).view(layer.weight.shape).requires_grad_()
        bias = None if layer.u0 is None else layer.u0.detach().clone().requires_grad_()
        x_dense = x.detach().clone().requires_grad_()
        expected = self.dense(x_dense, weight, bias)
        out = layer(x)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(layer.weight, weight, rtol=1e-5, atol=1e-5)

        upstream = torch.randn_like(out)
        out.backward(upstream)
        expected.backward(upstream)
        # by hand from the dense gradient: dW -> r (straight through for binary) -> B, sigma; u; u0
        d_weight = weight.grad.view(layer.units, layer.fan_in)
        d_r = u[:, None] * d_weight
        if layer.binary:  # straight through, where r is within half a standard deviation of 0
            std = Geometry(layer.B, sigma_of(layer)).covariance().diag().sqrt()
            d_r = torch.where(latent.abs() > std / 2, 0, d_r)
        by_hand = {
            "B": None if layer.B is None else d_r.T @ layer.z,
            "sigma": None if layer.sigma is None else (d_r * layer.eps).sum(0),
            "u": None if layer.u is None else (d_weight * r).sum(1),
            "u0": None if layer.u0 is None else bias.grad,
        }
        for name, expected_grad in by_hand.items():
            parameter = getattr(layer, name)
            assert (parameter is None) == (expected_grad is None)
            if parameter is not None:
                scale = expected_grad.abs().max()
                torch.testing.assert_close(
                    parameter.grad / scale, expected_grad / scale, rtol=1e-4, atol=1e-5
                )
        torch.testing.assert_close(x.grad, x_dense.grad, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=name_of)
    def test_gradcheck_and_gradgradcheck(self, configuration, path):
        layer = perturb(self.create(**configuration, dtype=torch.float64))
        names = [name for name, _ in layer.named_parameters()]
        x = self.inputs(torch.float64)[:2].requires_grad_()
        values = [p.detach().clone().requires_grad_() for p in layer.parameters()]

        def run(x, *values):
            return functional_call(layer, dict(zip(names, values, strict=True)), (x,))

        assert gradcheck(run, (x, *values), fast_mode=True)
        assert gradgradcheck(run, (x, *values), fast_mode=True)

    @pytest.mark.parametrize("configuration", [*CONFIGURATIONS, BINARY[-1]], ids=name_of)
    def test_to_dense_is_torchs_layer_with_the_same_output(self, configuration):
        layer = perturb(self.create(**configuration)).eval()
        dense = layer.to_dense()
        assert type(dense).__module__.startswith("torch.nn")
        assert not dense.training
        assert (dense.bias is None) == (layer.bias is None)
        assert all(parameter.requires_grad for parameter in dense.parameters())
        x = self.inputs()
        torch.testing.assert_close(dense(x), layer(x), rtol=1e-4, atol=1e-4)
        before = dense.weight.detach().clone()
        perturb(layer)
        assert torch.equal(dense.weight, before)

    def test_binary_weights_are_exactly_plus_and_minus_u(self):
        layer = perturb(self.create(rank=3, binary=True))
        u = layer.u.detach().abs().view(-1, *[1] * (layer.weight.dim() - 1))
        assert torch.equal(layer.weight.abs(), u.expand_as(layer.weight))

    # -- the ways torch runs a layer --------------------------------------------------------------

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("binary", [False, True])
    def test_other_dtypes(self, dtype, binary, path):
        layer = perturb(self.create(rank=3, binary=binary)).to(dtype)
        x = self.inputs(dtype).requires_grad_()
        out = layer(x)
        out.sum().backward()
        assert out.dtype == x.grad.dtype == dtype
        assert all(parameter.grad.dtype == dtype for parameter in layer.parameters())
        wide = copy.deepcopy(layer).double()
        if not binary:  # a rounded r may have another sign
            tolerance = 1e-10 if dtype == torch.float64 else 0.1
            torch.testing.assert_close(
                out.double(), wide(x.detach().double()), rtol=tolerance, atol=tolerance
            )

    @pytest.mark.parametrize("configuration", [*CONFIGURATIONS[-6:], BINARY[-1]], ids=name_of)
    def test_autocast(self, configuration, path):
        layer = perturb(self.create(**configuration))
        x = self.inputs().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layer(x)
        out.float().square().mean().backward()
        assert out.dtype == torch.bfloat16
        assert all(p.grad is not None and p.grad.dtype == p.dtype for p in layer.parameters())
        if not layer.binary:
            torch.testing.assert_close(out.float(), layer(x), rtol=0.1, atol=0.2)

    @pytest.mark.parametrize("configuration", [CONFIGURATIONS[-6], BINARY[-1]], ids=name_of)
    def test_torch_compile_without_graph_breaks(self, configuration, path):
        torch._dynamo.reset()
        layer = perturb(self.create(**configuration))
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        x = self.inputs().requires_grad_()
        y = x.detach().clone().requires_grad_()
        out, expected = compiled(x), layer(y)
        torch.testing.assert_close(out, expected)
        grads = torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])
        others = torch.autograd.grad(expected.square().sum(), [y, *layer.parameters()])
        torch.testing.assert_close(grads, others, rtol=1e-4, atol=1e-3)

    @pytest.mark.parametrize("configuration", [*CONFIGURATIONS, BINARY[-1]], ids=name_of)
    def test_vmap_of_grad_over_stacked_layers(self, configuration, path):
        layers = [perturb(self.create(**configuration)) for _ in range(3)]
        parameters, buffers = stack_module_state(layers)
        x = torch.stack([self.inputs() for _ in layers])

        def loss(parameters, buffers, x):
            return functional_call(layers[0], (parameters, buffers), (x,)).square().sum()

        together = vmap(grad(loss, argnums=(0, 2)))(parameters, buffers, x)
        for i, layer in enumerate(layers):
            alone = x[i].clone().requires_grad_()
            layer(alone).square().sum().backward()
            for name, parameter in layer.named_parameters():
                torch.testing.assert_close(
                    together[0][name][i], parameter.grad, rtol=1e-3, atol=1e-3
                )
            torch.testing.assert_close(together[1][i], alone.grad, rtol=1e-3, atol=1e-3)

    def test_differentiates_in_its_buffers_too(self, path):
        layer = self.create(rank=3, dtype=torch.float64)
        x = self.inputs(torch.float64)
        buffers = {k: b.clone().requires_grad_() for k, b in layer.named_buffers()}
        assert gradcheck(
            lambda *b: functional_call(layer, dict(zip(buffers, b, strict=True)), (x,)),
            tuple(buffers.values()),
            fast_mode=True,
        )

    def test_empty_batch(self, path):
        layer = self.create(rank=3)
        out = layer(self.inputs()[:0].requires_grad_())
        assert out.shape[0] == 0
        out.sum().backward()
        assert all(parameter.grad.abs().max() == 0 for parameter in layer.parameters())

    def test_frozen_parameters_get_no_gradient(self, path):
        layer = self.create(rank=3)
        layer.sigma.requires_grad_(False)
        layer(self.inputs()).sum().backward()
        assert layer.sigma.grad is None
        assert layer.B.grad is not None

    # -- configuration ----------------------------------------------------------------------------

    @pytest.mark.parametrize("configuration", CONFIGURATIONS + BINARY, ids=name_of)
    def test_learns_just_what_the_configuration_has(self, configuration):
        layer = self.create(**configuration)
        d, m, k = layer.fan_in, layer.units, layer.rank
        shapes = {"B": (d, k), "sigma": (d,), "u": (m,), "u0": (m,)}
        present = {
            "B": k > 0,
            "sigma": layer.noise == "learned",
            "u": layer.affine,
            "u0": layer.affine,
        }
        for name in LEARNED:
            parameter = layer._parameters[name]  # absent parts are registered as None
            assert (None if parameter is None else tuple(parameter.shape)) == (
                shapes[name] if present[name] else None
            )
        assert (layer.eps is None) == (layer.noise == "none")
        assert (layer.z is None) == (k == 0)

    @pytest.mark.parametrize("configuration", [*CONFIGURATIONS, BINARY[-1]], ids=name_of)
    def test_config_builds_its_twin(self, configuration):
        layer = self.create(**configuration, draw="orthogonal", dtype=torch.float64)
        twin = type(layer)(**layer.config())
        assert repr(twin) == repr(layer)
        twin.load_state_dict(layer.state_dict())
        x = self.inputs(torch.float64)
        assert torch.equal(twin(x), layer(x))

    def test_reset_parameters_restores_initial_values_and_keeps_the_draws(self):
        layer = self.create(rank=3, init=halfnet.Init(B=0.5, sigma=0.25, u=2.0, u0=-1.0))
        z, eps = layer.z.clone(), layer.eps.clone()
        perturb(layer).reset_parameters()
        assert torch.equal(layer.sigma, torch.full_like(layer.sigma, 0.25))
        assert torch.equal(layer.u, torch.full_like(layer.u, 2.0))
        assert torch.equal(layer.u0, torch.full_like(layer.u0, -1.0))
        assert 0.3 < layer.B.std() < 0.7
        assert torch.equal(layer.z, z)
        assert torch.equal(layer.eps, eps)

    def test_manual_seed_governs_draws_and_initial_values(self):
        def make():
            torch.manual_seed(7)
            return self.create(rank=3), self.create(rank=3)

        (a, b), (c, d) = make(), make()
        x = self.inputs()
        assert torch.equal(a(x), c(x))
        assert torch.equal(b(x), d(x))
        assert a.seed != b.seed
        assert not torch.equal(a.eps, b.eps)

    # -- saving, moving, copying ------------------------------------------------------------------

    def test_state_dict_holds_what_was_learned_and_a_few_bytes(self):
        state = self.create(rank=3).state_dict()
        assert set(state) == {*LEARNED, "_extra_state"}
        assert state["_extra_state"].nbytes <= 64

    @pytest.mark.parametrize(
        "way",
        ["torch.save", "safetensors", "strict", "assign", "deepcopy", "pickle", "torch.save module",
         "meta", "meta assign", "halfnet.save"],
    )  # fmt: skip
    @pytest.mark.parametrize("configuration", [*CONFIGURATIONS, BINARY[-1]], ids=name_of)
    def test_survives_with_the_same_bits(self, configuration, way, tmp_path):
        layer = perturb(self.create(**configuration, seed=11))
        model = nn.Sequential(layer, nn.ReLU())
        x = self.inputs()
        expected = model(x)
        other = nn.Sequential(self.create(**configuration, seed=12), nn.ReLU())  # another seed
        if way == "torch.save":
            torch.save(model.state_dict(), tmp_path / "state.pt")
            other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        elif way == "safetensors":
            save_model(model, str(tmp_path / "model.safetensors"))
            load_model(other, str(tmp_path / "model.safetensors"))
        elif way == "strict":
            other.load_state_dict(model.state_dict(), strict=True)
        elif way == "assign":
            other.load_state_dict(model.state_dict(), assign=True)
        elif way == "deepcopy":
            other = copy.deepcopy(model)
        elif way == "pickle":
            other = pickle.loads(pickle.dumps(model))
        elif way == "torch.save module":
            buffer = io.BytesIO()
            torch.save(model, buffer)
            buffer.seek(0)
            other = torch.load(buffer, weights_only=False)
        elif way == "halfnet.save":
            halfnet.save(model, tmp_path / "model.safetensors")
            other = halfnet.load(tmp_path / "model.safetensors")
        else:
            with torch.device("meta"):
                other = nn.Sequential(self.create(**configuration, seed=12), nn.ReLU())
            assert other[0]._frozen.is_meta
            assert other.state_dict().keys() == model.state_dict().keys()
            if way == "meta":
                other.to_empty(device="cpu")
            other.load_state_dict(model.state_dict(), assign=way == "meta assign")
        assert torch.equal(other(x), expected)
        assert other[0].seed == 11
        for name in LEARNED:
            ours, theirs = getattr(layer, name), getattr(other[0], name)
            assert ours is None or (torch.equal(ours, theirs) and theirs is not ours)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
    def test_a_dtype_and_back_restores_the_draws_exactly(self, dtype):
        layer = self.create(rank=3)
        z, eps, state = layer.z.clone(), layer.eps.clone(), layer.state_dict()["_extra_state"]
        layer.to(dtype)
        assert torch.equal(layer.eps, eps.to(dtype))
        assert torch.equal(layer.z, z.to(dtype))
        layer.to(torch.float16 if dtype == torch.bfloat16 else torch.bfloat16)
        assert torch.equal(layer.eps, eps.to(layer.eps.dtype))  # cast once, not twice
        layer.float()
        assert torch.equal(layer.eps, eps)
        assert torch.equal(layer.z, z)
        assert torch.equal(layer.state_dict()["_extra_state"], state)

    def test_any_apply_leaves_the_draws(self):
        layer = self.create(rank=3)
        z, eps = layer.z.clone(), layer.eps.clone()
        layer._apply(lambda t: t * 0 + 5)
        assert (layer.u == 5).all()
        assert torch.equal(layer.eps, eps)
        layer.to_empty(device="cpu")
        assert torch.equal(layer.eps, eps)
        assert torch.equal(layer.z, z)
        layer.share_memory()
        assert layer.eps.is_shared()
        assert torch.equal(layer.eps, eps)

    def test_a_failing_apply_changes_nothing(self):
        layer = self.create(rank=3)
        z, eps = layer.z, layer.eps

        def fail(tensor):
            if tensor.numel():
                raise RuntimeError("no")
            return tensor

        with pytest.raises(RuntimeError, match="no"):
            layer._apply(fail)
        assert layer.z is z
        assert layer.eps is eps

    def test_pickles_are_as_small_as_state_dicts(self):
        layer = self.create(rank=1)
        learned = sum(p.nbytes for p in layer.parameters())
        assert len(pickle.dumps(layer)) < learned + 4096

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
    def test_cuda_has_the_same_draws(self):
        layer = self.create(rank=3)
        moved = copy.deepcopy(layer).cuda()
        direct = self.create(rank=3, seed=layer.seed, device="cuda")
        assert torch.equal(moved.eps.cpu(), layer.eps)
        assert torch.equal(direct.eps.cpu(), layer.eps)
        assert torch.equal(moved.bfloat16().cpu().float().eps, layer.eps)
        x = self.inputs()
        torch.testing.assert_close(
            copy.deepcopy(layer).cuda()(x.cuda()).cpu(), layer(x), rtol=1e-3, atol=1e-3
        )

    # -- the geometry -----------------------------------------------------------------------------

    def test_geometry_is_the_layers(self):
        layer = perturb(self.create(rank=3))
        sigma = layer.B @ layer.B.T + torch.diag(layer.sigma**2)
        torch.testing.assert_close(layer.geometry.covariance(), sigma)
        layer.geometry.covariance().sum().backward()
        assert layer.B.grad is not None

    def test_widening_keeps_the_old_units(self):
        layer = perturb(self.create(rank=3))
        wide = layer.widen(**{self.widen_name: layer.units + 4})
        assert wide.units == layer.units + 4
        assert torch.equal(wide.weight[: layer.units], layer.weight)
        assert torch.equal(wide.u0[: layer.units], layer.u0)
        torch.testing.assert_close(wide.u[layer.units :], layer.u.mean().expand(4))
        assert torch.equal(wide.sigma, layer.sigma)
        assert wide.sigma is not layer.sigma
        assert wide.seed == layer.seed
        state = torch.random.get_rng_state()
        layer.eval().sigma.requires_grad_(False)
        wide = layer.double().widen(**{self.widen_name: layer.units})
        assert not wide.training
        assert not wide.sigma.requires_grad
        assert wide.B.requires_grad
        assert wide.eps.dtype == torch.float64
        assert torch.equal(torch.random.get_rng_state(), state)

    def test_widening_refuses_orthogonal_draws_and_fewer_units(self):
        with pytest.raises(ValueError, match="draw: expected 'normal'"):
            self.create(rank=3, draw="orthogonal").widen(**{self.widen_name: 100})
        layer = self.create(rank=3)
        with pytest.raises(ValueError, match=f"{self.widen_name}: expected an integer of at least"):
            layer.widen(**{self.widen_name: layer.units - 1})

    def test_draws_are_those_of_the_seed(self):
        layer = self.create(rank=3, seed=5)
        expected = _draws.normal(5, _draws.EPS, layer.units, layer.fan_in)
        assert torch.equal(layer.eps, torch.from_numpy(expected))
        expected = _draws.normal(5, _draws.Z, layer.units, 3)
        assert torch.equal(layer.z, torch.from_numpy(expected))
