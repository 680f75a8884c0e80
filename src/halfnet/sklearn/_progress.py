"""A progress bar in plain text: `verbose` needs no package more."""

import sys
import time

_WIDTH = 24


class Progress:
    """One line on stderr, drawn over itself a few times a second; silent unless `verbose`.

    Args:
        verbose: Whether to draw.
        epochs: How many there will be at most.
        steps: Of an epoch.
    """

    def __init__(self, verbose: bool, epochs: int, steps: int) -> None:
        self._verbose, self._epochs, self._steps = verbose, epochs, steps
        self._before, self._loss = 0, ""
        self._drawn = -1.0

    def step(self, done: int) -> None:
        """Say how many steps of this epoch are done."""
        now = time.monotonic()
        if self._verbose and now - self._drawn > 0.2:
            self._drawn = now
            self._draw(self._before + done)

    def epoch(self, loss: float, score: float | None = None) -> None:
        """Say that an epoch is over, and its loss and score on rows that were kept apart."""
        self._before += self._steps
        self._loss = f"loss {loss:.4g}" + ("" if score is None else f", held out {score:.4g}")

    def close(self) -> None:
        """Draw the bar a last time, and leave its line."""
        if self._verbose:
            self._draw(self._before)
            print(file=sys.stderr)

    def _draw(self, done: int) -> None:
        share = done / (self._epochs * self._steps)
        bar = "#" * round(_WIDTH * share)
        epoch = min(done // self._steps + 1, self._epochs)
        line = f"epoch {epoch}/{self._epochs} [{bar:.<{_WIDTH}}] {share:4.0%}  {self._loss}"
        print(f"\r{line:<79}", end="", file=sys.stderr, flush=True)
