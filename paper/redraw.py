"""Is it the geometry, and not the values, that a half layer has learned?

    python paper/redraw.py [--only NAME ...]

Trains 784-64(k)-10 networks, five seeds, then draws z and eps anew from the learned geometry and
refits the output layer alone, or u and u0 with it, from new initial values of the output layer by
the recipe that trained the network. Beside it: the trained draw, refitted alike; and a geometry
that was never learned, the initial one. A case that paper/claims/redraw.json has is not run again.
"""

import argparse
import copy
import json
from dataclasses import dataclass
from pathlib import Path

import torch

import halfnet
from halfnet._draws import derived_seed
from halfnet._engine._memory import keep_freed_memory
from halfnet._engine._training import Training
from halfnet.lab import _results, _run, data, specs

HERE = Path(__file__).parent
RESULTS = HERE / "claims" / "redraw.json"
SEEDS = range(5)
REFITTED = {"output": ("output.",), "output, u, u0": ("output.", "hidden1.u", "hidden1.u0")}


@dataclass(frozen=True)
class Case:
    """A network and its recipe."""

    dataset: str
    preset: str
    rank: int

    @property
    def name(self):
        """What its accuracies are kept under."""
        return f"{self.dataset} {self.preset} k={self.rank}"


CASES = [
    Case(dataset, preset, rank)
    for dataset, preset in (("mnist", "paper"), ("mnist", "cosine"), ("fashion-mnist", "cosine"))
    for rank in (0, 4, 16, 64)
]


def trained(models, recipe, dataset, learned=("",)):
    """Train those parameters of copies of the models whose names begin so; return both."""
    images, labels = dataset.train_images, dataset.train_labels
    training = Training(copy.deepcopy(models), recipe, images, labels)
    for name, parameter in training.stack.named_parameters():
        parameter.requires_grad_(name.startswith(learned))
    for _ in range(recipe.epochs):
        training.run_epoch()
    return training.stack.models(), training.accuracy(dataset.test_images, dataset.test_labels)


def with_new_outputs(models):
    """Return copies whose output layers begin anew."""
    models = copy.deepcopy(models)
    for seed, model in zip(SEEDS, models, strict=True):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derived_seed(seed, "new output layer"))
            model.output.reset_parameters()
    return models


def redrawn(models):
    """Return copies with draws that no network was trained on."""
    return [
        halfnet.resample_(copy.deepcopy(model), derived_seed(seed, "redrawn"))
        for seed, model in zip(SEEDS, models, strict=True)
    ]


def run(case, presets):
    recipe = presets.preset(case.preset).recipe(case.dataset)
    dataset = data.load(case.dataset, progress=False)
    layer = specs.HalfSpec(units=64, rank=case.rank)
    architecture = specs.Architecture(None, (layer,))
    initial = [specs.build(architecture, (28, 28), 10, seed=s, init=recipe.init) for s in SEEDS]
    learned, accuracy = trained(initial, recipe, dataset)
    found = {"trained": accuracy}
    stack = Training(redrawn(learned), recipe, dataset.train_images, dataset.train_labels)
    found["redrawn, nothing refitted"] = stack.accuracy(dataset.test_images, dataset.test_labels)
    for start, models in (
        ("trained draw", learned),
        ("redrawn", redrawn(learned)),
        ("never learned", initial),
    ):
        for what, names in REFITTED.items():
            _, accuracy = trained(with_new_outputs(models), recipe, dataset, names)
            found[f"{start}, {what} refitted"] = accuracy
    return {name: [round(value, 2) for value in values] for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of cases' names")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    keep_freed_memory()
    presets = specs.load(HERE / "claims.toml")
    for case in CASES:
        done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if case.name in done or not any(part in case.name for part in only):
            continue
        done[case.name] = run(case, presets)
        done["provenance"] = _run.versions() | {"commit": _run.commit(), "threads": 1}
        text = json.dumps(done, indent=1, sort_keys=True)
        _results.write_atomically(RESULTS, (_results._compact(text) + "\n").encode())
        print(case.name, json.dumps(done[case.name], indent=1), flush=True)


if __name__ == "__main__":
    main()
