"""A small vision transformer on CIFAR-10 whose attention and feed-forward are half layers.

    python examples/vision_transformer.py             # each model, three seeds: an hour of one core
    python examples/vision_transformer.py --kinds half --seeds 0 --epochs 1
    python examples/vision_transformer.py --validate  # the search for rates and initial values

Beside it stand the same network with dense layers and with W = UV of as many learned numbers. Each
run leaves one JSON in the results' folder and is not repeated while that is there.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import halfnet
from halfnet._engine._batches import Batches
from halfnet._engine._low_rank import LowRank
from halfnet.lab import _run, data

RESULTS = Path("benchmarks/results/vision_transformer")
WIDTH, DEPTH, HEADS, PATCH, BATCH, EPOCHS = 96, 4, 4, 8, 128, 6
RATES = {"dense": 1e-3, "half": 2e-3, "lowrank": 2e-3}  # chosen on validation data, by --validate


@dataclass(frozen=True)
class Kind:
    """Which projections are replaced, and by what: W = UV has as many numbers as half at rank k."""

    name: str = "dense"  # or "half" or "lowrank"
    rank: int = 0
    where: str = "all"  # or "attention" or "feedforward"
    u: float = 0.5  # initial scale of a half layer's units, chosen on validation data

    def __str__(self) -> str:
        place = "" if self.where == "all" else f"-{self.where}"
        return self.name if self.name == "dense" else f"{self.name}{place}-k={self.rank}"

    def linear(self, inputs: int, outputs: int, part: str) -> nn.Module:
        """Return a layer for a projection of this part of a block."""
        if self.name == "dense" or self.where not in ("all", part):
            return nn.Linear(inputs, outputs)
        if self.name == "half":
            init = halfnet.Init(u=self.u)
            return halfnet.HalfLinear(inputs, outputs, rank=self.rank, init=init)
        learned = inputs * self.rank + inputs + 2 * outputs  # by the half layer of this rank
        return LowRank(inputs, outputs, round((learned - outputs) / (inputs + outputs)))


class Block(nn.Module):
    """Attention and a feed-forward network, each beside a residual connection."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = kind.linear(WIDTH, 3 * WIDTH, "attention")
        self.out = kind.linear(WIDTH, WIDTH, "attention")
        self.up = kind.linear(WIDTH, 2 * WIDTH, "feedforward")
        self.down = kind.linear(2 * WIDTH, WIDTH, "feedforward")

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens (n, tokens, width), changed."""
        n, tokens, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(n, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        # in float32: the backward pass of torch's own attention in bfloat16 is 15 times slower
        with torch.autocast("cpu", enabled=False):
            mixed = F.scaled_dot_product_attention(*heads.float().unbind())
        x = x + self.out(mixed.transpose(1, 2).reshape(n, tokens, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Patches to tokens, blocks, and the tokens' mean to ten classes."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.patches = nn.Linear(3 * PATCH**2, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn((32 // PATCH) ** 2, WIDTH))
        self.blocks = nn.Sequential(*(Block(kind) for _ in range(DEPTH)))
        self.norm, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the classes' scores for images (n, 3, 32, 32)."""
        patches = F.unfold(images, PATCH, stride=PATCH).mT
        tokens = self.blocks(self.patches(patches) + self.positions)
        return self.classes(self.norm(tokens).mean(1))


def train(kind: Kind, rate: float, seed: int, epochs: int, *, validate: bool = False) -> dict:
    """Train a network; return how well it does on the test set, or on images kept from training."""
    cifar = data.load("cifar10")
    images, labels = cifar.train_images, cifar.train_labels
    held, truth = cifar.test_images, cifar.test_labels
    if validate:
        held, truth = images[-5_000:], labels[-5_000:]
        images, labels = images[:20_000], labels[:20_000]
    torch.manual_seed(seed)
    model = VisionTransformer(kind)
    batches = Batches(
        images, labels, size=BATCH, augmentation="flip-crop", scaling="standard", seed=seed
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(  # 5% warm-up, then half a cosine
        optimizer,
        lambda t: min((t + 1) / (0.05 * steps), 0.5 + 0.5 * math.cos(math.pi * t / steps)),
    )
    start, losses = time.process_time(), []
    for epoch in range(epochs):
        total = 0.0
        for x, y, _ in batches.epoch(epoch):
            with torch.autocast("cpu", torch.bfloat16):
                scores = model(x)
            loss = F.cross_entropy(scores.float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() / len(batches)
        losses.append(round(total, 4))
    seconds = time.process_time() - start
    model.eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        parts = [
            model(batches.pixels(part)).argmax(1) for part in torch.from_numpy(held).split(500)
        ]
    accuracy = 100 * (torch.cat(parts).numpy() == truth).mean()
    learned = sum(parameter.numel() for parameter in model.parameters())
    return {
        "kind": str(kind), **vars(kind), "rate": rate, "seed": seed, "epochs": epochs,
        "learned": learned, "validation" if validate else "test": round(float(accuracy), 2),
        "loss": losses, "cpu_seconds": round(seconds, 1),
    }  # fmt: skip


def comparison() -> list[Kind]:
    """Return what is trained: the dense network, and three ranks a kind."""
    return [Kind(), *(Kind(name, rank) for rank in (16, 4, 48) for name in ("half", "lowrank"))]


def search() -> list[tuple[Kind, float]]:
    """Return what is tried on validation data: rates for each kind, and a half layer's u."""
    kinds = [Kind(), Kind("lowrank", 16), Kind("half", 16), Kind("half", 16, u=2.0)]
    return [(kind, rate) for rate in (1e-3, 2e-3, 4e-3) for kind in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["dense", "half", "lowrank"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--validate", action="store_true", help="3 short epochs of one seed a rate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.results.mkdir(parents=True, exist_ok=True)
    if options.validate:
        runs = [(kind, rate, 0, 3) for kind, rate in search()]
    else:
        runs = [
            (kind, RATES[kind.name], seed, options.epochs)
            for seed in options.seeds
            for kind in comparison()
        ]
    for kind, rate, seed, epochs in runs:
        name = f"validation-{kind}-u={kind.u}-{rate}" if options.validate else f"{kind}-{seed}"
        path = options.results / f"{name}.json"
        if kind.name not in options.kinds or path.exists():
            continue
        result = train(kind, rate, seed, epochs, validate=options.validate)
        score = result.get("validation", result.get("test"))
        print(f"{name:40}{result['learned']:8,} learned  {score:5.2f}%", flush=True)
        result |= {"versions": _run.versions(), "commit": _run.commit()}
        path.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
