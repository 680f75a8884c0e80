"""Many rows at once: a process a row, as many as there are cores, each of one thread.

Small networks gain nothing from a second thread and lose to a second process; and with one thread
the numbers don't depend on how many cores a machine has.
"""

import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from halfnet.exceptions import HalfnetError
from halfnet.lab import _run
from halfnet.lab._results import Result
from halfnet.lab._run import Plan, Progress

_POLL = 0.2  # seconds


class Failed(NamedTuple):
    """Why a row came to no result."""

    reason: str


Event: TypeAlias = Progress | Result | Failed

_events: Any = None  # a worker's queue to the process that started it


def run_all(
    plans: Sequence[Plan], results: Path, checkpoints: Path, jobs: int
) -> Iterator[tuple[Plan, Event]]:
    """Run plans, `jobs` at once, and yield what happens; a row that fails stops no other."""
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    executor = ProcessPoolExecutor(min(jobs, len(plans)), context, _begin, (events, os.getpid()))
    try:
        running: dict[Future[Result], Plan] = {
            executor.submit(_work, number, plan, results, checkpoints): plan
            for number, plan in enumerate(plans)
        }
        while running:
            done, _ = wait(running, _POLL, FIRST_COMPLETED)
            yield from _reported(events, plans)
            for future in done:
                yield running.pop(future), _outcome(future)
    finally:
        _stop(executor)


def _reported(events: Any, plans: Sequence[Plan]) -> Iterator[tuple[Plan, Event]]:
    """Yield the newest progress of each row."""
    newest = {}
    try:
        while True:
            number, progress = events.get_nowait()
            newest[number] = progress
    except queue.Empty:
        for number, progress in newest.items():
            yield plans[number], progress


def _outcome(future: Future[Result]) -> Result | Failed:
    try:
        return future.result()
    except HalfnetError as error:
        return Failed(str(error))
    except BrokenProcessPool:
        return Failed("its process was killed; run it again to go on")


def _stop(executor: ProcessPoolExecutor) -> None:
    """End the workers in the middle of what they do: nothing is lost but the epoch under way."""
    workers = list((executor._processes or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


# -- in a worker ----------------------------------------------------------------------------------


def _begin(events: Any, parent: int) -> None:
    global _events  # noqa: PLW0603
    _events = events, parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one


def _work(number: int, plan: Plan, results: Path, checkpoints: Path) -> Result:
    events, parent = _events
    told = 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        if os.getppid() != parent:  # killed: nobody waits for this any more
            os._exit(1)
        if time.monotonic() > told + _POLL:
            told = time.monotonic()
            events.put((number, progress))

    return _run.run(plan, results, checkpoints, tell)
