"""A row from its specification to its result: interrupted, resumed, refused, side by side."""

import _thread
import dataclasses
import errno
import functools
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import lab_rows
import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  slow to import: not within a test
import torch
from torch import nn

from halfnet._engine import _memory
from halfnet._engine._adam import Adam
from halfnet._engine._low_rank import LowRank
from halfnet._engine._training import EpochScores, NotFiniteError, Training
from halfnet._version import __version__
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetValueError
from halfnet.lab import _locks, _results, _run, _schedule, data, specs
from halfnet.lab._run import Checkpoint, Progress
from halfnet.lab._sources import KNOWN

BATCHES = 3  # an epoch's, of 1437 digits


@pytest.fixture(autouse=True)
def _memory_as_it_was(monkeypatch):
    """Keep the runs in this process from changing how all other tests get their memory."""
    monkeypatch.setattr(_run, "keep_freed_memory", lambda: None)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The result of an undisturbed run of the plan that most tests disturb."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run, "keep_freed_memory", lambda: None)
        result = _run.run(lab_rows.plan(folder), folder / "results", folder / "checkpoints")
    return result, lab_rows.numbers(folder / "results" / "small" / "small" / "k=1.json")


@pytest.fixture
def places(tmp_path):
    return tmp_path / "results", tmp_path / "checkpoints"


@pytest.fixture
def plan(tmp_path):
    return lab_rows.plan(tmp_path)


def stop_at(number):
    """Return a listener that interrupts at a batch, and the batches it was told of."""
    told = []

    def listen(progress):
        told.append(progress)
        if len(told) == number:
            raise KeyboardInterrupt

    return listen, told


def interrupted(plan, places, number=BATCHES + 1):
    """Run a plan up to the middle of its second epoch, and return its checkpoint."""
    with pytest.raises(KeyboardInterrupt):
        _run.run(plan, *places, stop_at(number)[0])
    return Checkpoint(plan, places[1]).path


def numbers(places):
    return lab_rows.numbers(places[0] / "small" / "small" / "k=1.json")


def refuse(number):
    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    return refused


# -- a result -------------------------------------------------------------------------------------


def test_a_result_says_how_it_came_about_and_how_good_it_is(once):
    result, _ = once
    assert (result.table, result.row, result.preset) == ("small", "k=1", "small")
    assert (result.dataset, result.seeds, result.threads) == ("digits", (0, 1), 1)
    assert result.recipe["rate"] == 0.01
    assert result.recipe["epochs"] == result.epochs == 3
    assert result.architecture["hidden"][0]["units"] == 8
    assert result.params == 64 + 64 + 8 + 8 + 8 * 10 + 10
    assert result.data_sha256 == KNOWN["digits"].sha256
    assert result.versions["halfnet"] == __version__
    assert result.versions["torch"] == torch.__version__
    assert set(result.versions) == {"halfnet", "torch", "numpy", "python"}
    assert 0 <= result.seconds < 60
    assert [len(scores) for scores in result.curves["loss"]] == [2, 2, 2]
    assert len(result.curves["accuracy"]) == 3
    assert result.curves["loss"][2][0] < result.curves["loss"][0][0]
    assert all(5 < accuracy < 100 for accuracy in (*result.train, *result.test))


def test_the_accuracies_are_those_of_networks_trained_to_the_end(once, plan):
    """What the parts that `run` is made of do by hand."""
    digits = data.load("digits")
    models = [specs.build(plan.row, (8, 8), 10, seed=seed) for seed in plan.seeds]
    training = Training(models, plan.recipe, digits.train_images, digits.train_labels, brightest=16)
    torch.set_num_threads(1)
    losses = [training.run_epoch().loss for _ in range(3)]
    result, _ = once
    assert result.curves["loss"] == [pytest.approx(loss, abs=1e-4) for loss in losses]
    x = torch.from_numpy(digits.test_images) / 16
    with torch.no_grad():
        answers = [model(x).argmax(-1).numpy() for model in training.stack.models()]
    right = [100 * (answer == digits.test_labels).mean() for answer in answers]
    assert result.test == pytest.approx(right, abs=1e-4)


