"""Finished rows on disk: one small JSON each, which nothing but a finished run writes.

A folder of results holds PRESET/TABLE/ROW.json. Each file carries the SHA-256 of its own content: a
file that was damaged or edited is named, moved aside, and not used.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryFile
from typing import Any

from halfnet.exceptions import HalfnetError, HalfnetFileError
from halfnet.lab.specs import Score

FORMAT = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a row: how it was trained, and how well each seed did."""

    table: str
    row: str
    preset: str
    """The preset's name; "-quick" is appended to it if the run was cut short to be quick."""
    dataset: str
    architecture: Mapping[str, Any]
    recipe: Mapping[str, Any]
    """As it was followed: its `epochs` are those that were run."""
    params: int
    """Learned numbers of one network."""
    seeds: tuple[int, ...]
    train: tuple[float, ...]
    """Accuracy of each seed's finished network on the unchanged training images, in percent."""
    test: tuple[float, ...]
    curves: Mapping[str, Any]
    """`loss` and `accuracy` as trained on, a list an epoch with a number a seed."""
    spectra: Mapping[str, Any]
    """Of each hidden layer, by its name, a list a seed, descending: `weights`, the singular values
    of the weight matrix as it is used; and for a half layer `covariance`, the leading eigenvalues
    of Sigma, at most as many as units."""
    seconds: float
    """Of training and evaluation, without what came before an interruption and was lost."""
    threads: int
    versions: Mapping[str, str]
    """Of halfnet, torch, numpy and python."""
    commit: str | None
    """Of the checkout that was run, with "+" if it had changes; None outside of one."""
    data_sha256: Mapping[str, str]

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return int(self.recipe["epochs"])

    @property
    def train_score(self) -> Score:
        """Mean and sample standard deviation over the seeds of the training accuracy."""
        return score(self.train)

    @property
    def test_score(self) -> Score:
        """Mean and sample standard deviation over the seeds of the test accuracy."""
        return score(self.test)


def score(accuracies: tuple[float, ...]) -> Score:
    """Return mean and sample standard deviation, which is 0 for a single run."""
    return Score(fmean(accuracies), stdev(accuracies) if len(accuracies) > 1 else 0.0)


def place(folder: Path, preset: str, table: str, row: str) -> Path:
    """Return where the result of a row is kept."""
    return folder / preset / table / f"{slug(row)}.json"


def slug(row: str) -> str:
    """Return a file name for a row: "u, u0" is u-u0, "Full-Half k=8" is Full-Half-k=8."""
    return re.sub(r"[^\w=.]+", "-", row).strip("-.") or "row"


def save(result: Result, folder: Path) -> Path:
    """Write a result so that a reader finds it whole or not at all."""
    path = place(folder, result.preset, result.table, result.row)
    content = {"format": FORMAT, **asdict(result)}
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1)
    write_atomically(path, (_compact(text) + "\n").encode())
    return path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file through one of another name: killed half-way, the old one is still there.

    Raises:
        HalfnetError: It cannot be written; the message says why.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise HalfnetError(f"cannot write {path}: {error.strerror or error}") from error


def check_writable(folder: Path) -> None:
    """Raise if nothing can be written to a folder: before the work that it is for, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise HalfnetError(f"cannot write to {folder}: {error.strerror or error}") from error


def read(path: Path) -> Result:
    """Read a result.

    Raises:
        HalfnetFileError: It is damaged, was changed by hand, or is of another version.
        HalfnetError: It cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
        written = content.pop("sha256", None) if isinstance(content, dict) else None
        digest = _digest(content)
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise HalfnetFileError(f"{path}: expected a result as JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise HalfnetFileError(f"{path}: expected a result of format {FORMAT}")
    if digest != written:
        raise HalfnetFileError(
            f"{path}: its content does not have the SHA-256 that it was written with: it was "
            "damaged or edited"
        )
    if (version := content.pop("format")) != FORMAT:  # whole, and of use to another halfnet
        raise HalfnetError(f"{path}: expected a result of format {FORMAT}, got format {version}")
    if content.keys() != {field.name for field in fields(Result)}:
        raise HalfnetFileError(f"{path}: expected the fields of a result of format {FORMAT}")
    for name in ("seeds", "train", "test"):
        content[name] = tuple(content[name])
    return Result(**content)


def read_or_set_aside(path: Path) -> Result | None:
    """Read a result; one that is missing or no good is None, and the latter is moved aside."""
    if not os.path.exists(path):  # Path's own `exists` fails in a folder that cannot be read
        return None
    try:
        return read(path)
    except HalfnetFileError as error:
        try:
            aside = set_aside(path)
        except HalfnetError as why:
            raise HalfnetError(f"{error}; {why}") from error
        _log.warning("%s; kept as %s", error, aside.name)
        return None


def set_aside(path: Path) -> Path:
    """Move a file that is no good out of the way, and return where it is now."""
    aside, number = path.with_name(path.name + ".corrupt"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt{number}")
    try:
        os.replace(path, aside)
    except OSError as error:
        raise HalfnetError(f"cannot move {path} aside: {error.strerror or error}") from error
    return aside


def read_all(folder: Path) -> Iterator[Result]:
    """Yield the results of a folder, in the order of their files' names."""
    for path in sorted(folder.glob("*/*/*.json")):
        if (result := read_or_set_aside(path)) is not None:
            yield result


def _digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _compact(text: str) -> str:
    """Put each innermost list of a JSON text on one line, so that a diff is readable."""
    return re.sub(r"\[[^][{}]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
