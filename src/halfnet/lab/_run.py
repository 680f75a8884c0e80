"""A row from its specification to its result, over any number of interruptions."""

import hashlib
import io
import json
import logging
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from halfnet import _checks
from halfnet._engine._memory import keep_freed_memory
from halfnet._engine._training import EpochScores, Training
from halfnet._version import __version__
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetValueError
from halfnet.lab import _results, data
from halfnet.lab._locks import wait_for_lock
from halfnet.lab._results import Result
from halfnet.lab.specs import Recipe, Row, Specs, Table, build
from halfnet.nn._base import HalfLayer

_log = logging.getLogger(__name__)

QUICK = "-quick"
"""Is put behind the name of a preset that was cut short."""
_WIDEST = 2304  # inputs of a layer whose covariance is decomposed: the time grows with their cube


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One row to run, and how."""

    table: Table
    row: Row
    preset: str
    recipe: Recipe
    seeds: tuple[int, ...]
    threads: int

    @property
    def name(self) -> str:
        """The row's place among all rows."""
        return f"{self.table.key}, {self.row.name}"

    def identity(self) -> dict[str, Any]:
        """Return all that the numbers of a run depend on, but for machine and thread count."""
        return {
            "table": self.table.key,
            "row": self.row.name,
            "preset": self.preset,
            "dataset": self.table.dataset,
            "architecture": asdict(self.row.architecture),
            "recipe": asdict(self.recipe),
            "seeds": list(self.seeds),
            "versions": versions(),
        }


class Progress(NamedTuple):
    """How far a row is: batches done of all in its epochs, and how the last epoch went."""

    done: int
    total: int
    scores: EpochScores | None


OnProgress: TypeAlias = Callable[[Progress], None]


