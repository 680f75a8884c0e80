"""Other draws for eps: what they save, and what they cost in accuracy on validation data.

    python benchmarks/structured_draw.py [--part accuracy | speed]

Each has the normal draw's covariance: mean 0, variance 1, the coordinates of a unit uncorrelated.

- "bfloat16" and "int8" (127 / 4 to a standard deviation, clipped at 4): half and a quarter of the
  memory; "rademacher": -1 and +1, a thirty-second of it.
- "hadamard": H D, and "hadamard twice": H D H D' / sqrt(d), where H is the Hadamard matrix of the
  next power of two, one a block of as many units, and each D has random signs on its diagonal. A
  product with it is made of two thin ones, as H is H1 x H2, and nothing has d x m numbers.

The first part trains networks of one half layer with each draw; the second times a training step
with the last one, on what it needs and no more, beside a half and a dense layer's.
"""

import argparse
import itertools
import json
import math
from pathlib import Path

import torch
from initial_values import make_task, validation_error
from torch import Tensor, nn

import halfnet
from halfnet.lab import _run
from halfnet.lab._bench_layers import training_step
from halfnet.lab._timing import medians

RESULTS = Path(__file__).parent / "results" / "structured_draw.json"
KINDS = ("normal", "bfloat16", "int8", "rademacher", "hadamard", "hadamard twice")
TASKS = ("mnist", "mnist+conv")
RANKS, SEEDS, RATE = (0, 4, 16), 3, 3e-3


def hadamard(size: int) -> Tensor:
    """Return the Hadamard matrix of a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def signs(*shape: int) -> Tensor:
    return torch.randint(0, 2, shape).mul_(2).sub_(1).float()


def draw(kind: str, eps: Tensor) -> Tensor:
    """Return a draw of this kind in the place of the normal draw `eps`."""
    units, width = eps.shape
    if kind == "normal":
        return eps
    if kind == "bfloat16":
        return eps.bfloat16().float()
    if kind == "int8":
        return (eps * 127 / 4).round().clamp(-127, 127) * 4 / 127
    if kind == "rademacher":
        return signs(units, width)
    size = 2 ** math.ceil(math.log2(width))
    blocks = []
    for _ in range(0, units, size):
        block = hadamard(size) * signs(size)
        if kind == "hadamard twice":
            block = block @ (hadamard(size) * signs(size)) / math.sqrt(size)
        blocks.append(block[torch.randperm(size)])
    return torch.cat(blocks)[:units, :width].contiguous()


def accuracy(content: dict) -> None:
    rows = content["accuracy"] = []
    for name in TASKS:
        task = make_task(name, train=20_000, epochs=5)
        for rank, kind in itertools.product(RANKS, KINDS):
            errors = []
            for seed in range(SEEDS):
                torch.manual_seed(seed)
                layer = halfnet.HalfLinear(task.x.shape[1], task.widths[0], rank=rank)
                layer.eps = draw(kind, layer.eps)
                model = nn.Sequential(layer, nn.ReLU(), nn.Linear(task.widths[0], 10))
                errors.append(round(validation_error(task, model, RATE, seed), 3))
            rows.append({"task": name, "rank": rank, "draw": kind, "errors": errors})
            mean = sum(errors) / len(errors)
            print(f"{name:15} k={rank:<4}{kind:16}{mean:6.2f}% errors", flush=True)
            save(content)


def save(content: dict) -> None:
    content["versions"] = _run.versions()
    rows = json.dumps(content).replace('{"task"', '\n{"task"').replace('{"n"', '\n{"n"')
    RESULTS.write_text(rows + "\n")


class Hadamard(nn.Module):
    """A half layer whose eps is H D H D' / sqrt(d), for d a power of two and m a multiple of d."""

    def __init__(self, d: int, m: int, rank: int) -> None:
        super().__init__()
        half = halfnet.HalfLinear(d, m, rank)
        self.B, self.sigma, self.u, self.u0, self.z = half.B, half.sigma, half.u, half.u0, half.z
        small = 2 ** (int(math.log2(d)) // 2)
        self.H1, self.H2 = hadamard(small), hadamard(d // small)
        self.first, self.second = signs(d), signs(max(1, m // d), 1, d)

    def transform(self, x: Tensor) -> Tensor:
        """Return x H for rows x, by its two factors; in another order, which is as good a draw."""
        once = x.reshape(-1, len(self.H2)) @ self.H2
        turned = once.view(-1, len(self.H1), len(self.H2)).mT.reshape(-1, len(self.H1))
        return (turned @ self.H1).view(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """Return the units' outputs for each input."""
        once = self.transform(x * self.sigma * self.first) / math.sqrt(len(self.sigma))
        noise = self.transform(once * self.second)  # (blocks, n, d)
        noise = noise.transpose(0, 1).reshape(len(x), -1)[:, : len(self.u)]
        return torch.addcmul(self.u0, noise + (self.B.mT @ x.mT).mT @ self.z.mT, self.u)


def speed() -> list[dict]:
    rows = []
    for n, d, m, k in [(128, 8192, 256, 32), (512, 1024, 4096, 32), (512, 4096, 1024, 32),
                       (2048, 1024, 4096, 32), (2048, 1024, 1024, 32)]:  # fmt: skip
        x, upstream = torch.randn(n, d, requires_grad=True), torch.randn(n, m)
        layers = {
            "dense": nn.Linear(d, m),
            "half": halfnet.HalfLinear(d, m, k),
            "half, noise none": halfnet.HalfLinear(d, m, k, noise="none"),
            "hadamard twice": Hadamard(d, m, k),
        }
        steps = {name: training_step(layer, x, upstream) for name, layer in layers.items()}
        times = medians(steps, seconds=1.0, least=5)
        ratios = {name: round(time / times["dense"], 3) for name, time in times.items()}
        rows.append({"n": n, "d": d, "m": m, "k": k, "over_dense": ratios})
        print(n, d, m, k, ratios, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["accuracy", "speed"])
    part = parser.parse_args().part
    content = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if part != "speed":
        torch.set_num_threads(1)
        accuracy(content)
    if part != "accuracy":
        torch.set_num_threads(2)
        content["speed"] = speed()
    save(content)


if __name__ == "__main__":
    main()
