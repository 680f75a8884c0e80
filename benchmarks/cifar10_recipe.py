"""The paper's CIFAR-10 recipe is not in the paper: what comes closest to its accuracies?

    python benchmarks/cifar10_recipe.py [--only NAME ...]

The paper says Adam, cross-entropy and 50 epochs, and ends Full-Full at 70.52 train and 69.52 test.
Each trial trains one seed on 45,000 of the training images and scores it on those and on the other
5,000; no test set is read. A curve is [epoch, accuracy as trained on, training, validation] and is
as long as the trial was let run. A trial that has one is not run again.
Results go to benchmarks/results/cifar10_recipe.json.
"""

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from halfnet._engine._adam import Adam
from halfnet._engine._memory import keep_freed_memory
from halfnet._engine._training import Training
from halfnet.lab import data, specs

RESULTS = Path(__file__).parent / "results" / "cifar10_recipe.json"
TRAIN = 45_000


@dataclass
class Trial:
    row: str
    rate: float = 1e-3
    batch_size: int = 128
    augmentation: str = "flip-crop"
    weight_decay: float = 0.0
    epochs: int = 50
    extra: dict = field(default_factory=dict)

    @property
    def name(self):
        """What the trial's curve is kept under."""
        return " ".join(
            [self.row.replace(" ", "_"), self.augmentation, f"{self.rate:g}", str(self.batch_size)]
            + ([f"decay={self.weight_decay:g}"] if self.weight_decay else [])
            + [f"{k}={v}" for k, v in self.extra.items()]
        )


TRIALS = [
    Trial("Full-Full", augmentation="none", weight_decay=1e-3, epochs=20),
    Trial("Full-Half k=32", augmentation="none", weight_decay=1e-3, epochs=20),
    Trial("Full-Full", augmentation="none", weight_decay=5e-4, epochs=20),
    Trial("Full-Half k=32", augmentation="none", epochs=20),
    Trial("Full-Half k=32", rate=2e-4),
    Trial("Full-Half k=32", rate=5e-4),
    Trial("Full-Half k=32"),
    Trial("Half-Half k=8/32"),
    Trial("Full-Full"),
    Trial("Full-Half k=32", extra={"scaling": "standard"}),
    Trial("Full-Full", rate=1e-4, extra={"scaling": "standard"}),
    Trial("Full-Full", rate=2e-4, extra={"scaling": "standard"}),
]


def run(trial, cifar10):
    recipe = replace(
        specs.paper().preset("paper").recipe("cifar10"),
        rate=trial.rate, batch_size=trial.batch_size, augmentation=trial.augmentation,
        epochs=trial.epochs, **({"scaling": "unit"} | trial.extra),
    )  # fmt: skip
    row = specs.paper().table("cifar10").row(trial.row)
    model = specs.build(row, (3, 32, 32), 10, seed=0, init=recipe.init)
    x, y = cifar10.train_images, cifar10.train_labels
    training = Training([model], recipe, x[:TRAIN], y[:TRAIN])
    training.optimizer = Adam(training.stack, trial.weight_decay)
    curve, start = [], time.time()
    for epoch in range(1, recipe.epochs + 1):
        scores = training.run_epoch()
        if epoch % 5 == 0 or epoch == 3:
            train = training.accuracy(x[:TRAIN], y[:TRAIN])[0]
            valid = training.accuracy(x[TRAIN:], y[TRAIN:])[0]
            running = scores.accuracy[0]
            curve.append([epoch, round(running, 2), round(train, 2), round(valid, 2)])
            print(trial.name, curve[-1], f"{time.time() - start:.0f} s", flush=True)
    return curve


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of trials' names")
    only = parser.parse_args().only
    keep_freed_memory()
    torch.set_num_threads(1)
    cifar10 = data.load("cifar10")
    for trial in TRIALS:
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if trial.name in done or not any(part in trial.name for part in only):
            continue
        curve = run(trial, cifar10)
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        done[trial.name] = curve
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(done.items()))
        RESULTS.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
