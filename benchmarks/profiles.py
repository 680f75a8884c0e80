"""Where the time of a step goes where a half layer misses its target: torch.profiler's shares.

    python benchmarks/profiles.py

A 1024-4096 layer in bfloat16, and the lab's CIFAR-10 networks, dense and half. Shares are of the
processor's own time in each operation; JSON beside.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import halfnet
from halfnet._engine._training import Training
from halfnet.lab import _run, data, specs

RESULTS = Path(__file__).parent / "results" / "profiles.json"
STEPS, SHOWN = 8, 8


def layer_step(layer: nn.Module) -> Callable[[], None]:
    x = torch.randn(2048, 1024, dtype=torch.bfloat16, requires_grad=True)
    upstream = torch.randn(2048, 4096, dtype=torch.bfloat16)
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)

    def run() -> None:
        x.grad = None
        optimizer.zero_grad()
        layer(x).backward(upstream)
        optimizer.step()

    return run


def network_step(name: str) -> Callable[[], None]:
    paper = specs.paper()
    cifar = data.load("cifar10", progress=False)
    row, recipe = paper.table("cifar10").row(name), paper.preset("paper").recipe("cifar10")
    model = specs.build(row, (3, 32, 32), 10, seed=0, init=recipe.init)
    images, labels = cifar.train_images[:1280], cifar.train_labels[:1280]
    return Training([model], recipe, images, labels).run_epoch


def shares(run: Callable[[], object]) -> dict[str, float]:
    """Return the operations that take most, in milliseconds a run."""
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(STEPS):
            run()
    events = sorted(profiled.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    found = {event.key: event.self_cpu_time_total / STEPS / 1e3 for event in events[:SHOWN]}
    return {key: round(ms, 2) for key, ms in (found | {"all": total / STEPS / 1e3}).items()}


def main() -> None:
    bfloat16 = {"dtype": torch.bfloat16}
    cases = {
        "bfloat16 2,048 x 1,024 -> 4,096, dense": layer_step(nn.Linear(1024, 4096, **bfloat16)),
        "bfloat16 2,048 x 1,024 -> 4,096, half": layer_step(
            halfnet.HalfLinear(1024, 4096, rank=32, **bfloat16)
        ),
        "CIFAR-10, ten batches, Full-Full": network_step("Full-Full"),
        "CIFAR-10, ten batches, Full-Half k=32": network_step("Full-Half k=32"),
    }
    found = {}
    for name, run in cases.items():
        found[name] = shares(run)
        print(name)
        for key, ms in found[name].items():
            print(f"  {ms:9.2f} ms  {key}")
    found["provenance"] = _run.versions() | {"commit": _run.commit()}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
