"""What `halfnet bench` measures: each comparison side by side in one run.

A record is a dict of plain numbers and words: its `section`, what was measured, and times or bytes
as ratios to the dense layer or network.
"""

import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from halfnet import _matmul
from halfnet._engine._training import Training
from halfnet.lab import _bench_layers, specs
from halfnet.lab._timing import medians
from halfnet.nn._kept import frozen
from halfnet.nn._linear import HalfLinear

Record = dict[str, Any]


class Cell(NamedTuple):
    """A layer's place in the grid: rows of a batch, inputs, units, rank."""

    rows: int
    d: int
    m: int
    k: int
    dtype: str = "float32"
    input_gradient: bool = True
    threads: int | None = None

    @property
    def large(self) -> bool:
        """Whether the products are what takes the time."""
        return self.rows * self.d * self.m >= 2**30

    def __str__(self) -> str:
        """Return the cell in words."""
        gradient = "" if self.input_gradient else ", no input gradient"
        kind = "" if self.dtype == "float32" else f", {self.dtype}"
        threads = "" if self.threads is None else f", {self.threads} thread"
        return f"{self.rows:,} x {self.d:,} -> {self.m:,}, k={self.k}{kind}{gradient}{threads}"


_MNIST, _CONV = Cell(128, 784, 64, 16, input_gradient=False), Cell(128, 2304, 64, 8)
_CIFAR10, _BLOCK = Cell(128, 8192, 256, 32), Cell(2048, 1024, 4096, 32)
STEPS = (
    _MNIST,
    _MNIST._replace(threads=1),
    _CONV,
    _CONV._replace(threads=1),
    _CIFAR10,
    Cell(512, 1024, 4096, 32),
    Cell(512, 4096, 1024, 32),
    Cell(2048, 768, 3072, 16),
    _BLOCK,
    Cell(2048, 4096, 1024, 32),
    Cell(2048, 4096, 11008, 128),
    Cell(8192, 1024, 4096, 32),
    Cell(512, 1024, 4096, 32, input_gradient=False),
    _BLOCK._replace(input_gradient=False),
    _MNIST._replace(dtype="bfloat16"),
    Cell(512, 1024, 4096, 32, "bfloat16"),
    _BLOCK._replace(dtype="bfloat16"),
    _BLOCK._replace(dtype="bfloat16", input_gradient=False),
)
INFERENCE = (Cell(1, 784, 64, 16), Cell(1, 4096, 4096, 32), _MNIST, _CIFAR10, _BLOCK)
MEMORY = (
    Cell(128, 784, 64, 2),
    Cell(128, 8192, 256, 10),
    Cell(128, 1024, 1024, 40),
    Cell(128, 4096, 1024, 40),
    Cell(128, 1024, 4096, 163),
    Cell(2048, 1024, 4096, 32),
)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    steps: tuple[Cell, ...] = STEPS
    inference: tuple[Cell, ...] = INFERENCE
    memory: tuple[Cell, ...] = MEMORY
    peaks: bool = True
    network_steps: int = 40
    seconds: float = 0.7
    least: int = 3


_TINY = (Cell(8, 12, 6, 2), Cell(8, 12, 6, 2, "bfloat16", False))
QUICK = Plan(_TINY, _TINY[:1], _TINY[:1], False, 2, 0.01, 2)


def run(plan: Plan) -> Iterator[Record]:
    """Yield the records, each as soon as it is measured."""
    for cell in plan.steps:
        yield training_step(cell, plan)
    for cell in plan.inference:
        yield inference(cell, plan)
    for cell in plan.memory:
        yield memory(cell, peaks=plan.peaks)
    for name, pair in _NETWORKS.items():
        yield network(name, *pair, plan)


def training_step(cell: Cell, plan: Plan) -> Record:
    """Time a step of each layer, and of two with the products changed.

    "half, torch's products" is what a half layer gains by its arithmetic, without oneDNN;
    "nn.Linear by oneDNN" is what a dense layer would gain by it.
    """
    dtype = getattr(torch, cell.dtype)
    layers = _bench_layers.layers(cell.rows, cell.d, cell.m, cell.k, dtype)
    x = torch.randn(cell.rows, cell.d, dtype=dtype, requires_grad=cell.input_gradient)
    upstream = torch.randn(cell.rows, cell.m, dtype=dtype)
    steps = {
        name: _bench_layers.training_step(layer, x, upstream) for name, layer in layers.items()
    }
    if cell.dtype == "float32":
        steps["half, torch's products"] = _with_torchs_products(steps["half"])
        other = _bench_layers.ByOneDNN(cell.d, cell.m)
        steps["nn.Linear by oneDNN"] = _bench_layers.training_step(other, x, upstream)
    with _threads(cell.threads):
        times = medians(steps, seconds=plan.seconds, least=plan.least)
    numbers = {name: _bench_layers.learned(layer) for name, layer in layers.items()}
    return _record("step", cell, times, "nn.Linear") | {"learned": numbers}


