"""One file over HTTP: short timeouts, resumed, retried, with a bar on a terminal."""

import http.client
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from halfnet.exceptions import HalfnetError

# A machine without internet must learn it in seconds, one with a slow line must get its file.
ANSWER_SECONDS = 3.0  # from the call to the answer's headers, name lookup included
STALL_SECONDS = 10.0  # without a single byte
SLOWEST = 10_000  # bytes a second on average, once STALL_SECONDS have passed
LARGEST = 1 << 28  # bytes; no data set has a file this large, but a wrong server may
PAUSES = (0.2, 0.6)  # seconds before the second and third try


def progress_bars(*columns: ProgressColumn, show: bool = True) -> Progress:
    """Return bars for stderr: drawn on a terminal, absent elsewhere, gone when finished."""
    hidden = not (show and sys.stderr.isatty())
    return Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure to write below the cache into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise HalfnetError(
            f"cannot write {path}: {error.strerror or error}; make room or get permission there, "
            "or name another folder with HALFNET_CACHE"
        ) from error


def download(url: str, path: Path, *, show: bool = True) -> None:
    """Put the file at `url` in `path`; what an earlier try left in `path`.part is not sent again.

    Raises:
        ConnectionError: The file could not be had; the message says why in a few words.
        HalfnetError: It could not be written.
    """
    part = path.with_name(path.name + ".part")
    for pause in (*PAUSES, None):
        try:
            _receive(url, part, show)
            break
        except http.client.HTTPException as error:
            if pause is None:
                raise ConnectionError(str(error)) from error
            time.sleep(pause)
    with writing(path):
        os.replace(part, path)


def _receive(url: str, part: Path, show: bool) -> None:
    """Fetch what `part` lacks. HTTPException, which is no OSError, says that the line failed."""
    with writing(part):
        have = part.stat().st_size if part.exists() else 0
    answer = _open(Request(url, headers={"Range": f"bytes={have}-"} if have else {}))
    if isinstance(answer, HTTPError):
        answer.close()
        if have and answer.headers.get("Content-Range") == f"bytes */{have}":
            return  # it was complete, and the last try ended before it could say so
        with writing(part):
            part.unlink(missing_ok=True)
        raise http.client.HTTPException("the partial file did not fit")
    resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    with answer, writing(part), part.open("ab" if resumed else "wb") as file:
        for chunk in _chunks(answer, part.stem, have if resumed else 0, show):
            file.write(chunk)
            if file.tell() > LARGEST:
                break
    with writing(part):
        if part.stat().st_size <= LARGEST:
            return
        part.unlink()
    raise ConnectionError(f"sends more than {LARGEST} bytes")


def _open(request: Request) -> http.client.HTTPResponse | HTTPError:
    """Open the address in a thread, as the lookup of a name knows no timeout."""
    results: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(urlopen(request, timeout=STALL_SECONDS))
        except Exception as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = results.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise ConnectionError(f"no answer within {ANSWER_SECONDS:g} s") from None
    if isinstance(result, HTTPError):
        return _judge(result)
    if isinstance(result, URLError) and isinstance(result.reason, socket.gaierror):
        raise ConnectionError("its name cannot be looked up") from result
    if isinstance(result, Exception):
        raise http.client.HTTPException(_words(result)) from result
    return result


def _judge(error: HTTPError) -> HTTPError:
    """Return an answer about the range, raise any other: for good, or to try again."""
    if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return error
    error.close()
    words = f"it answers {error.code} {error.reason}"
    if error.code < 500 and error.code not in (408, 429):
        raise ConnectionError(words)
    raise http.client.HTTPException(words)


def _chunks(answer: http.client.HTTPResponse, name: str, have: int, show: bool) -> Iterator[bytes]:
    """Yield an answer's body as it comes, draw the bar, and see that it comes whole."""
    total = None if answer.length is None else have + answer.length
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with progress_bars(*columns, show=show) as bars:
        bar = bars.add_task(name, total=total, completed=have)
        started, received = time.monotonic(), 0
        while chunk := _read(answer):
            yield chunk
            received += len(chunk)
            bars.update(bar, completed=have + received)
            if received < SLOWEST * (time.monotonic() - started - STALL_SECONDS):
                raise http.client.HTTPException(f"slower than {SLOWEST // 1000} kB/s")
    if total is not None and have + received != total:
        raise http.client.HTTPException(f"broke off after {have + received} of {total} bytes")


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(1 << 16)  # returns what is there, so that a trickle is noticed
    except OSError as error:
        raise http.client.HTTPException(_words(error)) from error


def _words(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"silent for {STALL_SECONDS:g} s"
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
