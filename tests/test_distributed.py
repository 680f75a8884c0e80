"""Two processes that train one half model: what they agree on, and what they send."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import halfnet


def test_two_processes_by_ddp(tmp_path):
    worker = Path(__file__).parent / "ddp_worker.py"
    processes = [
        subprocess.Popen(
            [sys.executable, worker, str(rank), tmp_path], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first["seeds before"] != second["seeds before"]
    for agreed in ("checksums", "draws", "weights"):
        assert first[agreed] == second[agreed], agreed
    for report in (first, second):
        assert "expected the same half layers in every process" in report["refused"]
        # z and eps aren't there
        assert report["buffers sent"] == [
            "1.num_batches_tracked", "1.running_mean", "1.running_var",
        ]  # fmt: skip
        assert report["gradient bytes"] == report["learned bytes"]
        assert report["learned bytes"] < report["dense bytes"] / 5
    assert not first["still sevens"]
    assert second["still sevens"]


def test_bad_input():
    with pytest.raises(halfnet.HalfnetError, match="model: expected a torch module, got int"):
        halfnet.sync_(3)
    with pytest.raises(ValueError, match=r"expected torch\.distributed with a process group, got"):
        halfnet.sync_(nn.Sequential(halfnet.HalfLinear(3, 2, rank=1)))


def test_a_group_of_one(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    try:
        layer = halfnet.HalfLinear(3, 2, rank=1)
        seed, eps = layer.seed, layer.eps.clone()
        assert halfnet.sync_(layer) is layer
        assert layer.seed == seed
        assert torch.equal(layer.eps, eps)
        assert layer._ddp_params_and_buffers_to_ignore == ["eps", "z"]
        with pytest.raises(ValueError, match="expected one with half layers, got ReLU"):
            halfnet.sync_(nn.ReLU())
        with pytest.raises(ValueError, match="expected a half layer with draws, got one on the me"):
            halfnet.sync_(halfnet.HalfLinear(3, 2, rank=1, device="meta"))
    finally:
        torch.distributed.destroy_process_group()
