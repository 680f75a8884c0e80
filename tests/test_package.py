"""What `import halfnet` brings, and what it doesn't."""

import subprocess
import sys
from importlib import metadata

import halfnet


def test_public_names():
    assert all(hasattr(halfnet, name) for name in halfnet.__all__)
    assert len(halfnet.__all__) == len(set(halfnet.__all__)) <= 20
    assert metadata.version("halfnet") == halfnet.__version__


def test_the_core_imports_torch_numpy_and_safetensors_only():
    code = """
import sys
import torch, numpy, safetensors.torch
before = set(sys.modules)
import halfnet
new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(sorted(new - {"torch", "numpy", "safetensors"}))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['halfnet']"
