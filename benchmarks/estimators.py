"""HalfNet's estimators beside scikit-learn's and metric-learn's, on six data sets.

    python benchmarks/estimators.py            # some 20 minutes on two cores; goes on where it was
    python benchmarks/estimators.py --quick    # to see that it works: nothing is kept
    python benchmarks/estimators.py --only mnist 'HalfNet, rank 16'
    python benchmarks/estimators.py --minutes 3  # then stop; the same command goes on
    python benchmarks/estimators.py --alternate  # HalfNet and the MLP in turns, for the ratio
    python benchmarks/estimators.py --report   # the table and the figure from what is there

Small data sets: twice five-fold cross-validation, the same folds for all. MNIST and Fashion-MNIST:
their own training and test sets; what the seeds change is the method. Each cell of the table runs
in a process of its own, alone, by one thread where data are small and by two where they are large;
one that takes longer than its cap is stopped and reported so. A
cell's result is written before the next begins.
"""

import argparse
import json
import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
import torch
from _peers import LAB, Problem, keeps_rows, learned, methods
from sklearn import datasets
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from halfnet.lab import _run, data

RESULTS = Path(__file__).parent / "results" / "estimators.json"
SMALL = ("digits", "breast cancer", "wine", "diabetes")
LARGE = ("mnist", "fashion-mnist")
CAP = 120
"""Seconds: of all fits of a small data set by one method, of one fit of a large data set."""
FOLDS, REPEATS = 5, 2


class Data(NamedTuple):
    """A data set; `test` is None where it is to be cross-validated."""

    X: Any
    y: Any
    test: tuple[Any, Any] | None
    problem: Problem


def load(name: str, *, quick: bool) -> Data:
    if name in LARGE:
        found = data.load(name)
        X, X_test = (
            (images.reshape(len(images), -1) / np.float32(255)).astype(np.float32)
            for images in (found.train_images, found.test_images)
        )
        y, y_test = found.train_labels.astype(int), found.test_labels.astype(int)
        if quick:
            X, y = X[:12_000], y[:12_000]
        return Data(X, y, (X_test, y_test), Problem(len(X), X.shape[1], True, False))
    loaders = {
        "digits": datasets.load_digits,
        "breast cancer": datasets.load_breast_cancer,
        "wine": datasets.load_wine,
        "diabetes": datasets.load_diabetes,
    }
    X, y = loaders[name](return_X_y=True)
    if name == "digits":
        X = X / 16
    rows = len(X) * (FOLDS - 1) // FOLDS
    return Data(X, y, None, Problem(rows, X.shape[1], name == "digits", name == "diabetes"))


def splits(found: Data, *, quick: bool) -> Iterator[tuple[int, Any, Any]]:
    """Yield a seed, and the rows to learn from and to score."""
    kind = RepeatedKFold if found.problem.numbers else RepeatedStratifiedKFold
    folds = kind(n_splits=FOLDS, n_repeats=REPEATS, random_state=0)
    for seed, (train, test) in enumerate(folds.split(found.X, found.y)):
        if not quick or seed < 2:
            yield seed, train, test


def seeds(name: str, method: str) -> int:
    """Return how many seeds a method gets on a large data set: more where it is quick."""
    if method == LAB:
        return 5 if name == "mnist" else 3
    many = ("HalfNet, rank 16", "HalfNetMetric", "HalfNetFeatures", "MLP")
    return 3 if method.startswith(many) else 1


# --- A cell -----------------------------------------------------------------------------------


def one_fit(model: Any, train: tuple[Any, Any], test: tuple[Any, Any], numbers: bool) -> dict:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the iterations asked for were not enough
        model.fit(*train)
    fitted = time.perf_counter()
    answers = model.predict(test[0])
    done = time.perf_counter()
    score = (r2_score if numbers else accuracy_score)(test[1], answers)
    return {
        "score": round(float(score), 5),
        "fit": round(fitted - start, 4),
        "predict": round(done - fitted, 4),
        "learned": learned(model),
        "keeps_rows": keeps_rows(model),
        "rank": getattr(model, "rank_", None),
    }