def inference(cell: Cell, plan: Plan) -> Record:
    """Time forward of a half layer as it is, frozen and folded."""
    half, x = HalfLinear(cell.d, cell.m, cell.k), torch.randn(cell.rows, cell.d)
    other = HalfLinear(cell.d, cell.m, cell.k)
    with frozen(other):
        times = medians(
            {
                "nn.Linear": _bench_layers.inference(nn.Linear(cell.d, cell.m), x),
                "plain": _bench_layers.inference(half, x),
                "frozen": _bench_layers.inference(other, x),
                "folded": _bench_layers.inference(half.to_dense(), x),
            },
            seconds=plan.seconds,
            least=plan.least,
        )
    return _record("inference", cell, times, "nn.Linear")


def memory(cell: Cell, *, peaks: bool) -> Record:
    """Add up what training keeps of a layer, and measure the peak of a step in another process."""
    kinds = {"nn.Linear": nn.Linear(cell.d, cell.m), "half": HalfLinear(cell.d, cell.m, cell.k)}
    kept = {name: _kept_bytes(layer, cell) for name, layer in kinds.items()}
    ratio = round(kept["half"] / kept["nn.Linear"], 3)
    record: Record = {"section": "memory", "cell": str(cell), **cell._asdict()}
    record |= {"bytes": kept, "ratios": {"kept": ratio}}
    if peaks:
        found = {name: _peak_bytes(name, cell) for name in kinds}
        record["peak_bytes"] = found
        record["ratios"]["peak"] = round(found["half"] / found["nn.Linear"], 3)
    return record


def _kept_bytes(layer: nn.Module, cell: Cell) -> int:
    """Return the bytes of parameters, gradients, Adam's state and frozen draws after a step."""
    parameters = list(layer.parameters())
    optimizer = torch.optim.Adam(parameters, fused=True)
    layer(torch.randn(2, cell.d)).sum().backward()
    optimizer.step()
    state = [t for values in optimizer.state.values() for t in values.values()]
    gradients = [p.grad for p in parameters if p.grad is not None]
    return sum(t.nbytes for t in (*parameters, *gradients, *state, *layer.buffers()))


_PEAK = """
import sys, torch, halfnet
from halfnet.lab._bench_layers import training_step
kind, n, d, m, k = sys.argv[1], *map(int, sys.argv[2:])
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))
small = halfnet.HalfLinear(8, 8, 2) if kind == "half" else torch.nn.Linear(8, 8)
training_step(small, torch.randn(4, 8, requires_grad=True), torch.randn(4, 8))()
before = peak()
layer = halfnet.HalfLinear(d, m, k) if kind == "half" else torch.nn.Linear(d, m)
step = training_step(layer, torch.randn(n, d, requires_grad=True), torch.randn(n, m))
for _ in range(3):
    step()
print(1024 * (peak() - before))
"""


def _peak_bytes(kind: str, cell: Cell) -> int:
    """Return by how much making and training a layer raises a new process's peak of memory."""
    arguments = [sys.executable, "-c", _PEAK, kind, *map(str, cell[:4])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return max(1, int(done.stdout))


_NETWORKS = {
    "mnist": ("k=16", "MLP h=64"),
    "cifar10": ("Full-Half k=32", "Full-Full"),
}


def network(name: str, half: str, dense: str, plan: Plan) -> Record:
    """Time some steps of two of the paper's networks, by the lab's training loop.

    The pixels are random: how long a step takes does not depend on them.
    """
    table = specs.paper().table(name)
    recipe = specs.paper().preset("paper").recipe(name)
    shape = (28, 28) if name == "mnist" else (3, 32, 32)
    generator = np.random.default_rng(0)
    count = recipe.batch_size * plan.network_steps
    images = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
    labels = generator.integers(0, 10, count, dtype=np.uint8)
    epochs: dict[str, Callable[[], object]] = {}
    for key, row in (("dense", dense), ("half", half)):
        model = specs.build(table.row(row).architecture, shape, 10, seed=0)
        epochs[key] = Training([model], replace(recipe, epochs=10**6), images, labels).run_epoch
    times = medians(epochs, seconds=3 * plan.seconds, least=plan.least)
    ratios = {"half": round(times["half"] / times["dense"], 3)}
    per_step = {key: round(1e3 * time / plan.network_steps, 4) for key, time in times.items()}
    return {"section": "network", "cell": f"{name}: {half} against {dense}", "ms": per_step,
            "ratios": ratios, "precision": recipe.precision}  # fmt: skip


def _record(section: str, cell: Cell, times: dict[str, float], dense: str) -> Record:
    ms = {name: round(1e3 * time, 4) for name, time in times.items()}
    ratios = {name: round(t / times[dense], 3) for name, t in times.items() if name != dense}
    return {"section": section, "cell": str(cell), **cell._asdict(), "ms": ms, "ratios": ratios}


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _with_torchs_products(step: Callable[[], None]) -> Callable[[], None]:
    def run_it() -> None:
        with _torchs_products():
            step()

    return run_it


@contextmanager
def _torchs_products() -> Iterator[None]:
    onednn = _matmul._BY_ONEDNN
    _matmul._BY_ONEDNN = None
    try:
        yield
    finally:
        _matmul._BY_ONEDNN = onednn


def processor() -> str:
    """Return what the system calls its processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
