"""The example that `make demo` runs, made short."""

import importlib.util
from pathlib import Path


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
