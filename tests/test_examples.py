"""The examples, made short: `make demo` runs the first."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch


def load(name):
    path = Path(__file__).parent.parent / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_digits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo = load("digits")
    monkeypatch.setattr(demo, "SEEDS", 2)
    monkeypatch.setattr(demo, "EPOCHS", 3)
    demo.main()
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if "±" in line]
    names = [row.split("  ")[0].strip() for row in rows]
    assert names[:2] == ["linear", "dense, h=8"]
    assert names[-1].startswith("half, k=16")
    assert len(rows) == 12
    accuracies = [float(row.split("±")[0].split()[-1]) for row in rows]
    assert min(accuracies) > 30  # ten classes: far above chance after three epochs
    assert (tmp_path / "build" / "digits.png").stat().st_size > 10_000


def _tiny_cifar(name):
    assert name == "cifar10"
    labels = np.arange(48, dtype=np.uint8) % 2
    images = np.zeros((48, 3, 32, 32), np.uint8)  # red ones and blue ones
    images[labels == 0, 0], images[labels == 1, 2], images[:, 1] = 200, 200, np.arange(32)
    return SimpleNamespace(
        train_images=images, train_labels=labels, test_images=images, test_labels=labels
    )


@pytest.fixture
def transformer(monkeypatch):
    example = load("vision_transformer")
    monkeypatch.setattr(example.data, "load", _tiny_cifar)
    for name, value in {"WIDTH": 16, "DEPTH": 1, "BATCH": 16}.items():
        monkeypatch.setattr(example, name, value)
    monkeypatch.setattr(
        example, "comparison", lambda: [example.Kind(), example.Kind("half", 2),
                                        example.Kind("lowrank", 2, "attention")]
    )  # fmt: skip
    return example


def test_vision_transformer(transformer, tmp_path, monkeypatch, capsys):
    arguments = ["--seeds", "0", "1", "--epochs", "2", "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["vision_transformer.py", *arguments])
    transformer.main()
    names = ["dense", "half-k=2", "lowrank-attention-k=2"]
    assert {path.stem for path in tmp_path.iterdir()} == {f"{n}-{s}" for n in names for s in (0, 1)}
    result = json.loads((tmp_path / "half-k=2-0.json").read_text())
    assert len(result["loss"]) == 2
    assert 0 <= result["test"] <= 100
    assert len(capsys.readouterr().out.splitlines()) == 6
    transformer.main()
    assert capsys.readouterr().out == ""  # each run is done once


def test_vision_transformers_learn(transformer):
    torch.set_num_threads(1)
    result = transformer.train(transformer.Kind("half", 4), rate=1e-2, seed=0, epochs=5)
    assert result["loss"][-1] < 0.5 * result["loss"][0]
    assert result["test"] > 90


def test_vision_transformers_of_one_size(transformer, monkeypatch):
    monkeypatch.setattr(transformer, "WIDTH", 96)
    learned = {
        (name, where): sum(
            p.numel()
            for p in transformer.VisionTransformer(transformer.Kind(name, 16, where)).parameters()
        )
        for name in ("half", "lowrank", "dense")
        for where in ("all", "attention", "feedforward")
    }
    for where in ("all", "attention", "feedforward"):
        assert learned["half", where] == pytest.approx(learned["lowrank", where], rel=0.02)
        assert learned["half", where] < 0.8 * learned["dense", where]
    assert learned["half", "all"] < learned["half", "attention"]


def test_compress(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = load("compress")
    monkeypatch.setattr(example, "EPOCHS", 5)
    monkeypatch.setattr(example, "FINE_TUNING", 2)
    monkeypatch.setattr(example, "RANKS", (8,))
    example.main()
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.count("%") == 2]
    assert [row[0] for row in rows] == ["fresh", "moments", "lstsq"]
    assert all(float(row[-1].rstrip("%")) > 60 for row in rows)  # ten classes
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "build/compress").iterdir()}
    assert sizes["half.safetensors"] < sizes["folded.safetensors"] / 3


def test_char_gpt(monkeypatch, capsys):
    torch.set_num_threads(1)
    example = load("char_gpt")
    for name, value in {"WIDTH": 16, "CONTEXT": 16, "BATCH": 8, "STEPS": 30, "RANK": 2}.items():
        monkeypatch.setattr(example, name, value)
    example.main()
    lines = capsys.readouterr().out.splitlines()
    learned = [int(line.split()[1].replace(",", "")) for line in lines[1:3]]
    bits = [float(line.split()[3]) for line in lines[1:3]]
    assert learned[1] < learned[0]
    assert max(bits) < 6.5  # 103 letters: 6.7 bits without learning
    assert lines[3].startswith("The ")
