"""CSV files of the user's own: a header, numeric columns, and one with the classes."""

import csv
from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetFileError, HalfnetValueError
from halfnet.lab._inputs import Inputs, Layout, as_float32, nearest

_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


class _Columns(NamedTuple):
    """Where in a row the inputs and the label are."""

    names: tuple[str, ...]
    places: list[int]
    target: str
    label: int | None


def read_csv(path: Path, target: str | None, layout: Layout | None) -> Inputs:
    """Read a CSV file.

    Args:
        path: The file.
        target: The column of the labels; None for the last.
        layout: Of the model that the rows are for: they have its columns, in any order, and labels
            or none. None for rows to learn from.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file, _fields.in_file(path):
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            _check_header(header)
            columns = _of_model(header, layout) if layout else _to_learn(header, target)
            return _rows(_lines(reader, header), header, columns)
    except OSError as error:
        raise HalfnetError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HalfnetFileError(f"{path}: expected CSV in UTF-8: {error}") from error


def _check_header(header: list[str]) -> None:
    if len(header) < 2:
        got = repr(header[0][:60]) if header else "an empty file"
        raise HalfnetValueError(
            f"expected a header of at least two names with commas between, got {got}"
        )
    numbers = [name for name in header if _is_number(name)]
    # pandas calls columns 0, 1, 2; so whole numbers beside a name may be names too.
    if len(numbers) > len(header) - (1 if all(map(str.isdecimal, numbers)) else 2):
        raise HalfnetValueError(
            f"expected a header of column names in line 1, got numbers: {numbers[0]!r}, ..."
        )
    for place, name in enumerate(header, 1):
        if not name:
            raise HalfnetValueError(f"header: expected a name for column {place}, got none")
    for first, second in pairwise(sorted(header)):
        if first == second:
            raise HalfnetValueError(f"header: expected column {first!r} once, got it twice")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _to_learn(header: list[str], target: str | None) -> _Columns:
    target = header[-1] if target is None else target
    if target not in header:
        nearest("column", target, header)
    names = tuple(name for name in header if name != target)
    return _Columns(names, [header.index(name) for name in names], target, header.index(target))


def _of_model(header: list[str], layout: Layout) -> _Columns:
    names = layout.columns
    for name in names:
        if name not in header:
            raise HalfnetValueError(
                f"expected the model's {len(names)} columns, got none named {name!r}"
            )
    for name in header:
        if name not in names and name != layout.target:
            raise HalfnetValueError(
                f"expected the model's {len(names)} columns, got another one named {name!r}"
            )
    label = header.index(layout.target) if layout.target in header else None
    return _Columns(names, [header.index(name) for name in names], layout.target, label)


def _lines(reader: Iterator[list[str]], header: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of the line that it ends on; empty lines are none."""
    for cells in reader:
        line = reader.line_num  # type: ignore[attr-defined]
        if cells and len(cells) != len(header):
            raise HalfnetValueError(f"line {line}: expected {len(header)} values, got {len(cells)}")
        if cells:
            yield line, cells


def _rows(rows: Iterator[tuple[int, list[str]]], header: list[str], columns: _Columns) -> Inputs:
    values, lines, labels = array("d"), array("q"), []
    for line, cells in rows:
        try:
            values.extend([float(cells[place]) for place in columns.places])
        except ValueError:
            _blame(line, cells, header, columns)
        lines.append(line)
        if columns.label is not None:
            label = cells[columns.label].strip()
            if label.casefold() in _MISSING and label.casefold() != "none":  # which may be a class
                raise HalfnetValueError(
                    f"line {line}, column {columns.target!r}: expected a class, got a missing "
                    f"value{f', {label!r}' if label else ''}"
                )
            labels.append(label)
    if not lines:
        raise HalfnetValueError("expected rows below the header, got none")
    x = as_float32(np.array(values).reshape(len(lines), -1))
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, place = bad[0]
        got = values[row * x.shape[1] + place]
        raise HalfnetValueError(
            f"line {lines[row]}, column {columns.names[place]!r}: expected a finite number, "
            f"got {'a missing value' if np.isnan(got) else got}"
        )
    return Inputs(
        x,
        None if columns.label is None else np.array(labels),
        columns=columns.names,
        target=columns.target,
    )


def _blame(line: int, cells: list[str], header: list[str], columns: _Columns) -> None:
    """Raise for the first cell of a row that is no number."""
    place = next(place for place in columns.places if not _is_number(cells[place]))
    text = cells[place].strip()
    got = "a missing value" if text.casefold() in _MISSING else f"text, {text[:40]!r}"
    raise HalfnetValueError(f"line {line}, column {header[place]!r}: expected a number, got {got}")