def test_two_runs_give_the_same_numbers_and_torch_knows_no_operation_that_would_not(
    once, plan, places
):
    torch.use_deterministic_algorithms(True)  # it raises where an operation isn't
    try:
        _run.run(plan, *places)
    finally:
        torch.use_deterministic_algorithms(False)
    assert numbers(places) == once[1]


def test_progress_counts_batches_and_tells_the_last_epochs_scores(plan, places, once):
    told = []
    _run.run(plan, *places, told.append)
    assert [progress.done for progress in told] == list(range(1, 3 * BATCHES + 1))
    assert {progress.total for progress in told} == {3 * BATCHES}
    assert [progress.scores is None for progress in told] == [True] * 3 + [False] * 6
    assert told[3].scores.loss == pytest.approx(once[0].curves["loss"][0], abs=1e-4)


# -- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [[1], [4], [9], [3, 2, 5], [4, 1, 1, 3]])
def test_an_interrupted_run_goes_on_from_its_last_epoch_and_ends_the_same(
    stops, plan, places, once
):
    done = 0
    for stop in stops:
        listen, told = stop_at(stop)
        with pytest.raises(KeyboardInterrupt):
            _run.run(plan, *places, listen)
        assert told[0].done == done + 1
        done += (stop - 1) // BATCHES * BATCHES
    told = []
    _run.run(plan, *places, told.append)
    assert len(told) == 3 * BATCHES - done
    assert numbers(places) == once[1]
    assert not Checkpoint(plan, places[1]).path.exists()


@pytest.mark.parametrize("write", range(4))
@pytest.mark.parametrize("half", [False, True], ids=["before", "half-way"])
def test_a_run_that_ends_while_it_writes_goes_on(write, half, plan, places, once, monkeypatch):
    """Of four writes, three are checkpoints and the last one is the result."""
    plain, count = _results.write_atomically, 0

    def breaks(path, content):
        nonlocal count
        count += 1
        if count <= write:
            return plain(path, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        if half:  # as a kill leaves it
            path.with_name(path.name + ".tmp").write_bytes(content[: len(content) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_results, "write_atomically", breaks)
        with pytest.raises(KeyboardInterrupt):
            _run.run(plan, *places)
    told = []
    _run.run(plan, *places, told.append)
    assert len(told) == (3 - min(write, 3)) * BATCHES
    assert numbers(places) == once[1]
    assert not [path for path in places[0].rglob("*") if path.suffix == ".tmp"]


def test_the_seconds_of_all_attempts_are_counted(plan, places, monkeypatch):
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(_run.time, "perf_counter", lambda: next(clock))
    interrupted(plan, places)  # begins at 0 and saves its epoch at 100
    # Begins at 200, saves at 300 and 400 and ends at 500.
    assert _run.run(plan, *places).seconds == 400


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
        lambda content: bytes([content[0] ^ 1]) + content[1:],
    ],
    ids=["empty", "half", "bit", "digest"],
)
def test_a_damaged_checkpoint_is_named_and_kept_aside(damage, plan, places, once, caplog):
    path = interrupted(plan, places)
    path.write_bytes(damage(path.read_bytes()))
    bad, told = path.read_bytes(), []
    _run.run(plan, *places, told.append)
    assert told[0].done == 1
    assert numbers(places) == once[1]
    aside = path.with_name(path.name + ".corrupt")
    assert aside.read_bytes() == bad
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} was damaged: the row begins anew; kept as {aside.name}"
    ]


