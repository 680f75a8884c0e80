"""Rows that print as a table."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, TypeVar

R = TypeVar("R")


class Table(tuple[R, ...]):
    """A tuple of dataclass instances, printed as a table whose last line adds up what counts."""

    def __str__(self) -> str:
        names = [field.name for field in fields(self[0])]  # type: ignore[arg-type]
        rows = [[getattr(row, name) for name in names] for row in self]
        last: list[Any] = [
            sum(row[i] for row in rows) if column.metadata.get("summed") else ""
            for i, column in enumerate(fields(self[0]))  # type: ignore[arg-type]
        ]
        last[0] = "total"
        texts = [[name.replace("_", " ") for name in names], *(_texts(r) for r in [*rows, last])]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        right = [any(isinstance(row[i], int) for row in rows) for i in range(len(names))]
        return "\n".join(_line(text, widths, right) for text in texts)


def _texts(row: Iterable[Any]) -> list[str]:
    return ["" if v is None else f"{v:,}" if isinstance(v, int) else str(v) for v in row]


def _line(texts: list[str], widths: list[int], right: list[bool]) -> str:
    cells = [
        text.rjust(width) if align else text.ljust(width)
        for text, width, align in zip(texts, widths, right, strict=True)
    ]
    return "  ".join(cells).rstrip()
