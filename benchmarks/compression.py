"""A trained network's large layer replaced: accuracy against parameters for each start.

    python benchmarks/compression.py [--tasks mnist fashion-mnist fashion-mnist+conv]

A dense network is trained, and its large layer becomes a half layer that starts "fresh", by
"moments" or by "lstsq", or, as the obvious baseline, the truncated SVD of its trained weights as
two thin layers. Each is scored as it is, after the output layer was refitted, and after the whole
network was fine-tuned. The learning rate of the fine-tuning is chosen on validation data, for each
task and start; test accuracies are computed with the chosen one only.
Results go to benchmarks/results/compression.json, and a run that is started again goes on.
"""

import argparse
import copy
import fcntl
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import halfnet
from halfnet.lab import data

RESULTS = Path(__file__).parent / "results" / "compression.json"
TASKS = ("mnist", "fashion-mnist", "fashion-mnist+conv")
STARTS = ("fresh", "moments", "lstsq", "svd")
RANKS = {False: (2, 8, 32, 64), True: (4, 32)}
RATES = (1e-3, 3e-3, 1e-2)
SEEDS, BATCH, TRAIN, VALIDATION = 3, 128, 20_000, 5_000
EPOCHS = {False: (10, 5), True: (6, 2)}  # of the training, of the fine-tuning; with a convolution

Split = tuple[Tensor, Tensor]


@dataclass
class Task:
    name: str
    train: Split
    valid: Split
    test: Split

    @property
    def conv(self) -> bool:
        """Whether a convolution, trained too, stands before the large layer."""
        return self.name.endswith("+conv")