def test_a_run_goes_on_with_as_many_threads_as_it_began(plan, places, tmp_path, once):
    path = interrupted(plan, places)
    other = lab_rows.plan(tmp_path, threads=2)
    with pytest.raises(HalfnetFileError, match=rf"threads: expected 1, with which {path} was begu"):
        _run.run(other, *places)
    assert path.exists()
    _run.run(plan, *places)
    assert numbers(places) == once[1]
    assert torch.get_num_threads() == 1


def test_a_checkpoint_that_cannot_be_read_is_not_overwritten(plan, places, monkeypatch):
    path = interrupted(plan, places)
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_bytes", refuse(errno.EACCES))
        with pytest.raises(HalfnetError, match=rf"cannot read {path}: Permission denied"):
            _run.run(plan, *places)
    assert path.exists()


def test_a_full_disk_ends_a_row_and_keeps_its_last_epoch(plan, places, monkeypatch, once):
    path = interrupted(plan, places)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", refuse(errno.ENOSPC))
        with pytest.raises(HalfnetError, match=rf"cannot write {path}: No space left on device"):
            _run.run(plan, *places)
    assert path.read_bytes() == before
    _run.run(plan, *places)
    assert numbers(places) == once[1]


def test_a_folder_for_checkpoints_that_cannot_be_made(plan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HalfnetError, match=r"Not a directory; make room or .* with HALFNET_CACHE"):
        _run.run(plan, tmp_path, tmp_path / "file" / "checkpoints")


def test_a_checkpoint_that_cannot_be_removed_does_no_harm(plan, places, monkeypatch, once):
    monkeypatch.setattr("pathlib.Path.unlink", refuse(errno.EACCES))
    monkeypatch.setattr(_results, "write_atomically", lambda path, content: None)
    assert _run.run(plan, *places).test == once[0].test


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": (0, 2)},
        {"epochs": 2},
        {"recipe": {"rate": 0.02}},
        {"recipe": {"init": "paper"}},
        {"row": "MLP, h=8"},
    ],
    ids=str,
)
def test_a_checkpoint_belongs_to_one_plan(change, plan, tmp_path):
    change = dict(change)
    recipe = change.pop("recipe", {})
    other = lab_rows.plan(tmp_path, **change)
    other = dataclasses.replace(other, recipe=dataclasses.replace(other.recipe, **recipe))
    folder = tmp_path / "checkpoints"
    assert Checkpoint(other, folder).path != Checkpoint(plan, folder).path


def test_a_checkpoint_belongs_to_the_versions_it_was_made_with(plan, tmp_path, monkeypatch):
    path = Checkpoint(plan, tmp_path).path
    monkeypatch.setattr(_run, "versions", lambda: {"torch": "1.0"})
    assert Checkpoint(plan, tmp_path).path != path


# -- losses that burst ----------------------------------------------------------------------------


def test_a_loss_that_is_no_number_ends_a_row_at_its_step(tmp_path, places):
    bursting = lab_rows.plan(tmp_path, "bursts", text=lab_rows.SPECS + lab_rows.BURSTING)
    with pytest.raises(NotFiniteError, match=r"loss of network 0 .* at step 1 \(epoch 1\)"):
        _run.run(bursting, *places)
    assert not places[0].exists()


def test_numbers_that_the_last_step_spoils_end_a_row_too(plan, places, monkeypatch):
    step, count = Adam.step, 0

    def spoil(self, rate):
        nonlocal count
        step(self, rate)
        count += 1
        if count == 3 * BATCHES:
            self._numbers[64] = math.inf  # of 2 x 64 numbers of B

    monkeypatch.setattr(Adam, "step", spoil)
    message = r"hidden1\.B of network 1 is no finite number any more at step 9 \(epoch 3\)"
    with pytest.raises(NotFiniteError, match=message):
        _run.run(plan, *places)
    assert not places[0].exists()


# -- plans ----------------------------------------------------------------------------------------


