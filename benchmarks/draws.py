"""How long it takes to draw, beside torch.randn.

python benchmarks/draws.py
"""

import json
from pathlib import Path

import torch

from halfnet import _draws
from halfnet.lab._timing import medians

RESULTS = Path(__file__).parent / "results" / "draws.json"
SHAPES = [(64, 784), (256, 8192), (1024, 1024), (4096, 4096)]
ORTHOGONAL = [(64, 16), (256, 48), (4096, 64), (1024, 512)]


def main() -> None:
    rows = []
    print(f"{'draw':>12}{'units':>7}{'width':>7}{'ms':>10}{'torch.randn':>13}{'ratio':>7}")
    for kind, shapes in (("normal", SHAPES), ("orthogonal", ORTHOGONAL)):
        for units, width in shapes:
            times = medians(
                {
                    "draw": lambda k=kind, u=units, w=width: _draws.KINDS[k](1, _draws.EPS, u, w),
                    "randn": lambda u=units, w=width: torch.randn(u, w),
                },
                least=3,
            )
            row = {
                "draw": kind, "units": units, "width": width,
                "ms": round(times["draw"] * 1e3, 3), "randn_ms": round(times["randn"] * 1e3, 3),
                "ratio": round(times["draw"] / times["randn"], 1),
            }  # fmt: skip
            rows.append(row)
            print(
                f"{kind:>12}{units:7}{width:7}{row['ms']:10.2f}{row['randn_ms']:13.2f}"
                f"{row['ratio']:7.1f}",
                flush=True,
            )
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
