"""The parameter counts of all 72 rows of the paper's nine tables, built from the layers."""

import pytest
from torch import nn

from halfnet import HalfConv2d, HalfLinear

RANDOM = {"rank": 0, "noise": "fixed", "affine": False}
SCALE_SHIFT = {"rank": 0, "noise": "fixed"}
SIGMA = {"rank": 0}


def rank(k):
    return {"rank": k}


def lp(*front, d=784):
    return nn.Sequential(*front, nn.Linear(d, 10))


def mlp(*widths, front=(), d=784):
    sizes = [d, *widths, 10]
    return nn.Sequential(*front, *map(nn.Linear, sizes, sizes[1:]))


def half(options, *, widths=(64,), front=(), d=784, binary=False):
    sizes = [d, *widths]
    layers = [
        HalfLinear(a, b, **options, binary=binary) for a, b in zip(sizes, widths, strict=False)
    ]
    return nn.Sequential(*front, *layers, nn.Linear(widths[-1], 10))


def front():
    return (nn.Conv2d(1, 16, 5),)


def cifar(conv, full):
    return nn.Sequential(conv, full, nn.Linear(256, 10))


def full_conv():
    return nn.Conv2d(3, 32, 5)


def one_hidden(extra):
    rows = {
        "LP": (lp, 7850), "MLP 10": (lambda: mlp(10), 7960), "MLP 20": (lambda: mlp(20), 15910),
        "MLP 64": (lambda: mlp(64), 50890), "random": (lambda: half(RANDOM), 650),
    }  # fmt: skip
    rows |= (
        {
            "u, u0": (lambda: half(SCALE_SHIFT), 778),
            "sigma": (lambda: half(SIGMA), 1562),
        }
        if extra
        else {}
    )
    counts = {1: 2346, 2: 3130, 4: 4698, 8: 7834, 16: 14106}
    return rows | {f"k={k}": (lambda k=k: half(rank(k)), n) for k, n in counts.items()}


def convolutional():
    rows = {
        "LP": (lambda: lp(*front(), d=2304), 23466),
        "MLP 10": (lambda: mlp(10, front=front(), d=2304), 23576),
        "MLP 20": (lambda: mlp(20, front=front(), d=2304), 46726),
        "MLP 64": (lambda: mlp(64, front=front(), d=2304), 148586),
        "random": (lambda: half(RANDOM, front=front(), d=2304), 1066),
    }
    counts = {1: 5802, 2: 8106, 4: 12714, 8: 21930}
    return rows | {
        f"k={k}": (lambda k=k: half(rank(k), front=front(), d=2304), n) for k, n in counts.items()
    }


def two_hidden():
    # The paper counts the second random layer as frozen too.
    counts = {2: 3450, 4: 5146, 8: 8538, 16: 15322, 32: 28890, 48: 42458}
    rows = {"random": (lambda: half(RANDOM, widths=(64, 64)), 650)}
    rows |= {f"k={k}": (lambda k=k: half(rank(k), widths=(64, 64)), n) for k, n in counts.items()}
    return rows | {"MLP": (lambda: mlp(64, 64), 55050)}


def binary():
    rows = {"random": (lambda: half(RANDOM, binary=True), 650)}
    counts = {2: 3130, 4: 4698, 8: 7834, 16: 14106}
    return rows | {f"k={k}": (lambda k=k: half(rank(k), binary=True), n) for k, n in counts.items()}


def cifar10():
    rows = {"Full-Full": (lambda: cifar(full_conv(), nn.Linear(8192, 256)), 2102410)}
    counts = {8: 79242, 16: 144778, 32: 275850, 48: 406922}
    rows |= {
        f"Full-Half k={k}": (lambda k=k: cifar(full_conv(), HalfLinear(8192, 256, rank=k)), n)
        for k, n in counts.items()
    }
    rows["Half-Half"] = (
        lambda: cifar(HalfConv2d(3, 32, 5, rank=8), HalfLinear(8192, 256, rank=32)),
        274157,
    )
    return rows


TABLES = {
    "MNIST": one_hidden(extra=True),
    "MNIST, convolutional": convolutional(),
    "MNIST, two layers": two_hidden(),
    "MNIST, binary": binary(),
    "Fashion-MNIST": one_hidden(extra=False),
    "Fashion-MNIST, convolutional": convolutional(),
    "Fashion-MNIST, two layers": two_hidden(),
    "Fashion-MNIST, binary": binary(),
    "CIFAR-10": cifar10(),
}
ROWS = [(table, name, *row) for table, rows in TABLES.items() for name, row in rows.items()]


def test_there_are_72_rows_in_nine_tables():
    assert (len(TABLES), len(ROWS)) == (9, 72)


@pytest.mark.parametrize(
    ("build", "count"),
    [row[2:] for row in ROWS],
    ids=[f"{table}: {name}" for table, name, *_ in ROWS],
)
def test_parameter_count(build, count):
    assert sum(parameter.numel() for parameter in build().parameters()) == count
