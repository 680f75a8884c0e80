"""Half models, and what `fold_` makes of them, in the hands of torch's exporters and tools."""

import copy
import warnings

import onnxruntime
import pytest
import torch
from contract import perturb
from convert_models import GPT, ResNet
from torch import nn
from torch.utils.checkpoint import checkpoint

import halfnet
from halfnet import HalfLinear


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch._dynamo.reset()


def half(name):
    """Return a converted model in evaluation mode and an input."""
    torch.manual_seed(1)
    if name == "resnet":
        model, x = ResNet(), torch.randn(2, 3, 8, 8)
    elif name == "gpt":
        model, x = GPT(), torch.randint(11, (2, 12))
    elif name == "encoder":
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        model, x = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), torch.randn(2, 5, 8)
    else:
        model, x = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(2, 12)
    halfnet.convert_(model, 2, exclude="head", seed=1)
    for module in model.modules():
        if isinstance(module, halfnet.HalfLayer):
            perturb(module)
    return model.eval(), x


def close(out, expected):
    scale = expected.abs().max()
    torch.testing.assert_close(out / scale, expected / scale, rtol=1e-5, atol=1e-5)


def run_onnx(model, x):
    """Export with a batch of any size, and return what onnxruntime computes."""
    batch = torch.export.Dim("batch", min=1, max=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, which change with its version
        program = torch.onnx.export(
            model, (x,), dynamo=True, verbose=False, dynamic_shapes=({0: batch},)
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    (given,) = session.get_inputs()
    return lambda x: torch.from_numpy(session.run(None, {given.name: x.numpy()})[0])


@pytest.mark.parametrize("name", ["resnet", "encoder"])
def test_folded_models_in_onnxruntime(name):
    model, x = half(name)
    more = torch.cat([x, x.flip(0), x])
    with torch.no_grad():
        expected, wider = model(x), model(more)
    halfnet.fold_(model)
    with torch.no_grad():
        close(model(x), expected)
    run = run_onnx(model, x)
    close(run(x), expected)
    close(run(more), wider)


def test_a_half_model_in_onnxruntime():
    model, x = half("mlp")
    run = run_onnx(model, x)
    with torch.no_grad():
        close(run(x), model(x))
        close(run(torch.cat([x, x])), model(torch.cat([x, x])))


@pytest.mark.parametrize("name", ["resnet", "gpt", "encoder"])
@pytest.mark.parametrize("folded", [False, True])
def test_torch_export(name, folded):
    model, x = half(name)
    expected = model(x)
    if folded:
        halfnet.fold_(model)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},)).module()
    close(program(x), expected)
    assert len(program(torch.cat([x, x]))) == 4
    names = {n.rpartition(".")[2] for n in program.state_dict()}
    assert ("B" in names) != folded


@pytest.mark.parametrize("name", ["resnet", "gpt", "encoder"])
@pytest.mark.parametrize("folded", [False, True])
def test_torch_compile_without_breaks_or_recompiles(name, folded):
    model, x = half(name)
    expected = model(x)
    if folded:
        halfnet.fold_(model)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for _ in range(3):
        close(compiled(x), expected)
        with torch.no_grad():  # as an optimizer's step does
            for parameter in model.parameters():
                parameter.mul_(1.0)
    assert len(graphs) == 1


def test_a_compiled_model_that_is_folded_is_compiled_anew():
    model, x = half("mlp")
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    expected = compiled(x)
    halfnet.fold_(model)
    close(compiled(x), expected)


@pytest.mark.filterwarnings("ignore")  # torchao's import
def test_quantization_by_torchao():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_  # noqa: PLC0415

    model, x = half("mlp")
    half_kept = copy.deepcopy(model)
    expected = model(x)
    quantize_(halfnet.fold_(model), Int8WeightOnlyConfig())
    assert type(model[0].weight.data) is not torch.Tensor
    error = (model(x) - expected).abs().max() / expected.abs().max()
    assert 0 < error < 0.03
    with pytest.raises(halfnet.HalfnetError, match=r"0: expected an nn\.Linear with plain"):
        halfnet.convert_(model, 2)
    quantize_(half_kept, Int8WeightOnlyConfig())  # finds no nn.Linear, and does no harm
    close(half_kept(x), expected)


def test_channels_last():
    model, x = half("resnet")
    expected = model(x)
    model = model.to(memory_format=torch.channels_last)
    close(model(x.to(memory_format=torch.channels_last)), expected)
    halfnet.fold_(model).to(memory_format=torch.channels_last)
    assert model.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    close(model(x.to(memory_format=torch.channels_last)), expected)


def test_clipping_gradients():
    model, x = half("resnet")
    model(x).square().sum().backward()
    before = [p.grad.clone() for p in model.parameters()]
    norm = torch.cat([g.flatten() for g in before]).norm()
    total = nn.utils.clip_grad_norm_(model.parameters(), norm.item() / 2)
    torch.testing.assert_close(total, norm)
    for parameter, grad in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, grad / 2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "encoder"])
def test_gradient_checkpointing(name):
    model, x = half(name)
    model.train()
    x.requires_grad_()

    def gradients(call):
        out = call(x)
        return out, torch.autograd.grad(out.square().sum(), [x, *model.parameters()])

    out, grads = gradients(model)
    again, others = gradients(lambda x: checkpoint(model, x, use_reentrant=False))
    torch.testing.assert_close(again, out)
    torch.testing.assert_close(others, grads)


def test_training_goes_on_after_folding():
    model, x = half("mlp")
    halfnet.fold_(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert type(model[0]) is nn.Linear
    assert isinstance(HalfLinear.from_linear(model[0], 2), HalfLinear)
