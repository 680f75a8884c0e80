"""Made-up results, of the form that training writes, for the tests of what is made of them."""

import math
import random
from dataclasses import asdict

from halfnet.lab import _results, specs
from halfnet.lab._results import Result

SEEDS = (0, 1, 2, 3, 4)


def spectrum(row, noise):
    """Return spectra of 64 directions that fall off faster for lower ranks."""
    rank = int(row.name.partition("=")[2]) if row.name.startswith("k=") else 24

    def values(floor):
        return [(1 + noise.gauss(0, 0.02)) * (math.exp(-i / rank) + floor) for i in range(64)]

    found = {"weights": [sorted(values(0.15), reverse=True) for _ in SEEDS]}
    if row.name.startswith("k="):
        found["covariance"] = [
            sorted((value**2 for value in values(0.02)), reverse=True) for _ in SEEDS
        ]
    return found


def result(table, row, /, *, shift=0.0, epochs=None, **changes):
    """Return a result near the paper's, `shift` percent above it."""
    noise = random.Random(f"{table.key}/{row.name}")
    recipe = specs.paper().preset("paper").recipe(table.dataset)
    epochs = epochs or recipe.epochs

    def around(score):
        return tuple(
            round(min(score.mean + shift + noise.gauss(0, score.std), 99.99), 2) for _ in SEEDS
        )

    train, test = around(row.paper.train), around(row.paper.test)
    curves = {"loss": [], "accuracy": []}
    for epoch in range(1, epochs + 1):
        gap = 0.35 * math.exp(-3 * epoch / epochs)
        curves["accuracy"].append([score * (1 - gap) + noise.gauss(0, 0.1) for score in train])
        curves["loss"].append([2.3 * gap + 0.1 + noise.random() * 0.02 for _ in SEEDS])
    fields = {
        "table": table.key,
        "row": row.name,
        "preset": "paper",
        "dataset": table.dataset,
        "architecture": asdict(row.architecture),
        "recipe": {**asdict(recipe), "epochs": epochs},
        "params": row.paper.params,
        "seeds": SEEDS,
        "train": train,
        "test": test,
        "curves": curves,
        "spectra": {"hidden1": spectrum(row, noise)} if row.architecture.hidden else {},
        "seconds": 61.5,
        "threads": 1,
        "versions": {"halfnet": "0.1", "torch": "2.6", "numpy": "2.0", "python": "3.11"},
        "commit": "0123abc",
        "data_sha256": {},
    }
    return Result(**{**fields, **changes})


def everything(**changes):
    """Return a result for every row of the paper."""
    return [result(table, row, **changes) for table in specs.paper().tables for row in table.rows]


def write(results, folder):
    """Save results, and return the folder."""
    for item in results:
        _results.save(item, folder)
    return folder
