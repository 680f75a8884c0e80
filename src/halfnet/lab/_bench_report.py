"""What `halfnet bench` shows of its records: tables, targets, a plot."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from halfnet.lab._bench import Cell, Record

_SECTIONS = {
    "step": "Training step (forward, backward, fused Adam): time over nn.Linear's",
    "inference": "Inference: time over nn.Linear's",
    "memory": "Memory over nn.Linear's: kept in training; peak of a step",
    "network": "The paper's networks: time of a step over the dense network's",
}


class Target(NamedTuple):
    """A ratio that is aimed at, and where it is to be found."""

    words: str
    limit: float
    section: str
    ratio: str
    wanted: Callable[[Record], bool]


def _cell(record: Record) -> Cell:
    return Cell(*(record[field] for field in Cell._fields))


def _large(dtype: str) -> Callable[[Record], bool]:
    return lambda r: _cell(r).large and r["input_gradient"] and r["dtype"] == dtype


def _float32(d: int, m: int) -> Callable[[Record], bool]:
    return lambda r: (r["rows"], r["d"], r["m"], r["dtype"]) == (128, d, m, "float32")


def _named(start: str) -> Callable[[Record], bool]:
    return lambda r: bool(r["cell"].startswith(start))


TARGETS = (
    Target("large layers with input gradient, float32", 0.72, "step", "half", _large("float32")),
    Target("the same, bfloat16", 0.72, "step", "half", _large("bfloat16")),
    Target("784-64, k=16, batch 128", 1.15, "step", "half", _float32(784, 64)),
    Target("2304-64, k=8, batch 128", 1.0, "step", "half", _float32(2304, 64)),
    Target(
        "noise none, rank min(d, m)/16, large layers", 0.25, "step", "half, noise none",
        lambda r: _cell(r).large and r["dtype"] == "float32",
    ),
    Target("frozen inference", 1.05, "inference", "frozen", lambda r: True),
    Target("folded inference", 1.0, "inference", "folded", lambda r: True),
    Target("memory kept, k at most m/25", 0.30, "memory", "kept", lambda r: 25 * r["k"] <= r["m"]),
    Target("CIFAR-10, Full-Half against Full-Full", 0.8, "network", "half", _named("cifar10")),
    Target("MNIST, half against dense", 1.0, "network", "half", _named("mnist")),
)  # fmt: skip
_SLACK = 0.005  # the targets have two digits, as what is compared with them has


def judged(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return each target with what was measured for it: met if each case of it is."""
    found = []
    for target in TARGETS:
        ratios = {
            record["cell"]: record["ratios"][target.ratio]
            for record in records
            if record["section"] == target.section
            and target.ratio in record["ratios"]
            and target.wanted(record)
        }
        if ratios:
            met = sum(ratio < target.limit + _SLACK for ratio in ratios.values())
            entry = {"target": target.words, "limit": target.limit, "best": min(ratios.values())}
            entry |= {"worst": max(ratios.values()), "cases": len(ratios), "met": met}
            found.append(entry)
    return found


def header(section: str) -> str:
    """Return the line above a section's table."""
    return f"\n{_SECTIONS[section]}"


def line(record: Record) -> str:
    """Return a record as a line."""
    dense = record.get("ms", {}).get("nn.Linear", record.get("ms", {}).get("dense"))
    size = f"{dense:10.3f} ms" if dense is not None else ""
    ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in record["ratios"].items())
    return f"  {record['cell']:52}{size}  {ratios}"


def targets_text(records: Sequence[Record]) -> str:
    """Return the targets as a table."""
    lines = [f"\n{'target':46}{'at most':>8}{'measured':>14}"]
    for entry in judged(records):
        best, worst = f"{entry['best']:.2f}", f"{entry['worst']:.2f}"
        measured = worst if best == worst else f"{best} to {worst}"
        met = "met" if entry["met"] == entry["cases"] else "missed"
        part = f" ({entry['met']} of {entry['cases']})" if 0 < entry["met"] < entry["cases"] else ""
        lines.append(f"{entry['target']:46}{entry['limit']:8.2f}{measured:>14}  {met}{part}")
    return "\n".join(lines)


_COLORS = {
    "half": "#1f6feb", "half, torch's products": "#8ab4f8", "half, noise none": "#1a7f37",
    "W = UV": "#bc4c00", "tensorly-torch": "#8250df", "VeRA-style": "#57606a",
    "nn.Linear by oneDNN": "#000000",
}  # fmt: skip


def plot(records: Iterable[Record], path: Path) -> None:
    """Draw the training steps: a row a cell, a mark a layer."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    steps = [record for record in records if record["section"] == "step"]
    fig, axes = plt.subplots(figsize=(9, 1.6 + 0.34 * len(steps)), layout="constrained")
    for name, color in _COLORS.items():
        points = [(r["ratios"][name], i) for i, r in enumerate(steps) if name in r["ratios"]]
        if points:
            marker = "o" if name.startswith("half") else "D"
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=34, color=color, label=name, marker=marker)
    axes.axvline(1, color="black", lw=0.8)
    axes.axvline(2 / 3, color="black", lw=0.8, ls=":")
    axes.set_yticks(range(len(steps)), [record["cell"] for record in steps], fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="time of a training step over nn.Linear's; dotted: 2/3")
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(alpha=0.3)
    fig.legend(frameon=False, fontsize=8, ncols=4, loc="outside upper center")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)
