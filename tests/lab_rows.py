"""Rows that train in a moment, on scikit-learn's digits, for the tests of the lab's runner."""

import json

from halfnet.lab import _run, specs

SPECS = """
[presets.small]
rate = 1e-2
batch_size = 480
epochs = 3

[[tables]]
key = "small"
title = "Small networks"
dataset = "digits"

[[tables.rows]]
name = "k=1"
hidden = [{ kind = "half", units = 8, rank = 1 }]

[[tables.rows]]
name = "MLP, h=8"
hidden = [{ kind = "dense", units = 8 }]
paper = { params = 610, train = [50.0, 1.0], test = [49.5, 1.5] }
"""
# Numbers of 1e6 a layer, ten times over, are infinite as float32.
BURSTING = """
[[tables.rows]]
name = "bursts"
hidden = [{LAYERS}]
""".replace(
    "{LAYERS}", "{ kind = 'half', units = 8, rank = 1, init = { B = 1000, u = 1000 } }, " * 10
)


def write(folder, text=SPECS):
    """Write a file of specs, and return its path."""
    path = folder / "small.toml"
    path.write_text(text)
    return path


def plan(folder, row="k=1", *, text=SPECS, seeds=(0, 1), **options):
    """Return how a small row is run."""
    found = specs.load(write(folder, text))
    table = found.table("small")
    return _run.plan(found, table, table.row(row), **{"preset": "small", "seeds": seeds, **options})


def numbers(path):
    """Return what a result's file says, but for what differs from run to run: the times.

    And but for the commit: somebody may change the checkout while the tests run.
    """
    content = json.loads(path.read_text())
    return {key: content[key] for key in content if key not in {"seconds", "commit", "sha256"}}
