"""Five seeds of a half network trained at once, beside one dense network in a plain loop.

    python benchmarks/five_seeds.py

Both read the same MNIST images in batches of 128 and take Adam steps: five 784-64(k=16)-10 networks
by the lab's own training loop, from uint8 images as it always does; one dense 784-64-10 network by
the loop that one would write, from images that were made float32 beforehand. The dense loop is
timed twice, with torch's default Adam, to which the ratios are, and with its fused one. Beside them
stand the two large products of a step alone, forward and back, by torch and as the lab makes them.
JSON beside.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from halfnet._engine._matmul import matmul
from halfnet._engine._memory import keep_freed_memory
from halfnet._engine._training import Training
from halfnet.lab import _run, data, specs
from halfnet.lab._timing import medians

RESULTS = Path(__file__).parent / "results" / "five_seeds.json"
STEPS, BATCH, RATE, SEEDS = 100, 128, 1e-3, 5
HALF, DENSE = specs.HalfSpec(units=64, rank=16), specs.DenseSpec(units=64)
KINDS = {
    "five k=16": (HALF, "float32"),
    "five k=16, bfloat16 products": (HALF, "bfloat16"),
    "five dense": (DENSE, "float32"),
}


def plain_loop(images, labels, *, fused: bool) -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=fused or None)
    pixels = torch.from_numpy(images).flatten(1).float() / 255
    classes = torch.from_numpy(labels).long()

    def epoch() -> None:
        for index in torch.randperm(len(pixels)).split(BATCH):
            loss = F.cross_entropy(model(pixels[index]), classes[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch


def five_seeds(layer, precision: str, images, labels) -> Callable[[], object]:
    recipe = replace(specs.paper().preset("paper").recipe("mnist"), precision=precision)
    architecture = specs.Architecture(None, (layer,))
    models = [specs.build(architecture, (28, 28), 10, seed=seed) for seed in range(SEEDS)]
    return Training(models, recipe, images, labels).run_epoch


def products(networks: int, multiply: Callable = torch.mm) -> Callable[[], None]:
    """Return what multiplies as often as an epoch does: weights by inputs, gradients by inputs."""
    weights, inputs = torch.randn(64 * networks, 784), torch.rand(784, BATCH)
    gradients, rows = torch.randn(64 * networks, BATCH), torch.rand(BATCH, 784)

    def epoch() -> None:
        for _ in range(STEPS):
            multiply(weights, inputs)
            multiply(gradients, rows)

    return epoch


def measure(threads: int, images, labels) -> dict:
    torch.set_num_threads(threads)
    times = medians(
        {
            "one dense": plain_loop(images, labels, fused=False),
            "one dense, fused Adam": plain_loop(images, labels, fused=True),
            **{name: five_seeds(*kind, images, labels) for name, kind in KINDS.items()},
            "products of one": products(1),
            "products of five": products(SEEDS),
            "products of five, as the lab makes them": products(SEEDS, matmul),
        },
        seconds=6,
    )
    return {
        "threads": threads,
        "ms_per_step": {name: round(1e3 * time / STEPS, 3) for name, time in times.items()},
        "over_one_dense": {name: round(t / times["one dense"], 2) for name, t in times.items()},
    }


def main() -> None:
    keep_freed_memory()  # as the lab's runs do; here it helps both alike
    dataset = data.load("mnist")
    images, labels = (
        array[: STEPS * BATCH] for array in (dataset.train_images, dataset.train_labels)
    )
    rows = [measure(threads, images, labels) for threads in (1, 2)]
    for row in rows:
        print(f"{row['threads']} thread(s)")
        for name, time in row["ms_per_step"].items():
            print(f"  {name:42}{time:8.3f} ms a step{row['over_one_dense'][name]:7.2f}")
    content = {"steps": STEPS, "batch": BATCH, "seeds": SEEDS, "versions": _run.versions()}
    RESULTS.write_text(json.dumps(content | {"measured": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
