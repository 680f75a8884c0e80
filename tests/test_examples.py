"""The examples, made short: `make demo` runs the first."""

import importlib.util
from pathlib import Path

import torch


def load(name):
    path = Path(__file__).parent.parent / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
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
