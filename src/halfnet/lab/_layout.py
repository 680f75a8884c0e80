"""Where ticks and labels go in a figure, in whatever unit it is drawn."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

_SWEEPS = 4
_DISTANCES = (1.0, 5.0, 10.0, 16.0, 23.0, 31.0, 40.0, 52.0, 66.0)
_DIRECTIONS = [
    (math.cos(math.radians(angle)), math.sin(math.radians(angle)))
    for angle in (270, 90, 0, 180, 315, 225, 45, 135, 292, 248, 68, 112)
]


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> "Box":
        """Return the rectangle of a size around its centre."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def overlap(self, other: "Box") -> float:
        """Return the area that two rectangles share."""
        # Nearly all that are compared lie apart, and labels take millions of comparisons.
        if self.left >= other.right or other.left >= self.right:
            return 0.0
        if self.top >= other.bottom or other.top >= self.bottom:
            return 0.0
        width = min(self.right, other.right) - max(self.left, other.left)
        return width * (min(self.bottom, other.bottom) - max(self.top, other.top))

    def inside(self, other: "Box") -> bool:
        """Return whether it lies within another."""
        return (
            self.left >= other.left
            and self.top >= other.top
            and self.right <= other.right
            and self.bottom <= other.bottom
        )

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """Return its point that is nearest to another."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


def place_labels(
    anchors: Sequence[Box],
    sizes: Sequence[tuple[float, float]],
    frame: Box,
    marks: Sequence[Box] = (),
    lines: Iterable[Sequence[tuple[float, float]]] = (),
) -> list[Box]:
    """Return where to write labels so that they hide neither each other nor what is drawn.

    Args:
        anchors: What each label belongs to and is put close to.
        sizes: Width and height of each label.
        frame: What they must stay in.
        marks: What else no label may hide.
        lines: Polylines, which they had better not hide.
    """
    strokes = [box for line in lines for box in _along(line)]
    choices = [
        [box for box in _candidates(anchor, size) if box.inside(frame)] or [anchor]
        for anchor, size in zip(anchors, sizes, strict=True)
    ]
    fixed = [
        [
            10 * sum(box.overlap(other) for other in (*anchors, *marks))
            + sum(box.overlap(stroke) for stroke in strokes)
            + 3 * math.dist(box.nearest(*anchor.centre), anchor.centre)
            for box in boxes
        ]
        for anchor, boxes in zip(anchors, choices, strict=True)
    ]
    placed = [boxes[0] for boxes in choices]
    for _ in range(_SWEEPS):
        for i, boxes in enumerate(choices):
            others = placed[:i] + placed[i + 1 :]
            costs = [
                cost + 20 * sum(box.overlap(other) for other in others)
                for box, cost in zip(boxes, fixed[i], strict=True)
            ]
            placed[i] = boxes[costs.index(min(costs))]
    return placed


def _candidates(anchor: Box, size: tuple[float, float]) -> Iterable[Box]:
    """Yield places around a box, the nearest first."""
    (x, y), (width, height) = anchor.centre, size
    reach_x = (anchor.right - anchor.left + width) / 2
    reach_y = (anchor.bottom - anchor.top + height) / 2
    for distance in _DISTANCES:
        for right, down in _DIRECTIONS:
            centre = x + right * (reach_x + distance), y + down * (reach_y + distance)
            yield Box.around(*centre, width, height)


def _along(line: Sequence[tuple[float, float]]) -> Iterable[Box]:
    """Yield small boxes that cover a polyline."""
    for start, end in pairwise(line):
        steps = max(1, round(math.dist(start, end) / 4))
        for step in range(steps):
            part = step / steps
            x = start[0] + part * (end[0] - start[0])
            y = start[1] + part * (end[1] - start[1])
            yield Box.around(x, y, 4, 4)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers within a range, at most so many."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (factor * power for factor in (1, 2, 2.5, 5, 10, 20))
    step = next(step for step in steps if math.floor((high - low) / step) + 1 <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers within a range for a logarithmic axis, at most so many or decades."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [number for number in found if low <= number <= high]
        if len(found) <= most:
            break
    return found if len(found) > 1 else ticks(low, high, most)  # of a short range these are better


def padded(numbers: Iterable[float], part: float) -> tuple[float, float]:
    """Return a range that holds numbers and some room on both sides."""
    numbers = list(numbers)
    low, high = min(numbers), max(numbers)
    room = (high - low) * part or 1.0
    return low - room, high + room