def work(found: Data, method: str, seed: int | None, quick: bool, pipe: Any) -> None:
    """Measure a cell and send its fits; the process that this runs in may be ended from outside."""
    threads = 2 if found.problem.large else 1  # of so little more than one are slower
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    try:
        make = methods(found.problem)[method]
        if found.test is not None:
            assert seed is not None
            pipe.send(one_fit(make(seed), (found.X, found.y), found.test, False))
        else:
            for own, train, test in splits(found, quick=quick):
                rows = (found.X[train], found.y[train]), (found.X[test], found.y[test])
                pipe.send(one_fit(make(own), *rows, found.problem.numbers))
        pipe.send(None)
    except Exception as error:  # what a peer raises is a result too
        pipe.send(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")


def measure(found: Data, method: str, seed: int | None, cap: float, quick: bool) -> dict:
    """Run a cell in a process of its own, and return its fits and why there are no more."""
    context = multiprocessing.get_context("fork")  # imports and data are there already
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(found, method, seed, quick, theirs))
    end = time.perf_counter() + cap
    process.start()
    theirs.close()
    fits, why = [], None
    try:
        while True:
            if not ours.poll(max(0.0, end - time.perf_counter())):
                why = f"not finished after {cap:g} s"
                break
            message = ours.recv()
            if message is None:
                break
            if isinstance(message, str):
                why = message
                break
            fits.append(message)
    except EOFError:
        why = "the process ended: most likely out of memory"
    finally:
        process.kill()
        process.join()
    return {"fits": fits, "why": why}


# --- All of them ------------------------------------------------------------------------------


def cells(found: Data, name: str, *, quick: bool) -> Iterator[tuple[str, str, int | None]]:
    """Yield key, method and seed."""
    for method in methods(found.problem):
        if found.test is None:
            yield f"{name} | {method}", method, None
        else:
            for seed in range(1 if quick else seeds(name, method)):
                yield f"{name} | {method} | {seed}", method, seed


def run(only: list[str], end: float, *, quick: bool) -> bool:
    """Measure the cells that are not there, what may take long at last; return whether all are."""
    content = json.loads(RESULTS.read_text()) if RESULTS.exists() and not quick else {}
    content.setdefault("cells", {})
    content["versions"] = _run.versions() | {"scikit-learn": sklearn.__version__}
    content["cores"] = len(os.sched_getaffinity(0))
    data_of = {name: load(name, quick=quick) for name in (*SMALL, *LARGE)}
    listed = [
        (found, name, *cell)
        for name, found in data_of.items()
        for cell in cells(found, name, quick=quick)
    ]
    for found, name, key, method, seed in sorted(listed, key=lambda cell: _slow(cell[1], cell[3])):
        wanted = not only or (only[0] == name and only[1:] in ([], [method]))
        if not wanted or (key in content["cells"] and not only):
            continue
        if time.monotonic() > end:
            return False
        cell = measure(found, method, seed, CAP / (8 if quick else 1), quick)
        content["cells"][key] = cell
        if not quick:
            write(content)
        say(key, cell)
    return True


def _slow(name: str, method: str) -> bool:
    return "LMNN" in method or (name in LARGE and ("auto" in method or "Hist" in method))


def alternate(rounds: int = 5) -> None:
    """Time the fits of HalfNet and the MLP on MNIST in turns, and add their medians."""
    found = load("mnist", quick=False)
    make = methods(found.problem)
    times: dict[str, list[float]] = {name: [] for name in ("HalfNet, rank 16", LAB, "MLP")}
    for seed in range(rounds + 1):  # the first is to warm up
        for name, own in times.items():
            fit = one_fit(make[name](seed), (found.X, found.y), found.test, False)
            own.append(fit["fit"])
    content = json.loads(RESULTS.read_text())
    content["alternating fits, s"] = {name: own[1:] for name, own in times.items()}
    write(content)
    print(content["alternating fits, s"])


def write(content: dict) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(RESULTS)


def say(key: str, cell: dict) -> None:
    scores = [fit["score"] for fit in cell["fits"]]
    times = [fit["fit"] for fit in cell["fits"]]
    text = f"{np.mean(scores):8.4f}  fit {np.mean(times):8.3f} s" if scores else " " * 8
    print(f"{key:58}{text}  {cell['why'] or ''}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of everything; keep nothing")
    parser.add_argument("--only", nargs="+", default=[], help="a data set, and a method of it")
    parser.add_argument("--alternate", action="store_true", help="HalfNet and the MLP in turns")
    parser.add_argument("--report", action="store_true", help="table and figure of what is there")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after these")
    options = parser.parse_args()
    if options.alternate:
        alternate()
    end = time.monotonic() + 60 * options.minutes
    complete = options.report or options.alternate or run(options.only, end, quick=options.quick)
    if not complete:
        print("not all is measured: the same command goes on")
        raise SystemExit(3)
    if not options.quick:
        import _estimators_report  # noqa: PLC0415 (draws; what measures needs no matplotlib)

        _estimators_report.main()


if __name__ == "__main__":
    main()