def test_a_plan_is_checked(tmp_path):
    with pytest.raises(HalfnetValueError, match="seeds: expected at least one"):
        lab_rows.plan(tmp_path, seeds=())
    with pytest.raises(HalfnetValueError, match=r"none of them twice, got \[3, 3\]"):
        lab_rows.plan(tmp_path, seeds=(3, 3))
    with pytest.raises(HalfnetValueError, match="seeds: expected an integer from 0"):
        lab_rows.plan(tmp_path, seeds=(-1,))
    with pytest.raises(HalfnetValueError, match="threads: expected an integer from 1"):
        lab_rows.plan(tmp_path, threads=0)
    with pytest.raises(HalfnetValueError, match="epochs: expected an integer from 1"):
        lab_rows.plan(tmp_path, epochs=0)
    with pytest.raises(HalfnetValueError, match="unknown preset 'smal': the nearest name is 'smal"):
        lab_rows.plan(tmp_path, preset="smal")


def test_a_plan_that_is_cut_short_says_so(plan, tmp_path):
    assert (plan.preset, plan.recipe.epochs, plan.name) == ("small", 3, "small, k=1")
    assert lab_rows.plan(tmp_path, epochs=3) == lab_rows.plan(tmp_path, epochs=99) == plan
    quick = lab_rows.plan(tmp_path, epochs=2)
    assert (quick.preset, quick.recipe.epochs) == ("small-quick", 2)


def test_rows_whose_files_would_be_one_are_refused(tmp_path):
    alike = lab_rows.SPECS.replace("MLP, h=8", "k=1.")
    with pytest.raises(HalfnetValueError, match=r"rows 'k=1' and 'k=1\.' of table 'small': expect"):
        lab_rows.plan(tmp_path, text=alike)


# -- two at once ----------------------------------------------------------------------------------


def test_a_second_run_waits_and_takes_what_the_first_one_made(plan, places, once, monkeypatch):
    def train(*_):
        raise AssertionError

    monkeypatch.setattr(_run, "_trained", train)
    found = []
    second = threading.Thread(target=lambda: found.append(_run.run(plan, *places)))
    with Checkpoint(plan, places[1]).locked():  # as the first run does while it trains
        second.start()
        second.join(0.2)
        assert second.is_alive()
        _results.save(once[0], places[0])
    second.join(10)
    assert found[0].test == once[0].test


def test_a_row_that_has_a_result_is_trained_again_if_asked(plan, places, once):
    _results.save(once[0], places[0])
    told = []
    _run.run(plan, *places, told.append)
    assert told == []
    _run.run(plan, *places, told.append, again=True)
    assert len(told) == 3 * BATCHES
    assert numbers(places) == once[1]


def test_a_result_of_other_seeds_or_another_recipe_is_not_replaced(plan, places, once, tmp_path):
    assert _run.finished(plan, places[0]) is None
    _results.save(once[0], places[0])
    assert _run.finished(plan, places[0]).test == once[0].test
    fewer = lab_rows.plan(tmp_path, seeds=(0,))
    faster = dataclasses.replace(plan, recipe=dataclasses.replace(plan.recipe, rate=0.5))
    for other, words in (
        (fewer, r"expected seeds as asked for, \[0\], got \[0, 1\]; --again replaces"),
        (faster, "expected recipe as asked for, others, got others; --again replaces"),
    ):
        with pytest.raises(HalfnetError, match=words):
            _run.run(other, *places)
    assert numbers(places) == once[1]
    assert _run.run(fewer, *places, again=True).seeds == (0,)


