"""Every test starts from the same seed and leaves torch's global settings as they were."""

import numpy as np
import pytest
import torch


def pytest_generate_tests(metafunc):
    """Run a contract test that asks for `path` once for each way its layer can compute."""
    if "path" in metafunc.fixturenames and hasattr(metafunc.cls, "paths"):
        metafunc.parametrize("path", metafunc.cls.paths, indirect=True)


@pytest.fixture(autouse=True)
def _fixed_world():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    np.random.seed(0)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
