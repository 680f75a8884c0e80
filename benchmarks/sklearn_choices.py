"""What the estimators' defaults and docs rest on, measured on validation data only.

    python benchmarks/sklearn_choices.py [draws] [steps] [scaling] [importances]

The test parts of the data sets are not read. JSON beside, one key for each part.
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn import datasets
from sklearn.inspection import permutation_importance
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score, train_test_split

from halfnet._draws import derived_seed
from halfnet._engine._recipe import Recipe
from halfnet.lab import _run, data
from halfnet.sklearn import HalfNetClassifier, HalfNetRegressor, _training
from halfnet.sklearn._data import Data
from halfnet.sklearn._ensemble import shared_parameters
from halfnet.sklearn._network import build

RESULTS = Path(__file__).parent / "results" / "sklearn_choices.json"
SEEDS, DRAWS = range(3), 5
TABLES = {
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}


def table(name):
    """Return the rows that choices may be made on: three quarters."""
    X, y = TABLES[name](return_X_y=True)
    X, _, y, _ = train_test_split(X, y, random_state=0)
    return X, y


def images(name, rows=10_000, held_out=5_000):
    found = data.load(name)
    X = found.train_images.reshape(len(found.train_images), -1).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    parts = order[:rows], order[rows : rows + held_out]
    return [(X[part], found.train_labels[part]) for part in parts]


def validated(estimator, name) -> list[float]:
    X, y = table(name)
    folds = KFold if name == "diabetes" else StratifiedKFold
    scores = [
        cross_val_score(
            estimator.set_params(random_state=seed), X, y, cv=folds(4, shuffle=True, random_state=0)
        ).mean()
        for seed in SEEDS
    ]
    return [round(100 * float(score), 2) for score in scores]


def accuracy(probabilities, classes, y) -> float:
    return round(100 * float((classes[np.argmax(probabilities, 1)] == y).mean()), 2)


def refitted(one: HalfNetClassifier, X, y, epochs: int, seed: int) -> HalfNetClassifier:
    """Return an ensemble of new draws from a fitted geometry; all else is learned anew."""
    targets = one._validated(X, y)[1]
    task = Data(X, one_targets(one, targets)).task(one.scaling_, np.float32)
    ranks = (one.rank_,)
    design = one._design(X.shape[1], len(one.classes_), ranks, np.float32)
    networks = [build(design, derived_seed(seed, f"new {i}")) for i in range(DRAWS)]
    for network in networks:
        for name in shared_parameters(network):
            parameter = network.get_parameter(name)
            parameter.data.copy_(one.network_.get_parameter(name))
            parameter.requires_grad_(False)
    recipe = Recipe(rate=3e-3, batch_size=128, epochs=epochs, schedule="cosine", warmup=0.05)
    trained = _training.run(_training.start(networks, recipe, task, seed=seed))
    one.networks_ = trained.training.stack.models()
    return one


def one_targets(one, y):
    from halfnet.sklearn import _targets  # noqa: PLC0415

    return _targets.classes(y, one.classes_)


def draws() -> dict:
    out = {}
    X, y = table("digits")
    X = X.astype(np.float32)
    tasks = {"digits": [(X[:1000], y[:1000]), (X[1000:], y[1000:])]}
    tasks |= {name: images(name) for name in ("mnist", "fashion-mnist")}
    for (name, ((X, y), (Xv, yv))), epochs in itertools.product(tasks.items(), (5, 20)):
        rank = 16
        passes = epochs * (10 if name == "digits" else 1)
        found = {key: [] for key in ("one", "together", "refitted", "independent", "wide")}
        for seed in SEEDS if name == "digits" else (0,):
            options = {"rank": rank, "epochs": passes, "random_state": seed}
            one = HalfNetClassifier(**options).fit(X, y)
            found["one"].append(accuracy(one.predict_proba(Xv), one.classes_, yv))
            alone = [one.predict_proba(Xv)]
            for other in range(1, DRAWS):
                options["random_state"] = 100 * (seed + 1) + other
                alone.append(HalfNetClassifier(**options).fit(X, y).predict_proba(Xv))
            found["independent"].append(accuracy(np.mean(alone, 0), one.classes_, yv))
            options["random_state"] = seed
            for key, more in (
                ("together", {"n_draws": DRAWS}),
                ("wide", {"hidden_units": 64 * DRAWS}),
            ):
                fitted = HalfNetClassifier(**options, **more).fit(X, y)
                found[key].append(accuracy(fitted.predict_proba(Xv), one.classes_, yv))
            new = refitted(one, X, y, passes, seed)
            found["refitted"].append(accuracy(new.predict_proba(Xv), one.classes_, yv))
        out[f"{name}, k={rank}, {passes} epochs"] = found
        print(name, rank, passes, found, flush=True)
    return out


def steps() -> dict:
    out = {}
    settings = [(100, 3e-3), (300, 3e-3), (1000, 3e-3), (300, 1e-3), (300, 1e-2)]
    for name, (count, rate) in itertools.product(TABLES, settings):
        rows = len(table(name)[0]) * 3 // 4
        kind = HalfNetRegressor if name == "diabetes" else HalfNetClassifier
        epochs = max(10, -(-count // -(-rows // 128)))
        found = validated(kind(epochs=epochs, learning_rate=rate), name)
        out[f"{name}, {count} steps, rate {rate:g}"] = found
        print(name, count, rate, found, flush=True)
    return out


def scaling() -> dict:
    out = {}
    for name in ("digits", "mnist", "fashion-mnist"):
        for kind in ("standard", "shared"):
            if name == "digits":
                found = validated(HalfNetClassifier(scale=kind), name)
            else:
                (X, y), (Xv, yv) = images(name)
                found = []
                for seed in SEEDS:
                    fitted = HalfNetClassifier(scale=kind, epochs=5, random_state=seed).fit(X, y)
                    found.append(round(100 * fitted.score(Xv, yv), 2))
            out[f"{name}, {kind}"] = found
            print(name, kind, found, flush=True)
    return out


def importances() -> dict:
    out = {}
    for name in TABLES:
        X, y = table(name)
        X, Xv, y, yv = train_test_split(X, y, random_state=0)
        kind = HalfNetRegressor if name == "diabetes" else HalfNetClassifier
        found = []
        for seed in SEEDS:
            fitted = kind(random_state=seed).fit(X, y)
            permuted = permutation_importance(fitted, Xv, yv, n_repeats=20, random_state=0)
            own = spearmanr(fitted.feature_importances_, permuted.importances_mean)
            found.append(round(float(own.statistic), 2))
        out[name] = found
        print(name, found, flush=True)
    return out


def main() -> None:
    torch.set_num_threads(1)
    parts = {f.__name__: f for f in (draws, steps, scaling, importances)}
    for name in sys.argv[1:] or parts:
        measured = parts[name]()
        content = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        content |= {name: measured, "versions": _run.versions()}
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
