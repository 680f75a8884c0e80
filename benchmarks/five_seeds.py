"""Five seeds of a half network trained at once, beside one dense network in a plain loop.

    python benchmarks/five_seeds.py

Both read the same MNIST images in batches of 128 and take Adam steps: five 784-64(k=16)-10 networks
by the lab's own training loop, from uint8 images as it always does; one dense 784-64-10 network by
the loop that one would write, from images that were made float32 beforehand. The dense loop is
timed twice, with torch's default Adam and with its fused one, and the latter is what the ratio to
beat is taken from. JSON beside.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from _timing import medians
from torch import nn
from torch.nn import functional as F

from halfnet.lab import _run, data, specs
from halfnet.lab._memory import keep_freed_memory
from halfnet.lab._training import Training

RESULTS = Path(__file__).parent / "results" / "five_seeds.json"
STEPS, BATCH, RATE, SEEDS = 100, 128, 1e-3, 5
KINDS = {
    "k=16": specs.HalfSpec(units=64, rank=16),
    "k=4": specs.HalfSpec(units=64, rank=4),
    "dense": specs.DenseSpec(units=64),
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


def five_seeds(layer, images, labels) -> Callable[[], object]:
    recipe = specs.paper().preset("paper").recipe("mnist")
    architecture = specs.Architecture(None, (layer,))
    models = [specs.build(architecture, (28, 28), 10, seed=seed) for seed in range(SEEDS)]
    return Training(models, recipe, images, labels).run_epoch


def measure(threads: int, images, labels) -> dict:
    torch.set_num_threads(threads)
    times = medians(
        {
            "plain": plain_loop(images, labels, fused=False),
            "plain, fused Adam": plain_loop(images, labels, fused=True),
        }
        | {name: five_seeds(layer, images, labels) for name, layer in KINDS.items()},
        seconds=6,
    )
    one = times["plain, fused Adam"]
    return {
        "threads": threads,
        "ms_per_step": {name: round(1e3 * time / STEPS, 3) for name, time in times.items()},
        "five_seeds_over_one_dense": {name: round(times[name] / one, 2) for name in KINDS},
        "over_one_dense_with_default_adam": {
            name: round(times[name] / times["plain"], 2) for name in KINDS
        },
    }


def main() -> None:
    keep_freed_memory()  # as the lab's runs do; here it helps both alike
    dataset = data.load("mnist")
    images, labels = (
        array[: STEPS * BATCH] for array in (dataset.train_images, dataset.train_labels)
    )
    rows = [measure(threads, images, labels) for threads in (1, 2)]
    for row in rows:
        print(f"{row['threads']} threads, ms a step:", row["ms_per_step"])
        print("  five seeds over one dense network:", row["five_seeds_over_one_dense"])
        print("  ... with default Adam:", row["over_one_dense_with_default_adam"])
    content = {"steps": STEPS, "batch": BATCH, "seeds": SEEDS, "versions": _run.versions()}
    RESULTS.write_text(json.dumps(content | {"measured": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