@pytest.mark.skipif(sys.platform == "win32", reason="another kind of lock")
def test_a_file_system_without_locks_is_taken_as_it_is(monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("fcntl.flock", refuse(errno.ENOLCK))
    with (tmp_path / "lock").open("ab") as file:
        _locks.wait_for_lock(file)
    assert "no lock on" in caplog.text


# -- spectra --------------------------------------------------------------------------------------


def test_spectra_hold_each_hidden_layers_singular_values_and_eigenvalues(once, monkeypatch):
    torch.manual_seed(0)
    models = [
        nn.Sequential(
            *(nn.Flatten(), nn.Linear(3, 3)),
        )
        for _ in range(2)
    ]
    models = [
        specs.build(
            specs.Architecture(
                None,
                (
                    specs.HalfSpec(units=5, rank=2),
                    specs.LowRankSpec(units=6, rank=2),
                    specs.DenseSpec(units=4),
                ),
            ),
            (9,),
            3,
            seed=seed,
        )
        for seed in range(2)
    ]
    found = _run.spectra(models)
    assert list(found) == ["hidden1", "hidden2", "hidden3"]
    for model, weights, covariance in zip(models, *found["hidden1"].values(), strict=True):
        plain = model.hidden1.weight.detach().numpy()
        assert weights == pytest.approx(np.linalg.svd(plain)[1], rel=1e-4)
        B, sigma = model.hidden1.B.detach().numpy(), model.hidden1.sigma.detach().numpy()
        values = np.linalg.eigvalsh(B @ B.T + np.diag(sigma**2))[::-1][:5]
        assert covariance == pytest.approx(values, rel=1e-4)
    low_rank = models[1].hidden2
    assert isinstance(low_rank, LowRank)
    product = (low_rank.U @ low_rank.V).detach().numpy()
    values = np.linalg.svd(product)[1]
    assert found["hidden2"]["weights"][1] == pytest.approx(values, rel=1e-4, abs=1e-6)
    assert list(found["hidden3"]) == ["weights"]
    assert set(once[0].spectra) == {"hidden1"}
    monkeypatch.setattr(_run, "_WIDEST", 8)
    assert list(_run.spectra(models)["hidden1"]) == ["weights"]


# -- the commit -----------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of some project, and a file in it that `commit` takes for its own."""
    folder = tmp_path / "checkout" / "package" / "lab"
    folder.mkdir(parents=True)
    file = folder / "_run.py"
    file.write_text("1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git = ["git", "-C", str(tmp_path / "checkout"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "0"], check=True)
    monkeypatch.setattr(_run, "__file__", str(file))
    return git, file


def test_the_commit_is_that_of_the_code(checkout):
    git, file = checkout
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "1"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert _run.commit() == head.stdout.strip()
    file.write_text("2")
    assert _run.commit() == head.stdout.strip() + "+"


def test_code_installed_inside_another_projects_checkout_has_no_commit(checkout):
    assert _run.commit() is None


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setattr(subprocess, "run", refuse(errno.ENOENT))
    assert _run.commit() is None


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("has", [True, False])
def test_freed_memory_is_kept_where_the_c_library_can(platform, has, monkeypatch):
    calls = []
    library = types.SimpleNamespace(**{"mallopt": lambda *a: calls.append(a)} if has else {})
    monkeypatch.setattr(_memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", platform)
    _memory.keep_freed_memory()
    assert calls == ([(-4, 0), (-1, -1)] if has and platform == "linux" else [])


# -- processes ------------------------------------------------------------------------------------


class Queue(list):
    """A queue of this process."""

    put = put_nowait = list.append

    def get_nowait(self):
        if not self:
            raise _schedule.queue.Empty
        return self.pop(0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_rows_run_side_by_side_and_one_that_fails_stops_no_other(tmp_path, places, once):
    text = lab_rows.SPECS + lab_rows.BURSTING
    plans = [lab_rows.plan(tmp_path, row, text=text) for row in ("bursts", "k=1")]
    happened = list(_schedule.run_all(plans, *places, jobs=2))
    ends = {plan.row.name: event for plan, event in happened if not isinstance(event, Progress)}
    assert ends["bursts"].reason.endswith("at step 1 (epoch 1)")
    assert ends["k=1"].test == once[0].test
    assert numbers(places) == once[1]


def test_of_a_rows_progress_only_the_newest_counts_and_none_after_its_end(caplog):
    a, b, c = (Progress(done, 9, None) for done in (1, 2, 3))
    record = logging.LogRecord("halfnet.lab", logging.WARNING, "", 0, "a warning", (), None)
    assert _schedule._newest(Queue([(0, a), (1, b), record, (0, c)]), [0]) == [(0, c)]
    assert caplog.messages == ["a warning"]


def outcome(error):
    future = Future()
    future.set_exception(error)
    return _schedule._outcome(types.SimpleNamespace(name="a row"), future).reason


def test_a_row_that_fails_says_why(caplog):
    assert outcome(HalfnetError("why")) == "why"
    assert outcome(BrokenProcessPool()).startswith("a process was killed, perhaps for want of mem")
    assert outcome(MemoryError()) == "not enough memory"
    assert (
        outcome(RuntimeError("DefaultCPUAllocator: can't allocate memory")) == "not enough memory"
    )
    assert caplog.records == []
    assert outcome(RuntimeError("one line\nand another")) == "RuntimeError: one line"
    assert caplog.messages == ["a row: a mistake in halfnet"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_waits_while_processes_are_started():
    inside, handler = [], signal.getsignal(signal.SIGINT)
    by_this_thread = functools.partial(signal.pthread_kill, threading.get_ident(), signal.SIGINT)

    def start(send):
        with _schedule._interrupts_held():
            send()
            time.sleep(0.01)
            inside.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    # Sent to this thread, which blocks it; and as if another thread had taken it.
    for send in (by_this_thread, _thread.interrupt_main):
        with pytest.raises(KeyboardInterrupt):
            start(send)
    assert [signal.SIGINT in blocked for blocked in inside] == [True, True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_may_start_processes():
    """Python interrupts none but the main thread, and lets no other set a handler."""

    def start():
        with _schedule._interrupts_held():
            return "started"

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(start).result() == "started"


@pytest.fixture
def worker(monkeypatch):
    """What a worker has, in this process: a queue, and a parent that ends when told to."""
    events, ended, exits = Queue(), threading.Event(), []
    monkeypatch.setattr(_schedule, "_events", None)
    monkeypatch.setattr(_schedule.signal, "signal", lambda *_: None)
    parent = types.SimpleNamespace(join=ended.wait)
    monkeypatch.setattr(_schedule.multiprocessing, "parent_process", lambda: parent)
    exited = threading.Event()
    monkeypatch.setattr(_schedule.os, "_exit", lambda code: (exits.append(code), exited.set()))
    logger = logging.getLogger("halfnet")
    handlers = list(logger.handlers)
    _schedule._begin(events)
    yield types.SimpleNamespace(events=events, ended=ended, exits=exits, exited=exited)
    ended.set()
    assert exited.wait(5)
    logger.handlers[:] = handlers


def test_a_worker_tells_how_far_it_is_and_what_it_logs(worker, plan, places, once, monkeypatch):
    monkeypatch.setattr(_schedule, "_POLL", 0.0)
    monkeypatch.setattr(_schedule.time, "monotonic", iter(range(1, 99)).__next__)
    logging.getLogger("halfnet.lab").warning("a %s", "warning")
    result = _schedule._work(7, plan, *places, False)
    assert result.test == once[0].test
    assert worker.events.pop(0).getMessage() == "a warning"
    assert [number for number, _ in worker.events] == [7] * len(worker.events)
    assert worker.events[-1][1].done > 4
    assert isinstance(worker.events[-1][1].scores, EpochScores)


def test_a_worker_tells_no_more_often_than_it_is_asked(worker, plan, places, monkeypatch):
    monkeypatch.setattr(_schedule.time, "monotonic", lambda: 1.0)
    _schedule._work(7, plan, *places, False)
    assert len(worker.events) == 1


def test_a_worker_ends_when_its_parent_does(worker):
    assert not worker.exited.wait(0.05)
    worker.ended.set()
    assert worker.exited.wait(5)
    assert worker.exits == [1]
