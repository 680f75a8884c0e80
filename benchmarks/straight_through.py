"""Binary layers: which gradient to pass straight through the sign, on validation data.

    python benchmarks/straight_through.py

Plain passes the gradient of sign(r) on as it is. Clipped passes it only where |r| <= 1, as is
usual for binary networks. "c std" passes it where |r| is at most c times its coordinate's
standard deviation, which doesn't depend on the scale of B and sigma, as the sign does not.
"""

import itertools
import json
from functools import partial
from pathlib import Path

import torch
from initial_values import make_task, network, validation_error
from torch import Tensor

from halfnet import _products

RESULTS = Path(__file__).parent / "results" / "straight_through.json"


def signs(r: Tensor, std: Tensor, *, limit: float, relative: bool) -> Tensor:
    size = r.detach().abs() / (std if relative else 1)
    sign = torch.where(r.detach() >= 0, 1.0, -1.0)
    return torch.where(size <= limit, r - r.detach(), 0) + sign


FORMS = {
    "plain": partial(signs, limit=float("inf"), relative=False),
    "clipped": partial(signs, limit=1, relative=False),
    **{f"{c:g} std": partial(signs, limit=c, relative=True) for c in (0.1, 0.2, 0.35, 0.5, 1, 2)},
}
# sigma and B at the start, and u x sqrt(fan-in); zeros are the paper's
CONSTANTS = [(0.0, 0.0, 0.0), (0.003, 0.001, 1.0), (0.01, 0.003, 1.0), (0.03, 0.01, 1.0)]


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in ("mnist", "fashion-mnist"):
        task = make_task(name, train=20_000, epochs=5)
        for constants, rank, lr in itertools.product(CONSTANTS, (4, 16), (1e-3, 3e-3)):
            for form, rule in FORMS.items():
                _products.signs = rule
                torch.manual_seed(0)
                model = network(task, "binary", rank, constants)
                error = round(validation_error(task, model, lr, 0), 3)
                sigma, B, _ = constants
                rows.append(
                    {"task": name, "sigma": sigma, "B": B, "rank": rank, "lr": lr, "form": form,
                     "error": error}
                )  # fmt: skip
        RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    for form in FORMS:
        errors = [row["error"] for row in rows if row["form"] == form]
        print(f"{form:>9}: mean validation error {sum(errors) / len(errors):.2f}%")


if __name__ == "__main__":
    main()
