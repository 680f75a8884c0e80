"""HalfLinear's two ways to compute, beside nn.Linear: what `prefers_factored` is read off.

    python benchmarks/paths.py

For each shape: forward and backward with and without an input gradient, and forward alone. The
table gives times as ratios to nn.Linear, the faster way, and what the rule picks; the last line
says how much time the rule gives away against always picking the faster. JSON beside.
"""

import json
from pathlib import Path

import torch
from torch import nn

import halfnet
from halfnet import _products
from halfnet.lab._timing import medians

RESULTS = Path(__file__).parent / "results" / "paths.json"

# n, d, m, k
SHAPES = [
    (128, 64, 64, 4), (128, 64, 64, 16), (128, 784, 64, 4), (128, 784, 64, 16), (1000, 784, 64, 16),
    (128, 2304, 64, 8), (128, 8192, 256, 8), (128, 8192, 256, 32), (128, 8192, 256, 48),
    (1, 784, 64, 16), (1, 4096, 4096, 32), (16, 1024, 1024, 32), (64, 512, 512, 16),
    (512, 1024, 4096, 32), (512, 4096, 1024, 32), (512, 1024, 1024, 256), (2048, 768, 3072, 16),
    (2048, 768, 768, 128), (4096, 64, 64, 16), (10000, 784, 64, 16), (32, 784, 1024, 64),
]  # fmt: skip
MODES = ("train", "train, no input gradient", "inference")


def step(layer: nn.Module, x: torch.Tensor, upstream: torch.Tensor):
    def run() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x).backward(upstream)

    return run


def inference(layer: nn.Module, x: torch.Tensor):
    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


def forced(run, factored: bool):
    def with_path() -> None:
        rule = _products.prefers_factored
        _products.prefers_factored = lambda *args: factored
        try:
            run()
        finally:
            _products.prefers_factored = rule

    return with_path


def measure(n: int, d: int, m: int, k: int, mode: str) -> dict:
    half, dense = halfnet.HalfLinear(d, m, rank=k), nn.Linear(d, m)
    x = torch.randn(n, d, requires_grad=mode == "train")
    upstream = torch.randn(n, m)

    def runner(layer):
        return inference(layer, x) if mode == "inference" else step(layer, x, upstream)

    times = medians(
        {
            "dense": runner(dense),
            "materialised": forced(runner(half), False),
            "factored": forced(runner(half), True),
        }
    )
    with torch.set_grad_enabled(mode != "inference"):
        picks = _products.prefers_factored(x, half.units)
    return {
        "n": n, "d": d, "m": m, "k": k, "mode": mode,
        "dense_ms": round(times["dense"] * 1e3, 4),
        "materialised": round(times["materialised"] / times["dense"], 3),
        "factored": round(times["factored"] / times["dense"], 3),
        "rule": "factored" if picks else "materialised",
    }  # fmt: skip


def main() -> None:
    rows = []
    print(
        f"{'n':>6}{'d':>6}{'m':>6}{'k':>5}  {'dense ms':>9}{'material.':>10}{'factored':>9}  rule"
    )
    for mode in MODES:
        print(mode)
        for shape in SHAPES:
            row = measure(*shape, mode)
            rows.append(row)
            best = min(row["materialised"], row["factored"])
            lost = row[row["rule"]] / best - 1
            print(
                f"{row['n']:6}{row['d']:6}{row['m']:6}{row['k']:5}  {row['dense_ms']:9.3f}"
                f"{row['materialised']:10.2f}{row['factored']:9.2f}  {row['rule']}"
                + (f" (+{lost:.0%})" if lost > 0.03 else ""),
                flush=True,
            )
    lost = [row[row["rule"]] / min(row["materialised"], row["factored"]) for row in rows]
    print(f"the rule's mean time over the faster way's: {sum(lost) / len(lost):.3f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
