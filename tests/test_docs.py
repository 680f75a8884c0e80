"""What people read is run: every Python block of the README and docs, every docstring's example."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import halfnet

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    names = {"__name__": "__main__"}  # the blocks of a page build on each other
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        code = compile("\n" * line + match.group(1), str(page), "exec")
        exec(code, names)


def test_the_numbers_in_the_readmes_first_block():
    names = {}
    code = BLOCK.search((ROOT / "README.md").read_text()).group(1)
    exec(code, names)
    count = sum(parameter.numel() for parameter in names["model"].parameters())
    assert f"{count:,}" in code
    dense = nn.Sequential(nn.Linear(784, 64), nn.Linear(64, 10))
    assert f"{sum(parameter.numel() for parameter in dense.parameters()):,}" in code
    assert names["model"](torch.randn(128, 784)).shape == (128, 10)


@pytest.mark.parametrize("name", halfnet.__all__)
def test_every_public_name_is_documented_with_examples_that_run(name, tmp_path, monkeypatch):
    thing = getattr(halfnet, name)
    if name == "__version__":
        return
    assert thing.__doc__
    assert f"halfnet.{name}" in (ROOT / "docs/api.md").read_text() or issubclass(thing, Exception)
    monkeypatch.chdir(tmp_path)
    halfnet.save(nn.ReLU(), "model.safetensors")
    names = {"halfnet": halfnet, "torch": torch, "nn": nn}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder(recurse=False).find(thing, name, globs=names):
        runner.run(example)
    assert runner.summarize().failed == 0


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        named = set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", page.read_text(), re.MULTILINE))
        assert {a or b for a, b in named} <= targets, page.name


def test_the_documentation_builds(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        tmp_path,
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "api" / "index.html").read_text()
    for name in halfnet.__all__:
        assert name == "__version__" or name in page
