"""Many rows at once: a process a row, as many as there are cores, each of one thread.

Small networks gain nothing from a second thread and lose to a second process; and with one thread
the numbers don't depend on how many cores a machine has.
"""

import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from halfnet.exceptions import HalfnetError
from halfnet.lab import _run
from halfnet.lab._results import Result
from halfnet.lab._run import Plan, Progress

_POLL = 0.2  # seconds

_log = logging.getLogger(__name__)


class Failed(NamedTuple):
    """Why a row came to no result."""

    reason: str


Event: TypeAlias = Progress | Result | Failed

_events: Any = None  # a worker's queue to the process that started it


def run_all(
    plans: Sequence[Plan], results: Path, checkpoints: Path, jobs: int, *, again: bool = False
) -> Iterator[tuple[Plan, Event]]:
    """Run plans, `jobs` at once, and yield what happens; a row that fails stops no other."""
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    executor = ProcessPoolExecutor(min(jobs, len(plans)), context, _begin, (events,))
    try:
        with _interrupts_held():
            running = {
                executor.submit(_work, number, plan, results, checkpoints, again): number
                for number, plan in enumerate(plans)
            }
        while running:
            done, _ = wait(running, _POLL, FIRST_COMPLETED)
            for number, progress in _newest(events, running.values()):
                yield plans[number], progress
            for future in done:
                plan = plans[running.pop(future)]
                yield plan, _outcome(plan, future)
    finally:
        _stop(executor)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let a Ctrl-C wait; processes that are started meanwhile never hear of one, from their birth.

    It is for the process that started them, which ends them. They inherit what this thread blocks;
    another thread may take the signal all the same, so a handler keeps it until then.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    came: list[int] = []
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _newest(events: Any, running: Collection[int]) -> list[tuple[int, Progress]]:
    """Return the newest progress of each row under way, by its number; pass on what was logged."""
    newest: dict[int, Progress] = {}
    try:
        while True:
            event = events.get_nowait()
            if isinstance(event, logging.LogRecord):
                logging.getLogger(event.name).handle(event)
            else:
                newest.update([event])
    except queue.Empty:
        # What a row told last may arrive after its result.
        return [(number, progress) for number, progress in newest.items() if number in running]


def _outcome(plan: Plan, future: Future[Result]) -> Result | Failed:
    try:
        return future.result()
    except HalfnetError as error:
        return Failed(str(error))
    except BrokenProcessPool:
        return Failed("a process was killed, perhaps for want of memory; run it again to go on")
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch's own words
            return Failed("not enough memory")
        _log.error("%s: a mistake in halfnet", plan.name, exc_info=error)
        return Failed(f"{type(error).__name__}: {error}".partition("\n")[0])


def _stop(executor: ProcessPoolExecutor) -> None:
    """End the workers in the middle of what they do: nothing is lost but the epoch under way."""
    workers = list((executor._processes or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


# -- in a worker ----------------------------------------------------------------------------------


def _begin(events: Any) -> None:
    global _events  # noqa: PLW0603
    _events = events
    # Only the process that draws the bars can write above them.
    logging.getLogger("halfnet").addHandler(QueueHandler(events))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Windows it comes all the same
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has: nobody waits for the row any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(number: int, plan: Plan, results: Path, checkpoints: Path, again: bool) -> Result:
    told = 0.0

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() > told + _POLL:
            told = time.monotonic()
            _events.put((number, progress))

    return _run.run(plan, results, checkpoints, tell, again=again)
