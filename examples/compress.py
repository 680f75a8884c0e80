"""A trained network made smaller: its large layer becomes a half layer, and learns a little more.

Prints, for each way to start, the accuracy on held-out digits before and after fine-tuning, and
writes the smallest network to a file and its folded form to another.
"""

import copy
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

import halfnet

UNITS, RANKS, EPOCHS, FINE_TUNING = 256, (2, 8), 30, 15
FOLDER = Path("build/compress")


def digits():
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=0.3, random_state=0, stratify=labels)
    x, x_test, y, y_test = (torch.from_numpy(part) for part in split)
    return (x.float(), y), (x_test.float(), y_test)


def train(model, data, epochs):
    x, y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model, data):
    return 100 * (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data, test = digits()
    dense = nn.Sequential(nn.Linear(64, UNITS), nn.ReLU(), nn.Linear(UNITS, 10))
    train(dense, data, EPOCHS)
    print(f"{halfnet.summary(dense)}\n\ndense: {accuracy(dense, test):.1f}%\n")
    print("start    rank  learned  at once  fine-tuned")
    for rank in RANKS:
        for start in ("fresh", "moments", "lstsq"):
            model = copy.deepcopy(dense)
            halfnet.convert_(model, rank, include="0", init=start, seed=0)
            before = accuracy(model, test)
            train(model, data, FINE_TUNING)
            learned = sum(p.numel() for p in model.parameters())
            after = accuracy(model, test)
            print(f"{start:8}{rank:5}{learned:9,}{before:8.1f}%{after:11.1f}%")
    FOLDER.mkdir(parents=True, exist_ok=True)
    halfnet.save(model, FOLDER / "half.safetensors")
    halfnet.save(halfnet.fold_(model), FOLDER / "folded.safetensors")  # torch's own layers
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.iterdir())}
    print("\n" + "\n".join(f"{name}: {size:,} bytes" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
