"""Inference with kept weights: a half layer inside `halfnet.frozen` beside nn.Linear.

    python benchmarks/frozen.py

Results go to benchmarks/results/frozen.json.
"""

import json
from functools import partial
from pathlib import Path

import torch
from _timing import medians
from torch import nn

import halfnet

RESULTS = Path(__file__).parent / "results" / "frozen.json"
SHAPES = [  # rows, d, m, k
    (1, 784, 64, 16), (128, 784, 64, 16), (128, 2304, 64, 8), (128, 8192, 256, 32),
    (512, 1024, 4096, 32), (2048, 768, 3072, 16),
]  # fmt: skip


@torch.no_grad()
def main() -> None:
    results = []
    for rows, d, m, k in SHAPES:
        x, dense = torch.randn(rows, d), nn.Linear(d, m)
        layers = {
            "dense": dense,
            "folded": halfnet.fold_(halfnet.HalfLinear(d, m, k)),
            "half": halfnet.HalfLinear(d, m, k),
            "frozen": halfnet.HalfLinear(d, m, k),
            "frozen, no noise": halfnet.HalfLinear(d, m, k, noise="none"),
        }
        with halfnet.frozen(layers["frozen"]), halfnet.frozen(layers["frozen, no noise"]):
            calls = {name: partial(layer, x) for name, layer in layers.items()}
            times = medians(calls, seconds=1.0, least=15)
        ratios = {name: round(time / times["dense"], 3) for name, time in times.items()}
        results.append({"rows": rows, "d": d, "m": m, "k": k, "ratios": ratios})
        print(results[-1], flush=True)
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")


if __name__ == "__main__":
    main()
