"""Initial values of a half layer: what trains best, on validation data, at fan-ins 64 to 8192.

    python benchmarks/initial_values.py [--tasks digits mnist ...] [--seeds 3]

Every task trains a network with half layers on part of its training set and is scored by the error
on another part; no test set is read. sigma starts at c_sigma / sqrt(fan-in) and B at standard
deviation c_B / sqrt(fan-in), both over a grid, at several learning rates and ranks.
Results go to benchmarks/results/initial_values.json.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import halfnet
from halfnet.lab import data

RESULTS = Path(__file__).parent / "results" / "initial_values.json"


@dataclass
class Task:
    name: str
    x: Tensor
    y: Tensor
    valid_x: Tensor
    valid_y: Tensor
    widths: tuple[int, ...]
    ranks: tuple[int, ...]
    epochs: int


def arrays(name: str) -> tuple[Tensor, Tensor]:
    """Return a data set's training images as floats in [0, 1] and its labels."""
    loaded = data.load(name)
    images = torch.from_numpy(np.array(loaded.train_images)).float() / (
        16 if name == "digits" else 255
    )
    return images, torch.from_numpy(np.array(loaded.train_labels)).long()


def conv_features(images: Tensor, filters: int, padding: str) -> Tensor:
    """Features of the paper's front ends, with filters as torch draws them, left untrained."""
    generator = torch.Generator().manual_seed(0)
    channels = images.shape[1]
    bound = (channels * 25) ** -0.5
    weight = (torch.rand(filters, channels, 5, 5, generator=generator) * 2 - 1) * bound
    pad = 2 if padding == "same" else 0
    chunks = [
        F.relu(F.max_pool2d(F.conv2d(c, weight, padding=pad), 2)).flatten(1)
        for c in images.split(1000)
    ]
    return torch.cat(chunks)


def split(name: str, x: Tensor, y: Tensor, n: int, valid: int, **kwargs) -> Task:
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    train, test = order[:n], order[n : n + valid]
    return Task(name, x[train], y[train], x[test], y[test], **kwargs)


def make_task(name: str, *, train: int = 10_000, epochs: int = 4) -> Task:
    if name == "digits":
        x, y = arrays("digits")
        return split(name, x.flatten(1), y, 1000, 400, widths=(64,), ranks=(4, 16), epochs=30)
    if name == "cifar10-conv":
        x, y = arrays("cifar10")
        x, y = x[:12000], y[:12000]
        features = conv_features(x, 32, "same")
        return split(name, features, y, 8000, 4000, widths=(256,), ranks=(8, 32), epochs=4)
    source, _, variant = name.partition("+")
    x, y = arrays(source)
    if variant == "conv":
        x = conv_features(x[:30000, None], 16, "valid")
        return split(name, x, y[:30000], train, 10000, widths=(64,), ranks=(2, 8), epochs=epochs)
    x = x.flatten(1)
    if variant == "standardized":
        x = (x - x.mean(0)) / x.std(0).clamp(min=0.1)
    widths, ranks = ((64, 64), (4, 16, 48)) if variant == "two" else ((64,), (4, 16))
    return split(name, x, y, train, 10000, widths=widths, ranks=ranks, epochs=epochs)


TASKS = (
    "digits", "mnist", "fashion-mnist", "mnist+standardized", "mnist+two", "mnist+conv",
    "cifar10-conv",
)  # fmt: skip


def initial(kind: str, c_sigma: float, c_B: float, c_u: float, fan_in: int, rank: int):
    """Return the initial values of a trial: how each kind's constants scale with the fan-in."""
    scale = fan_in**-0.5
    if kind == "learned":
        return halfnet.Init(B=c_B * scale, sigma=c_sigma * scale, u=c_u)
    if kind == "none":
        return halfnet.Init(B=c_B * scale * rank**-0.5, u=c_u)
    # The weights are of size 1 whatever B and sigma are, so u brings the outputs to size.
    return halfnet.Init(B=c_B, sigma=c_sigma, u=c_u * scale)


def network(task: Task, kind: str, rank: int, constants: tuple[float, ...]) -> nn.Module:
    options = {"binary": True} if kind == "binary" else {"noise": kind}
    layers: list[nn.Module] = []
    fan_in = task.x.shape[1]
    for width in task.widths:
        init = initial(kind, *constants, fan_in, rank) if any(constants) else "paper"
        layers += [halfnet.HalfLinear(fan_in, width, rank=rank, init=init, **options), nn.ReLU()]
        fan_in = width
    return nn.Sequential(*layers, nn.Linear(fan_in, 10))


def batches(task: Task, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(task.epochs):
        for index in torch.randperm(len(task.x), generator=generator).split(128):
            yield task.x[index], task.y[index]


def validation_error(task: Task, model: nn.Module, lr: float, seed: int) -> float:
    """Train with Adam and cosine decay; return the validation error in per cent."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    steps = task.epochs * -(-len(task.x) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, lr, total_steps=steps, pct_start=0.05, cycle_momentum=False
    )
    for x, y in batches(task, seed):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return 100 * float((model(task.valid_x).argmax(1) != task.valid_y).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--kind", default="learned", choices=("learned", "fixed", "none", "binary"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--train", type=int, default=10_000, help="images to train on")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sigma", nargs="+", type=float, default=[0.5, 1, 2, 4])
    parser.add_argument("--B", nargs="+", type=float, default=[0.1, 0.3, 1, 3])
    parser.add_argument("--u", nargs="+", type=float, default=[1.0])
    parser.add_argument("--lr", nargs="+", type=float, default=[1e-3, 3e-3])
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(args.out.read_text()) if args.out.exists() else []
    keys = ("task", "train", "epochs", "kind", "rank", "sigma", "B", "u", "lr")
    done = {tuple(row[key] for key in keys) for row in rows}
    grid = [(0.0, 0.0, 0.0), *itertools.product(args.sigma, args.B, args.u)]  # zeros: the paper's
    for name in args.tasks:
        task = make_task(name, train=args.train, epochs=args.epochs)
        start = time.time()
        for rank, constants, lr in itertools.product(task.ranks, grid, args.lr):
            setting = (name, len(task.x), task.epochs, args.kind, rank, *constants, lr)
            if setting in done:
                continue
            errors = []
            for seed in range(args.seeds):
                torch.manual_seed(seed)
                model = network(task, args.kind, rank, constants)
                errors.append(round(validation_error(task, model, lr, seed), 3))
            rows.append(dict(zip(keys, setting, strict=True)) | {"errors": errors})
        args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        print(f"{name}, {args.kind}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
