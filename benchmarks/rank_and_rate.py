"""Validation error against rank and learning rate, default initial values, beside a dense layer.

    python benchmarks/rank_and_rate.py

Results go to benchmarks/results/rank_and_rate.json.
"""

import itertools
import json
import time
from pathlib import Path

import torch
from initial_values import Task, make_task, validation_error
from torch import nn

import halfnet

RESULTS = Path(__file__).parent / "results" / "rank_and_rate.json"
TASKS = ("digits", "mnist", "fashion-mnist", "mnist+conv")
RANKS = (0, 1, 2, 4, 8, 16, 32, 64)
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = 2


def model(task: Task, rank: int | None) -> nn.Module:
    fan_in, (width,) = task.x.shape[1], task.widths
    hidden = (
        nn.Linear(fan_in, width) if rank is None else halfnet.HalfLinear(fan_in, width, rank=rank)
    )
    return nn.Sequential(hidden, nn.ReLU(), nn.Linear(width, 10))


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in TASKS:
        task = make_task(name, train=20_000, epochs=5)
        start = time.time()
        for rank, lr in itertools.product((*RANKS, None), RATES):
            errors = []
            for seed in range(SEEDS):
                torch.manual_seed(seed)
                errors.append(round(validation_error(task, model(task, rank), lr, seed), 3))
            learned = sum(p.numel() for p in model(task, rank).parameters())
            rows.append(
                {"task": name, "rank": rank, "lr": lr, "learned": learned, "errors": errors}
            )
        RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        print(f"{name}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
