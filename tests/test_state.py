"""What a state dict that doesn't fit does: torch's own kind of error, and nothing half-changed."""

import copy
import pickle
import re

import pytest
import torch
from safetensors.torch import load_model, save_file, save_model
from torch import nn

import halfnet
from halfnet import _draws


def model(seed=1, **options):
    torch.manual_seed(seed)
    options = {"rank": 4, "seed": seed} | options
    return nn.Sequential(halfnet.HalfLinear(30, 12, **options), nn.ReLU(), nn.Linear(12, 3))


def changed(state, index, value):
    state["0._extra_state"] = state["0._extra_state"].clone()
    state["0._extra_state"][index] = value
    return state


def with_record(record):
    return lambda state: state | {"0._extra_state": record}


BAD_STATES = {
    "shape of B": (
        lambda state: state | {"0.B": torch.zeros(30, 5)},
        r"size mismatch for 0\.B: expected \(30, 4\), got \(30, 5\)",
    ),
    "shape of u": (
        lambda state: state | {"0.u": torch.zeros(13)},
        r"size mismatch for 0\.u: expected \(12,\), got \(13,\)",
    ),
    "checksum": (
        lambda state: changed(state, 3, 12345),
        r"0\._extra_state: checksum of the draws: expected .* for seed 2 with 12 units, rank 4 and "
        r"fan-in 30, got 0x3039: the state is damaged",
    ),
    "seed": (lambda state: changed(state, 2, 99), r"checksum of the draws: .* for seed 99"),
    "version": (
        lambda state: changed(state, 0, 7),
        r"0\._extra_state: format version of the draws: expected 1, got 7",
    ),
    "kind": (lambda state: changed(state, 1, 5), "kind of draw: expected a number below 2, got 5"),
    "negative kind": (lambda state: changed(state, 1, -1), "kind of draw: .* got -1"),
    "half-precision record": (
        lambda state: {key: tensor.half() for key, tensor in state.items()},
        r"record of the draws: expected an int64 tensor \(format .* got torch\.float16",
    ),
    "layout": (
        lambda state: changed(state, 4, 15),
        r"shape of a unit's weights: expected \(30,\), got \(15,\)",
    ),
    "integers": (
        lambda state: state | {"0.B": torch.zeros(30, 4, dtype=torch.int64)},
        r"0\.B: expected a floating-point tensor, got torch\.int64",
    ),
    "sparse": (
        lambda state: state | {"0.B": torch.zeros(30, 4).to_sparse()},
        r"0\.B: expected a dense tensor, got torch\.sparse_coo",
    ),
    "list": (
        lambda state: state | {"0.sigma": [1.0] * 30},
        r"0\.sigma: expected a floating-point tensor, got list",
    ),
    "no tensor": (with_record({"seed": 3}), r"record of the draws: expected .*, got \{'seed': 3\}"),
    "short record": (with_record(torch.zeros(3, dtype=torch.int64)), r"of shape \(3,\)"),
    "meta record": (
        with_record(torch.zeros(4, dtype=torch.int64, device="meta")),
        "record of the draws: .* on meta",
    ),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("name", BAD_STATES)
def test_a_state_that_does_not_fit_is_reported_and_changes_nothing(name, strict, assign):
    spoil, message = BAD_STATES[name]
    ours = model(seed=1)
    before = copy.deepcopy(ours[0])
    with pytest.raises(RuntimeError, match=message) as error:
        ours.load_state_dict(spoil(model(seed=2).state_dict()), strict=strict, assign=assign)
    assert "Error(s) in loading state_dict for Sequential" in str(error.value)
    for ours_now, ours_before in zip(ours[0].parameters(), before.parameters(), strict=True):
        assert torch.equal(ours_now, ours_before)
    assert torch.equal(ours[0].eps, before.eps)
    assert torch.equal(ours[0].z, before.z)
    assert ours[0].seed == 1
    x = torch.randn(5, 30)
    assert torch.equal(ours[0](x), before(x))


def test_a_state_of_another_noise_is_found_by_the_checksum():
    state = model(noise="none").state_dict()
    with pytest.raises(RuntimeError, match="another shape or noise"):
        model(noise="fixed").load_state_dict(state)


def test_missing_and_unexpected_keys_are_torchs_errors():
    state = model().state_dict()
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0._extra_state"'):
        model().load_state_dict(state)
    other = model(seed=3)
    seed, eps = other[0].seed, other[0].eps.clone()
    assert other.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    assert other[0].seed == seed  # parameters came, the draws are its own still
    assert torch.equal(other[0].eps, eps)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "0.eps"'):
        model().load_state_dict(model().state_dict() | {"0.eps": eps})


@pytest.mark.parametrize("change", ["0.u0", "0._extra_state", "0.eps", "0.adapter.A"])
def test_without_strict_all_that_fits_is_loaded(change):
    source, ours = model(seed=2), model(seed=1)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.normal_()
    state = source.state_dict()
    missing = change in state
    if missing:
        del state[change]
    else:
        state[change] = torch.zeros(1)
    u0 = ours[0].u0.clone()
    report = ours.load_state_dict(state, strict=False)
    assert list(report) == [[change] * missing, [change] * (not missing)]
    for name in ("B", "sigma", "u"):
        assert torch.equal(getattr(ours[0], name), getattr(source[0], name))
    assert torch.equal(ours[0].u0, u0 if change == "0.u0" else source[0].u0)
    drawn_by = model(seed=1) if change == "0._extra_state" else source
    assert ours[0].seed == drawn_by[0].seed
    assert torch.equal(ours[0].eps, drawn_by[0].eps)
    with pytest.raises(RuntimeError, match=re.escape(change)):
        model().load_state_dict(state)


def test_a_state_without_data_changes_nothing():
    ours = model(seed=1)
    before = copy.deepcopy(ours[0])
    state = model(seed=2).state_dict()
    state["0.u"] = state["0.u"].to("meta")
    with pytest.raises(RuntimeError, match=r"0\.u: expected a tensor with data, got one on meta"):
        ours.load_state_dict(state)
    assert ours[0].seed == 1
    assert torch.equal(ours[0].B, before.B)
    assert torch.equal(ours[0].eps, before.eps)


def test_load_hooks_run_once_and_before_the_checks():
    ours, calls = model(seed=1), []

    def rename(module, state_dict, prefix, *args):
        calls.append(prefix)
        if prefix + "old" in state_dict:
            state_dict[prefix + "B"] = state_dict.pop(prefix + "old")

    ours[0].register_load_state_dict_pre_hook(rename)
    state = model(seed=2).state_dict()
    state["0.old"] = state.pop("0.B")
    ours[0].load_state_dict({key[2:]: value for key, value in state.items() if key[0] == "0"})
    assert torch.equal(ours[0].B, model(seed=2)[0].B)
    assert calls == [""]
    bad = model(seed=3)[0].state_dict()
    bad["old"] = torch.zeros(30, 9)
    with pytest.raises(RuntimeError, match="size mismatch for B"):
        ours[0].load_state_dict(bad)
    assert ours[0].seed == 2


def test_another_layout_of_the_same_fan_in_is_refused():
    wide, tall = (halfnet.HalfConv2d(2, 4, kernel, rank=2) for kernel in ((3, 5), (5, 3)))
    with pytest.raises(RuntimeError, match=r"weights: expected \(2, 5, 3\), got \(2, 3, 5\)"):
        tall.load_state_dict(wide.state_dict())


def test_parametrized_layers_load_and_widen():
    layer = torch.nn.utils.parametrizations.weight_norm(model()[0], "B")
    other = torch.nn.utils.parametrizations.weight_norm(model(seed=5)[0], "B")
    other.load_state_dict(layer.state_dict())
    x = torch.randn(3, 30)
    assert torch.equal(other(x), layer(x))
    torch.testing.assert_close(layer.widen(20).weight[:12], layer.weight)


def test_pickles_verify_the_draws(monkeypatch):
    data = pickle.dumps(model())
    monkeypatch.setattr(_draws, "_KEY_STEPS", (1, 2))
    with pytest.raises(halfnet.HalfnetError, match="checksum of the draws"):
        pickle.loads(data)
    monkeypatch.setattr(_draws, "FORMAT_VERSION", 2)
    with pytest.raises(halfnet.HalfnetError, match="format version of the draws: expected 2, got"):
        pickle.loads(data)


def test_meta_layers_pickle_and_run():
    layer = pickle.loads(pickle.dumps(halfnet.HalfLinear(30, 12, rank=4, device="meta")))
    for rows in (5, 100):  # one for each way to compute
        assert layer(torch.empty(rows, 30, device="meta")).shape == (rows, 12)
    assert layer.to_dense().weight.shape == layer.weight.shape == (12, 30)
    assert layer.geometry.kernel(torch.empty(5, 30, device="meta")).shape == (5, 5)
    layer.to_empty(device="cpu")
    assert layer.eps.shape == (12, 30)


def test_a_failing_redraw_changes_nothing():
    layer = model()[0]
    eps = layer.eps
    for seed in (-1, 2**64, "x", None, True):
        with pytest.raises(halfnet.HalfnetError, match="seed: expected an integer from 0 to"):
            layer.redraw(seed)
    assert layer.seed == 1
    assert layer.eps is eps


def test_a_deep_copy_keeps_one_layer_one():
    layer = model()[0]
    copies = copy.deepcopy([layer, layer])
    assert copies[0] is copies[1]


@pytest.mark.parametrize("way", ["resample", "load", "half"])
def test_layers_that_changed_in_inference_mode_can_be_trained(way):
    network = model()
    with torch.inference_mode():
        if way == "resample":
            halfnet.resample_(network, seed=3)
        elif way == "load":
            network[0].set_extra_state(model(seed=2)[0].get_extra_state())
        else:
            network[0]._place(network[0].eps.device, torch.bfloat16)
            network[0]._place(network[0].eps.device, torch.float32)
    network(torch.randn(5, 30, requires_grad=True)).sum().backward()
    assert network[0].B.grad is not None


def test_the_seed_and_kind_come_with_the_state():
    for seed in (0, 5, 2**63, 2**64 - 1):
        for draw in ("normal", "orthogonal"):
            source = model(seed=seed % 2**32, draw=draw)
            source[0].redraw(seed)
            target = model()
            target.load_state_dict(source.state_dict())
            assert (target[0].seed, target[0].draw) == (seed, draw)
            assert torch.equal(target[0].z, source[0].z)


def test_safetensors_says_what_does_not_fit(tmp_path):
    save_model(model(), str(tmp_path / "model.safetensors"))
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.B"):
        load_model(model(rank=3), str(tmp_path / "model.safetensors"))


def test_loading_on_meta_without_assign_still_verifies():
    with torch.device("meta"):
        target = model()
    with pytest.raises(RuntimeError, match="checksum"):
        target.load_state_dict(changed(model().state_dict(), 3, 5), assign=True)
    assert target[0].eps.is_meta


def test_assign_brings_dtype_and_device_of_the_state():
    state = {
        key: tensor.bfloat16() if tensor.is_floating_point() else tensor
        for key, tensor in model().state_dict().items()
    }
    target = model(seed=3)
    target.load_state_dict(state, assign=True)
    x = torch.randn(5, 30, dtype=torch.bfloat16)
    assert torch.equal(target(x), model().bfloat16()(x))
    with torch.device("meta"):
        target = model()
    target.load_state_dict(state, assign=True)
    assert torch.equal(target(x), model().bfloat16()(x))


def test_a_layer_with_nothing_learned_comes_off_meta():
    options = {"rank": 0, "noise": "fixed", "affine": False, "seed": 8}
    layer = halfnet.HalfLinear(30, 12, **options)
    with torch.device("meta"):
        empty = halfnet.HalfLinear(30, 12, **options)
    assert not list(layer.parameters())
    empty.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(empty.eps, layer.eps)


def test_meta_layers_draw_nothing():
    layer = halfnet.HalfLinear(10**6, 10**6, rank=4, device="meta")
    assert layer.state_dict()["_extra_state"].is_meta
    assert layer.geometry.B.is_meta
    assert copy.deepcopy(layer).eps.is_meta


def test_the_papers_network_fits_the_promised_size(tmp_path):
    network = nn.Sequential(halfnet.HalfLinear(784, 64, rank=16), nn.ReLU(), nn.Linear(64, 10))
    learned = sum(parameter.numel() for parameter in network.parameters())
    assert learned == 14_106
    limit = learned * 4 + 4096
    halfnet.save(network, tmp_path / "a")
    save_file(network.state_dict(), tmp_path / "b")
    torch.save(network.state_dict(), tmp_path / "c")
    assert (tmp_path / "a").stat().st_size <= limit
    assert (tmp_path / "b").stat().st_size <= limit
    assert (tmp_path / "c").stat().st_size <= limit


def test_optimizers_and_averaging_see_parameters_only():
    network = model()
    average = torch.optim.swa_utils.AveragedModel(network)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.randn(5, 30)).sum().backward()
    optimizer.step()
    average.update_parameters(network)
    assert torch.equal(average.module[0].eps, network[0].eps)
    fresh = model(seed=4)
    fresh.load_state_dict(average.module.state_dict())
    assert torch.equal(fresh(torch.ones(1, 30)), average(torch.ones(1, 30)))