def load(name: str) -> Task:
    loaded = data.load(name.removesuffix("+conv"))

    def split(images: np.ndarray, labels: np.ndarray) -> Split:
        x = torch.from_numpy(np.array(images)).float().unsqueeze(1) / 255
        return x, torch.from_numpy(np.array(labels)).long()

    x, y = split(loaded.train_images, loaded.train_labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, valid = order[:TRAIN], order[TRAIN : TRAIN + VALIDATION]
    test = split(loaded.test_images, loaded.test_labels)
    return Task(name, (x[train], y[train]), (x[valid], y[valid]), test)


def network(task: Task) -> nn.Sequential:
    """Return front end, large layer and output layer: 784-256-10, or the paper's with a conv."""
    if task.conv:
        front = nn.Sequential(nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
        return nn.Sequential(front, nn.Linear(2304, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def train(model: nn.Module, split: Split, epochs: int, lr: float, seed: int) -> None:
    """Train by Adam with 5% warm-up and cosine decay."""
    x, y = split
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    steps = epochs * (len(x) // BATCH)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min((i + 1) / (0.05 * steps), 0.5 + 0.5 * math.cos(math.pi * i / steps)),
    )
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=generator).split(BATCH):
            if len(index) < BATCH:
                continue
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
            rate.step()


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    right = sum(
        (model(x).argmax(1) == y).sum().item()
        for x, y in zip(split[0].split(2000), split[1].split(2000), strict=True)
    )
    return round(100 * right / len(split[1]), 3)


def refit(model: nn.Sequential, split: Split) -> None:
    """Fit the output layer anew to what now comes before it: convex, by L-BFGS."""
    with torch.no_grad():
        features = torch.cat([model[:-1](x) for x in split[0].split(2000)])
    output = model[-1]
    optimizer = torch.optim.LBFGS(output.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(output(features), split[1])
        value = value + 1e-5 * output.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)


def compressed(model: nn.Sequential, start: str, rank: int, seed: int) -> nn.Sequential:
    """Return the network with its large layer, the second child, replaced."""
    model = copy.deepcopy(model)
    linear = model[1]
    if start == "svd":
        with torch.no_grad():
            left, values, right = torch.linalg.svd(linear.weight, full_matrices=False)
            first = nn.Linear(linear.in_features, rank, bias=False)
            second = nn.Linear(rank, linear.out_features)
            roots = values[:rank].sqrt()
            first.weight.copy_(roots.unsqueeze(1) * right[:rank])
            second.weight.copy_(left[:, :rank] * roots)
            second.bias.copy_(linear.bias)
        model[1] = nn.Sequential(first, second)
    else:
        torch.manual_seed(seed)
        model[1] = halfnet.HalfLinear.from_linear(linear, rank, init=start, seed=seed)
    return model


def chosen_rate(task: Task, dense: nn.Sequential, start: str) -> dict:
    """Return each rate's validation accuracy, the mean over ranks, and the best rate."""
    scores = dict.fromkeys(RATES, 0.0)
    ranks = (8,) if task.conv else (4, 32)
    for rank in ranks:
        model = compressed(dense, start, rank, seed=0)
        refit(model, task.train)
        for lr in RATES:
            twin = copy.deepcopy(model)
            train(twin, task.train, EPOCHS[task.conv][1], lr, seed=0)
            scores[lr] += accuracy(twin, task.valid) / len(ranks)
    best = max(scores, key=scores.__getitem__)
    validation = {str(lr): round(score, 3) for lr, score in scores.items()}
    return {"start": start, "rate": best, "validation": validation}


def measured(task: Task, dense: nn.Sequential, start: str, rank: int, seed: int, lr: float) -> dict:
    model = compressed(dense, start, rank, seed)
    row = {"start": start, "rank": rank, "seed": seed}
    row["parameters"] = sum(p.numel() for p in model.parameters())
    row["as it is"] = accuracy(model, task.test)
    refit(model, task.train)
    row["refitted"] = accuracy(model, task.test)
    train(model, task.train, EPOCHS[task.conv][1], lr, seed)
    row["fine-tuned"] = accuracy(model, task.test)
    return row


def read() -> list[dict]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def write(row: dict) -> None:
    """Add a row; several runs, of a task each, may do so at once."""
    with open(RESULTS.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = "[\n" + ",\n".join(map(json.dumps, [*read(), row])) + "\n]\n"
        RESULTS.with_suffix(".part").write_text(text)
        RESULTS.with_suffix(".part").replace(RESULTS)


def find(task: str, **keys: object) -> dict | None:
    wanted = {"task": task, **keys}
    return next((row for row in read() if wanted.items() <= row.items()), None)


def trained(task: Task, seed: int) -> nn.Sequential:
    """Return the trained dense network, kept in build/ for a run that is started again."""
    path = Path("build") / "compression" / f"{task.name}-{seed}.pt"
    torch.manual_seed(seed)
    dense = network(task)
    if path.exists():
        dense.load_state_dict(torch.load(path))
    else:
        train(dense, task.train, EPOCHS[task.conv][0], 3e-3, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(dense.state_dict(), path)
    return dense


def run(name: str) -> None:
    task = load(name)
    rates: dict[str, float] = {}
    for seed in range(SEEDS):
        ranks = [
            (rank, start)
            for rank in RANKS[task.conv]
            for start in STARTS
            if not find(name, start=start, rank=rank, seed=seed)
        ]
        if not ranks:
            continue
        dense = trained(task, seed)
        if not find(name, start="dense", seed=seed):
            row = {"start": "dense", "seed": seed, "test": accuracy(dense, task.test)}
            parameters = sum(p.numel() for p in dense.parameters())
            write({"task": name, **row, "parameters": parameters})
        for start in STARTS:
            if start not in rates:
                choice = find(name, start=start, rank="rate")
                if choice is None:
                    choice = {"task": name, "rank": "rate"} | chosen_rate(task, dense, start)
                    write(choice)
                rates[start] = choice["rate"]
        for rank, start in ranks:
            begun = time.time()
            row = {"task": name, **measured(task, dense, start, rank, seed, rates[start])}
            write(row)
            print(row, f"{time.time() - begun:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    torch.set_num_threads(1)
    for name in parser.parse_args().tasks:
        run(name)


if __name__ == "__main__":
    main()