def plan(
    specs: Specs,
    table: Table,
    row: Row,
    *,
    preset: str = "paper",
    seeds: Sequence[int] = range(5),
    epochs: int | None = None,
    threads: int = 1,
) -> Plan:
    """Return how a row is to be run; `epochs` cuts the recipe short, which its name then says."""
    recipe = specs.preset(preset).recipe(table.dataset)
    if epochs is not None and epochs < recipe.epochs:
        recipe, preset = replace(recipe, epochs=epochs), preset + QUICK
    checked = tuple(_checks.integer("seeds", seed, 0, _checks.SEED_LIMIT - 1) for seed in seeds)
    if not checked or len(set(checked)) < len(checked):
        raise HalfnetValueError(
            f"seeds: expected at least one and none of them twice, got {list(seeds)}"
        )
    for other in table.rows:
        if other.name != row.name and _results.slug(other.name) == _results.slug(row.name):
            raise HalfnetValueError(
                f"rows {row.name!r} and {other.name!r} of table {table.key!r}: expected names "
                "that differ in letters or digits, as files are called by them"
            )
    return Plan(
        table=table,
        row=row,
        preset=preset,
        recipe=recipe,
        seeds=checked,
        threads=_checks.integer("threads", threads, 1, 1024),
    )


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    return {
        "halfnet": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def run(
    plan: Plan,
    results: Path,
    checkpoints: Path,
    on_progress: OnProgress | None = None,
    *,
    again: bool = False,
) -> Result:
    """Train a row's seeds from where the last run of the same plan stopped, and save the result.

    All seeds see the same batches in the same order, mirrored and shifted alike; each has its own
    draws and initial values. The numbers are the same however often the run was interrupted.
    Without `again`, a result that is there already is returned.

    Raises:
        NotFiniteError: A loss became infinite or no number; the message says where.
        HalfnetError: A checkpoint was made with another number of threads, or a file cannot be
            written.
    """
    torch.set_num_threads(plan.threads)
    keep_freed_memory()
    checkpoint = Checkpoint(plan, checkpoints)
    with checkpoint.locked():
        # While this one waited, another process may have finished the row.
        result = None if again else finished(plan, results)
        if result is None:
            result = _trained(plan, checkpoint, on_progress)
            _results.save(result, results)
        checkpoint.remove()
    return result


def finished(plan: Plan, results: Path) -> Result | None:
    """Return the result that a plan has already, by any versions of what it depends on.

    Raises:
        HalfnetError: Where it would be stands the result of another plan.
    """
    path = _results.place(results, plan.preset, plan.table.key, plan.row.name)
    found = _results.read_or_set_aside(path)
    if found is None:
        return None
    for key, wanted in plan.identity().items():
        have = getattr(found, key)
        if key != "versions" and _canonical(have) != _canonical(wanted):
            raise HalfnetError(
                f"{path}: expected {key} as asked for, {_short(wanted)}, got {_short(have)}; "
                "--again replaces this result, another folder of results keeps both"
            )
    return found


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    text = _canonical(value)
    return text if len(text) <= 60 else "others"


def _trained(plan: Plan, checkpoint: "Checkpoint", on_progress: OnProgress | None) -> Result:
    dataset = data.load(plan.table.dataset, progress=False)
    training = Training(
        _networks(plan, dataset),
        plan.recipe,
        dataset.train_images,
        dataset.train_labels,
        brightest=dataset.brightest,
    )
    curves, seconds = checkpoint.load_into(training)
    start = time.perf_counter() - seconds
    batches = len(training.batches)
    total = batches * plan.recipe.epochs
    scores = None
    while training.epochs_done < plan.recipe.epochs:
        before = training.epochs_done * batches

        def on_step(done: int, before: int = before, scores: EpochScores | None = scores) -> None:
            if on_progress is not None:
                on_progress(Progress(before + done, total, scores))

        scores = training.run_epoch(on_step)
        for name, values in scores._asdict().items():
            curves[name].append([round(value, 4) for value in values])
        checkpoint.save(training, curves, time.perf_counter() - start)
    return _finished(plan, training, dataset, curves, lambda: time.perf_counter() - start)


def _networks(plan: Plan, dataset: data.Dataset) -> list[nn.Sequential]:
    shape, recipe = dataset.train_images.shape[1:], plan.recipe
    return [
        build(plan.row, shape, dataset.num_classes, seed=s, init=recipe.init, draw=recipe.draw)
        for s in plan.seeds
    ]


def _finished(
    plan: Plan,
    training: Training,
    dataset: data.Dataset,
    curves: dict[str, Any],
    seconds: Callable[[], float],
) -> Result:
    train = training.accuracy(dataset.train_images, dataset.train_labels)
    test = training.accuracy(dataset.test_images, dataset.test_labels)
    models = training.stack.models()
    identity = plan.identity()
    return Result(
        **{name: identity[name] for name in ("table", "row", "preset", "dataset")},
        architecture=identity["architecture"],
        recipe=identity["recipe"],
        params=sum(parameter.numel() for parameter in models[0].parameters()),
        seeds=plan.seeds,
        train=tuple(round(value, 4) for value in train),
        test=tuple(round(value, 4) for value in test),
        curves=curves,
        spectra=spectra(models),
        seconds=round(seconds(), 1),
        threads=plan.threads,
        versions=identity["versions"],
        commit=commit(),
        data_sha256=dict(dataset.sha256),
    )


@torch.no_grad()
def spectra(models: Sequence[nn.Sequential]) -> dict[str, dict[str, list[list[float]]]]:
    """Return, by hidden layer, what `Result.spectra` holds of each of the models."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for name, _ in models[0].named_children():
        if not name.startswith("hidden"):
            continue
        layers: list[Any] = [model.get_submodule(name) for model in models]
        rows = [_weight(layer) for layer in layers]
        found[name] = {"weights": [_listed(torch.linalg.svdvals(row)) for row in rows]}
        if isinstance(layers[0], HalfLayer) and layers[0].fan_in <= _WIDEST:
            found[name]["covariance"] = [
                _listed(torch.linalg.eigvalsh(layer.geometry.covariance()).flip(0)[: len(row)])
                for layer, row in zip(layers, rows, strict=True)
            ]
    return found


def _weight(layer: Any) -> Tensor:
    weight = (layer.U @ layer.V).mT if hasattr(layer, "U") else layer.weight
    return weight.detach()  # type: ignore[no-any-return]


def _listed(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def commit() -> str | None:
    """Return the commit of the checkout that this code is run from, with "+" if it was changed."""
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        # Without the optional lock of the index, over which a commit at this moment would fail.
        command = ["git", "--no-optional-locks", "-C", str(here), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "--", __file__)  # not in some other project's checkout
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parent))
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


class Checkpoint:
    """Where a run of a plan stands after its last whole epoch.

    A file belongs to one plan, by the digest in its name, and begins with the SHA-256 of the rest:
    one that was damaged is named, kept aside, and not used.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        identity = json.dumps(plan.identity(), sort_keys=True).encode()
        digest = hashlib.sha256(identity).hexdigest()[:16]
        self.threads = plan.threads
        name = f"{_results.slug(plan.row.name)}-{digest}.checkpoint"
        self.path = folder / plan.preset / plan.table.key / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running the same plan, and wait for one that does."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.with_suffix(".lock").open("ab")
        except OSError as error:
            raise HalfnetError(
                f"cannot write {self.path}: {error.strerror or error}; make room or get "
                "permission there, or name another folder with HALFNET_CACHE"
            ) from error
        with file:
            wait_for_lock(file)
            yield

    def save(self, training: Training, curves: Mapping[str, Any], seconds: float) -> None:
        """Write where the run stands."""
        buffer = io.BytesIO()
        torch.save(
            {
                "training": training.state(),
                "curves": curves,
                "seconds": seconds,
                "threads": self.threads,
            },
            buffer,
        )
        content = buffer.getvalue()
        _results.write_atomically(self.path, hashlib.sha256(content).digest() + content)

    def load_into(self, training: Training) -> tuple[dict[str, Any], float]:
        """Bring a run to where it stood; return its curves and the seconds that it took."""
        fresh: dict[str, Any] = {name: [] for name in EpochScores._fields}
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return fresh, 0.0
        except OSError as error:
            raise HalfnetError(f"cannot read {self.path}: {error.strerror or error}") from error
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() != digest:
            aside = _results.set_aside(self.path)
            _log.warning("%s was damaged: the row begins anew; kept as %s", self.path, aside.name)
            return fresh, 0.0
        state = torch.load(io.BytesIO(content), weights_only=True)
        if state["threads"] != self.threads:
            raise HalfnetFileError(
                f"threads: expected {state['threads']}, with which {self.path} was begun, got "
                f"{self.threads}: go on with as many, or remove the file"
            )
        training.load_state(state["training"])
        return state["curves"], state["seconds"]

    def remove(self) -> None:
        """Forget the run: its result is saved."""
        with suppress(OSError):  # a file that stays does no harm
            self.path.unlink()