@pytest.mark.parametrize(
    "use",
    [
        lambda network: network.state_dict(),
        pickle.dumps,
        lambda network: network.bfloat16(),
        lambda network: copy.deepcopy(network).state_dict(),
    ],
    ids=["state", "pickle", "to", "copy"],
)
def test_draws_that_something_wrote_into_are_not_saved_as_the_seeds(use):
    """As DDP does to ranks of other seeds, and averaging by hand."""
    network, other = model(seed=1), model(seed=2)
    with torch.no_grad():
        network[0].eps.copy_(model(seed=1)[0].eps)  # the same numbers do no harm
        use(network)
        network = model(seed=1)
        network[0].eps.copy_(other[0].eps)
    with pytest.raises(halfnet.HalfnetError, match="eps: expected the draws of seed 1, got others"):
        use(network)
    network.load_state_dict(model(seed=1).state_dict())
    use(network)
    assert torch.equal(
        network[0].eps.float(), model(seed=1).to(network[0].eps.dtype)[0].eps.float()
    )


def test_a_redraw_on_meta_leaves_the_old_checksum_behind():
    layer, state = model(seed=1), model(seed=5).state_dict()
    layer.to("meta")
    layer[0].redraw(5)
    assert layer.state_dict()["0._extra_state"].is_meta
    layer.load_state_dict(state, assign=True)
    assert torch.equal(layer[0].eps, model(seed=5)[0].eps)


def test_error_text_has_no_line_breaks_of_its_own():
    with pytest.raises(RuntimeError) as error:
        model().load_state_dict(changed(model().state_dict(), 3, 5))
    assert re.search(r"\n\t0\._extra_state: [^\n]+$", str(error.value).rstrip(". \n"))
