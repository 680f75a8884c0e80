"""Binary layers: the plain straight-through gradient against the clipped one, on validation data.

    python benchmarks/straight_through.py

Plain passes the gradient of sign(r) on as it is. Clipped passes it only where |r| <= 1, as is
usual for binary networks. Scaled clips where |r| is over its coordinate's standard deviation, so
that the rule doesn't depend on the scale of B and sigma, which the sign ignores.
"""

import argparse
import itertools
import json
from pathlib import Path

import torch
from initial_values import make_task, network, validation_error
from torch import Tensor

from halfnet import _products

RESULTS = Path(__file__).parent / "results" / "straight_through.json"


def clipped(r: Tensor) -> Tensor:
    return _through(r, r.detach().abs() <= 1)


def scaled(r: Tensor) -> Tensor:
    return _through(r, r.detach().abs() <= r.detach().square().mean(0).sqrt())


def _through(r: Tensor, passes: Tensor) -> Tensor:
    return PLAIN(torch.where(passes, r, r.detach()))


PLAIN = _products.signs
FORMS = {"plain": PLAIN, "clipped": clipped, "scaled": scaled}
# sigma and B at the start: the paper's, three default candidates
CONSTANTS = {
    "paper": (0.0, 0.0, 0.0),
    "0.01, 0.003": (0.01, 0.003, 1.0),
    "0.03, 0.01": (0.03, 0.01, 1.0),
    "0.3, 0.1": (0.3, 0.1, 1.0),
    "1, 0.1": (1.0, 0.1, 1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in ("mnist", "fashion-mnist"):
        task = make_task(name, train=args.train, epochs=args.epochs)
        for init, rank, lr in itertools.product(CONSTANTS, (4, 16), (1e-3, 3e-3)):
            for form, signs in FORMS.items():
                _products.signs = signs
                errors = []
                for seed in range(args.seeds):
                    torch.manual_seed(seed)
                    model = network(task, "binary", rank, CONSTANTS[init])
                    errors.append(round(validation_error(task, model, lr, seed), 3))
                rows.append(
                    {"task": name, "init": init, "rank": rank, "lr": lr, "form": form,
                     "errors": errors}
                )  # fmt: skip
                print(rows[-1], flush=True)
                RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
