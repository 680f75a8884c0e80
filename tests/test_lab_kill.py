"""Real runs in processes of their own, killed or interrupted, and what comes of it.

HALFNET_KILLS sets how many kills there are, 5 without it.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import lab_rows
import pytest

from halfnet.lab import _results

KILLS = int(os.environ.get("HALFNET_KILLS", "5"))
# Many short epochs: a fifth of the time passes while checkpoints are written.
SPECS = lab_rows.SPECS.replace("epochs = 3", "epochs = 60")
PATIENCE = 120  # seconds, on a machine with much else to do

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs groups of processes")


class Run:
    """`halfnet reproduce` of rows side by side, in a group of processes of its own."""

    def __init__(self, folder, results, *rows):
        self.results = folder / results
        command = [
            *(
                sys.executable,
                "-m",
                "halfnet",
                "reproduce",
                "--specs",
                lab_rows.write(folder, SPECS),
            ),
            *("--preset", "small", "--seeds", "2", "--jobs", "2", "--results", self.results),
            *(["--rows", *rows] if rows else []),
        ]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "HALFNET_CACHE": str(folder / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ends_within(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def output(self):
        """Wait for the process and all that it started, and return what they printed.

        Its output does not end before theirs: a worker that outlives it is a failure.
        """
        return self.process.communicate(timeout=PATIENCE)

    def kill(self, *, workers):
        if workers:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        return self.output()

    def numbers(self):
        paths = sorted(self.results.rglob("*.json"))
        return {path.name: lab_rows.numbers(path) for path in paths}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The numbers of a run that nothing disturbed, and the seconds that it took."""
    start = time.monotonic()
    run = Run(tmp_path_factory.mktemp("whole"), "results")
    out, err = run.output()
    assert run.process.returncode == 0, err
    assert err == ""
    assert len(out.splitlines()) == 4
    found = run.numbers()
    assert set(found) == {"k=1.json", "MLP-h=8.json"}
    return found, time.monotonic() - start


def test_a_run_that_is_killed_at_random_moments_ends_with_the_same_numbers(whole, tmp_path):
    wanted, seconds = whole
    moments = random.Random(KILLS)
    kills = runs = 0
    while True:
        run = Run(tmp_path, f"results{runs}")
        # Beyond the time of a whole run now and then, so that some runs come to their end.
        if kills < KILLS and not run.ends_within(moments.uniform(0, 1.1 * seconds)):
            run.kill(workers=kills % 3 != 0)  # those that are left must end by themselves
            kills += 1
            continue
        _, err = run.output()
        assert run.process.returncode == 0, err
        assert "corrupt" not in err
        assert run.numbers() == wanted
        assert not list(tmp_path.rglob("*.corrupt"))
        runs += 1
        if kills == KILLS:
            break


@pytest.mark.parametrize("begun", [False, True], ids=["at its start", "while it trains"])
def test_an_interrupt_ends_a_run_with_one_line_and_no_process_left(begun, tmp_path):
    run = Run(tmp_path, "results", "k=1")
    assert run.process.stdout.readline().startswith("table")  # its workers are started next
    until = time.monotonic() + (PATIENCE if begun else 0.5)
    while time.monotonic() < until and not (begun and list(tmp_path.rglob("*.checkpoint"))):
        time.sleep(0.01)
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does for Ctrl-C
    _, err = run.output()
    assert run.process.returncode == 130
    assert err == "\nhalfnet reproduce: interrupted\n"


def test_a_row_whose_process_is_killed_is_said_to_be(tmp_path):
    run = Run(tmp_path, "results", "k=1")
    while not list(tmp_path.rglob("*.checkpoint")):
        time.sleep(0.01)
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    for child in children:
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
            break
    out, err = run.output()
    assert run.process.returncode == 1
    assert len(re.findall("failed: a process was killed, .*run it again", out)) == 1
    assert err == ""


def test_a_killed_write_leaves_the_old_file(tmp_path):
    """Ten times, a process that does nothing but write is killed in the middle of it."""
    path = tmp_path / "file"
    code = (
        "import sys; from pathlib import Path; from halfnet.lab._results import write_atomically\n"
        "while True:\n"
        " for letter in b'ab':\n"
        "  write_atomically(Path(sys.argv[1]), bytes([letter]) * 9**7)"
    )
    moments = random.Random(0)
    process = subprocess.Popen([sys.executable, "-c", code, path])
    while not path.exists():
        time.sleep(0.01)
    time.sleep(moments.random() / 10)
    process.kill()
    process.wait()
    content = path.read_bytes()
    assert content in (b"a" * 9**7, b"b" * 9**7)
    _results.write_atomically(path, b"new")
    assert [path] == list(tmp_path.iterdir())
