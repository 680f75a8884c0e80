"""Side-by-side timing: alternating repetitions in one run, so that drift hits all alike."""

import statistics
import time
from collections.abc import Callable, Mapping


def medians(
    functions: Mapping[str, Callable[[], object]], *, seconds: float = 0.6, least: int = 7
) -> dict[str, float]:
    """Return each function's median time in seconds.

    Args:
        functions: What to time, by name. Each is called once before it is timed.
        seconds: Calls alternate until it took this long for each function,
        least: and at least so many calls of each were timed.
    """
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end or len(next(iter(times.values()))) < least:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
