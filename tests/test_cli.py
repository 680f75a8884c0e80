"""The commands as a user has them: what they print, write and return."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import lab_rows
import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  slow to import: not within a test
import torch
from PIL import Image
from report_results import result
from report_results import write as write_results
from torch import nn

import halfnet
from halfnet import cli
from halfnet._engine import _training
from halfnet.cli import main
from halfnet.exceptions import HalfnetError
from halfnet.lab import _run, _schedule, data, specs
from halfnet.lab._inputs import Layout

COMMANDS = cli._COMMANDS


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    torch.set_num_threads(1)


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its code and what it printed."""

    def run(*arguments, code=0):
        assert main(arguments) == code
        return capsys.readouterr()

    return run


@pytest.fixture
def fails(run):
    """Return a function that runs a command which must fail, and returns its one line."""

    def fails(*arguments):
        before = sorted(Path.cwd().rglob("*"))
        shown = run(*arguments, code=1)
        assert sorted(Path.cwd().rglob("*")) == before  # nothing half-written
        assert shown.out == ""
        assert shown.err.startswith(f"halfnet {arguments[0]}: ")
        assert shown.err.count("\n") == 1
        return shown.err.removeprefix(f"halfnet {arguments[0]}: ").strip()

    return fails


def points(rows=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, 2))
    return x, np.where(x[:, 0] > x[:, 1], "lower", "upper")


def write_csv(name, seed=0, labels=True):
    x, kinds = points(seed=seed)
    lines = [f"{a},{b}" + f",{kind}" * labels for (a, b), kind in zip(x, kinds, strict=True)]
    Path(name).write_text("\n".join(["east,north" + ",side" * labels, *lines, ""]))
    return name


def write_images(folder, seed=0):
    rng = np.random.default_rng(seed)
    for name, low in (("night", 0), ("noon", 150)):
        Path(folder, name).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(low, low + 100, (4, 4), dtype=np.uint8)
            Image.fromarray(pixels).save(f"{folder}/{name}/{number}.png")
    return folder


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def by_hand(model, x):
    """Return what a user's own program makes of a model's file: class names, probabilities."""
    classes = Layout.from_metadata(halfnet._checkpoint.read_metadata(model), Path(model)).classes
    with torch.inference_mode():
        probabilities = halfnet.load(model)(torch.from_numpy(x)).softmax(-1)
    return [classes[place] for place in probabilities.argmax(-1)], probabilities.numpy()


# --- The command itself ----------------------------------------------------------------------


def test_version_and_help(capsys):
    for arguments, words in (
        (["--version"], f"halfnet {halfnet.__version__}\n"),
        (["-h"], "exampl"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"example: halfnet {command} " in text
    assert "--json" in text
    example = text.split("example: halfnet ")[1].replace("'", "").split("--layers")[0].split()
    assert cli._parser().parse_args(example).command == command  # it can be understood


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["trian"],
        ["train"],
        ["train", "digits", "--epochs", "many"],
        ["data", "give"],
        ["--jso"],
    ],
)
def test_what_is_not_understood_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("usage: halfnet")
    assert shown.out == ""


def raises(error):
    def run(*args, **kwargs):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "\nhalfnet data: interrupted\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (OSError(28, "No space left on device"), 1, "halfnet data: No space left on device\n"),
        (
            PermissionError(13, "Permission denied", "a/b"),
            1,
            "halfnet data: a/b: Permission denied\n",
        ),
        (MemoryError(), 1, "halfnet data: there is not enough memory for this\n"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            1,
            "halfnet data: there is not enough memory for this\n",
        ),
    ],
)
def test_what_stops_a_command_is_one_line_and_a_code(error, code, line, run, monkeypatch):
    monkeypatch.setattr(data, "cache_folder", raises(error))
    assert run("data", "where", code=code) == ("", line)


def test_a_bug_is_no_error_of_the_users(monkeypatch):
    monkeypatch.setattr(data, "cache_folder", raises(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        main(["data", "where"])


def test_a_stdout_that_cannot_be_written(monkeypatch, capsys):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    full = Full()
    monkeypatch.setattr(sys, "stdout", full)
    assert main(["data", "where"]) == 1
    assert capsys.readouterr().err == "halfnet data: No space left on device\n"
    assert not hasattr(full, "getvalue") or full.closed


def test_a_real_process_says_its_version():
    command = [sys.executable, "-m", "halfnet", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == f"halfnet {halfnet.__version__}\n"
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_ends_training_with_130_and_nothing_written():
    write_csv("points.csv")
    # It tells of a tenth of the epochs at a time: some seconds each.
    command = [sys.executable, "-m", "halfnet", "train", "points.csv", "--epochs", "30000"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stderr.readline().startswith("epoch 3000 of 30000: loss ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("\nhalfnet train: interrupted\n")
    assert os.listdir() == ["points.csv"]


# --- train and predict -----------------------------------------------------------------------

QUICK = ("--epochs", "60", "--batch-size", "16", "--rate", "0.02")


def test_a_csv_is_learned_and_predicted(run):
    shown = run("train", write_csv("points.csv"), *QUICK, "--layers", "half(16, k=2)")
    summary = shown.out.splitlines()
    assert summary[0] == "layers    2 inputs, half(16, k=2), 2 classes"
    assert summary[1] == "learned   72 numbers; 82 if dense (88%)"
    assert re.fullmatch(r"accuracy  \d+\.\d\d% train \(54 rows\), .* \(6 rows\)", summary[2])
    assert shown.err.count("epoch ") == 10  # no bar where no terminal is

    predicted = run("predict", "model.safetensors", write_csv("new.csv", seed=1, labels=False))
    assert predicted.err == ""
    answers = [row["prediction"] for row in rows_of(predicted.out)]
    assert len(answers) == 60
    assert np.mean(np.array(answers) == points(seed=1)[1]) > 0.9


def test_predictions_are_those_of_the_loaded_model(run):
    run("train", write_csv("points.csv"), *QUICK)
    x, kinds = points(60, seed=1)
    write_csv("new.csv", seed=1)
    classes, probabilities = by_hand("model.safetensors", x.astype(np.float32))

    shown = run("predict", "model.safetensors", "new.csv", "--probabilities")
    rows = rows_of(shown.out)
    assert [row["prediction"] for row in rows] == classes
    printed = [[float(row["p(lower)"]), float(row["p(upper)"])] for row in rows]
    np.testing.assert_allclose(printed, probabilities, rtol=1e-4, atol=1e-6)
    accuracy = f"{100 * np.mean(np.array(classes) == kinds):.2f}"
    assert shown.err == f"accuracy {accuracy}% of 60 rows\n"

    record = json.loads(run("predict", "model.safetensors", "new.csv", "--json").out)
    assert record["predictions"] == classes
    assert f"{record['accuracy']:.2f}" == accuracy

    written = run("predict", "model.safetensors", "new.csv", "--output", "out.csv", "--json")
    assert json.loads(written.out)["output"] == "out.csv"
    assert [row["prediction"] for row in rows_of(Path("out.csv").read_text())] == classes


def test_training_again_gives_the_same_file(run):
    write_csv("points.csv")
    for name in ("a", "b"):
        run("train", "points.csv", *QUICK, "--output", name, "--seed", "5")
    assert Path("a").read_bytes() == Path("b").read_bytes()


def test_a_folder_of_images_is_learned_and_its_files_are_named(run):
    layers = ("--layers", "halfconv(4, 2, k=2), dense(4)")
    shown = run("train", write_images("sky"), *QUICK, *layers, "--json")
    summary = json.loads(shown.out)
    assert summary["inputs"] == [4, 4]
    assert summary["rows"] == {"train": 18, "validation": 2, "test": 0}
    assert summary["bytes"] == Path("model.safetensors").stat().st_size
    rows = rows_of(run("predict", "model.safetensors", write_images("new", seed=1)).out)
    assert [Path(row["file"]).parent.name for row in rows] == [row["prediction"] for row in rows]


def test_a_data_set_is_measured_on_its_part_to_test_on(run):
    layers = ("--layers", "half(16, k=4)", "--epochs", "20")
    summary = json.loads(run("train", "digits", *layers, "--json").out)
    assert summary["rows"]["test"] == 360
    assert summary["accuracy"]["test"] > 50
    shown = run("predict", "model.safetensors", "digits", "--output", "out.csv").out
    assert shown == (
        "360 predictions written to out.csv\n"
        f"accuracy {summary['accuracy']['test']:.2f}% of 360 rows\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.csv"], "cannot read nothing.csv: there is no such file or folder"),
        (["digit"], "unknown data set 'digit': the nearest name is 'digits'"),
        (["points.csv", "--layers", "hlaf(8, k=1)"], "half"),
        (["points.csv", "--layers", "half(8, k=9)"], "rank"),
        (["points.csv", "--rate", "-1"], "rate"),
        (["points.csv", "--epochs", "0"], "epochs"),
        (["points.csv", "--init", "defualt"], "default"),
        (["points.csv", "--validation", "2"], "validation: expected a number from 0 to 0.9"),
        (["points.csv", "--target", "sid"], "side"),
        (["points.csv", "--output", "points.csv"], "points.csv: it is what is read"),
        (["points.csv", "--output", "taken"], "it exists, and --overwrite was not given"),
        (["points.csv", "--output", "no/where"], "there is no folder no"),
        (["points.csv", "--rate", "10", "--layers", "half(9, k=2)", "--threads", "0"], "threads"),
        (["one-class.csv"], "at least two classes"),
    ],
)
def test_training_that_cannot_be(arguments, words, fails):
    write_csv("points.csv")
    Path("taken").touch()
    Path("one-class.csv").write_text("a,b\n1,x\n2,x\n3,x\n")
    assert words in fails("train", *arguments)


def test_a_training_that_diverges_says_so_and_writes_nothing(fails, monkeypatch):
    write_csv("points.csv")

    def diverges(*_):
        raise _training.NotFiniteError("the loss of network 0 is no finite number any more")

    monkeypatch.setattr(_training.Training, "_step", diverges)
    assert fails("train", "points.csv") == (
        "the loss is no finite number any more; a smaller rate than 0.003 may help"
    )


@pytest.mark.parametrize(
    ("model", "source", "words"),
    [
        ("nowhere", "points.csv", "cannot read nowhere: there is no such file"),
        ("points.csv", "points.csv", "points.csv: "),
        ("plain", "points.csv", "expected a model that halfnet train wrote"),
        ("model", "other.csv", "north"),
        ("model", "digits", "expected a CSV file as the model learned, got a data set by its name"),
        ("model", "images", "expected a CSV file as the model learned, got a folder of images"),
    ],
)
def test_predictions_that_cannot_be(model, source, words, run, fails):
    run("train", write_csv("points.csv"), "--epochs", "1", "--output", "model")
    halfnet.save(nn.Sequential(halfnet.HalfLinear(2, 3, rank=1)), "plain")
    Path("other.csv").write_text("east,south\n1,2\n")
    write_images("images")
    assert words in fails("predict", model, source)


def test_answers_that_are_no_numbers_are_none(run, fails):
    run("train", write_csv("points.csv"), "--epochs", "1", "--output", "model")
    Path("far.csv").write_text("east,north\n1,2\n3e38,-3e38\n")
    assert "its model answers row 2 with numbers that are not finite" in fails(
        "predict", "model", "far.csv"
    )


def test_predictions_do_not_replace_what_they_read(run, fails):
    run("train", write_csv("points.csv"), "--epochs", "1", "--output", "model")
    for output in ("model", "points.csv"):
        assert "it is what is read" in fails("predict", "model", "points.csv", "--output", output)


# --- reproduce -------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return the options of rows that train in a moment, run in this process."""
    monkeypatch.setattr(_run, "keep_freed_memory", lambda: None)

    def run_all(plans, results, checkpoints, jobs, *, again):
        for plan in plans:
            try:
                yield plan, _run.run(plan, results, checkpoints, again=again)
            except HalfnetError as error:
                yield plan, _schedule.Failed(str(error))

    monkeypatch.setattr(_schedule, "run_all", run_all)
    monkeypatch.setenv("HALFNET_CACHE", str(tmp_path / "cache"))
    return ("--specs", str(lab_rows.write(tmp_path)), "--preset", "small", "--seeds", "2")


def test_rows_are_trained_and_printed_beside_the_papers(run, small):
    lines = run("reproduce", "small", *small).out.splitlines()
    assert [line.split()[:1] for line in lines] == [["table"], ["small"], ["small"], ["results"]]
    assert "50.00 ± 1.00" in lines[2]
    assert sorted(path.name for path in Path("results/small/small").iterdir()) == [
        "MLP-h=8.json",
        "k=1.json",
    ]
    # What is there is not trained again.
    before = Path("results/small/small/k=1.json").stat().st_mtime_ns
    records = json.loads(run("reproduce", *small, "--rows", "k=1", "--json").out)
    assert Path("results/small/small/k=1.json").stat().st_mtime_ns == before
    assert [record["row"] for record in records] == ["k=1"]
    assert records[0]["seeds"] == [0, 1]
    run("reproduce", *small, "--rows", "k=1", "--again")
    assert Path("results/small/small/k=1.json").stat().st_mtime_ns > before


def test_quick_is_an_epoch_of_two_seeds_and_is_kept_apart(run, small):
    lines = run("reproduce", *small[:4], "--quick", "--rows", "MLP, h=8").out.splitlines()
    assert "cut short" in lines[1]
    found = json.loads(Path("results/small-quick/small/MLP-h=8.json").read_text())
    assert (found["recipe"]["epochs"], found["seeds"]) == (1, [0, 1])


def test_a_row_that_fails_is_said_and_the_others_are_trained(run, small, tmp_path):
    lab_rows.write(tmp_path, lab_rows.SPECS + lab_rows.BURSTING)
    shown = run("reproduce", *small, code=1)
    assert "failed: the loss of network 0 is no finite number any more at step 1" in shown.out
    assert len(list(Path("results/small/small").iterdir())) == 2
    shown = run("reproduce", *small, "--json", code=1)
    assert len(json.loads(shown.out)) == 2
    assert shown.err.startswith("small, bursts: the loss of network 0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mnits"], "'mnist'"),
        (["mnist", "--rows", "MLP h=65"], "'MLP h=64'"),
        (["mnist", "--preset", "papre"], "'paper'"),
        (["--specs", "nowhere.toml"], "cannot read nowhere.toml"),
        (["mnist", "--results", "file"], "file"),
    ],
)
def test_rows_that_cannot_be(arguments, words, fails):
    Path("file").touch()
    assert words in fails("reproduce", *arguments)


def test_the_rows_are_listed(run):
    lines = run("reproduce", "--list").out.splitlines()
    assert len(lines) == 72
    assert lines[0].split() == ["mnist", "LP"]
    rows = json.loads(run("reproduce", "cifar10", "--list", "--json").out)
    assert len(rows) == 6
    assert rows[5] == {"table": "cifar10", "row": "Half-Half k=8/32"}


# --- spectrum and data -----------------------------------------------------------------------


def test_the_spectrum_of_a_model_is_that_of_its_weights(run):
    model = nn.Sequential(halfnet.HalfLinear(9, 5, rank=2), nn.ReLU(), nn.Linear(5, 2))
    halfnet.save(model, "model")
    record, *others = json.loads(run("spectrum", "model", "--json").out)
    assert others == []
    energy = torch.linalg.svdvals(model[0].weight.detach()).square()
    cumulative = energy.cumsum(0) / energy.sum()
    np.testing.assert_allclose(record["cumulative"], cumulative, rtol=1e-5)
    assert [item["fraction"] for item in record["energies"]] == [0.6, 0.8, 0.9]
    for item in record["energies"]:
        assert item["directions"] == [int((cumulative < item["fraction"]).sum()) + 1]
        assert item["paper"] is None
    text = run("spectrum", "model").out
    assert text.startswith("model\n\n0: 5 directions\n")
    assert "100% |" in text


def test_the_spectrum_of_a_result_is_beside_the_papers(run):
    write_results([dense_result()], Path("made"))
    text = run("spectrum", "--results", "made").out
    assert text.startswith("mnist, MLP h=64 (preset paper)\n\nhidden1: 64 directions, 5 seeds\n")
    assert ", paper 9\n" in text
    assert ", paper 17\n" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "cannot read nowhere: there is no such file"),
        (["--table", "mnits"], "'mnist'"),
        (["--row", "MLP h=65"], "'MLP h=64'"),
        (["--row", "k=4"], "halfnet reproduce mnist --rows 'k=4' --results made makes it"),
        (["--preset", "papre"], "'paper'"),
    ],
)
def test_spectra_that_cannot_be(arguments, words, fails):
    write_results([dense_result()], Path("made"))
    assert words in fails("spectrum", *arguments, "--results", "made")


def dense_result():
    table = specs.paper().table("mnist")
    return result(table, table.row("MLP h=64"))


def test_data_sets_are_listed_and_got(run, fails):
    listed = json.loads(run("data", "list", "--json").out)
    assert listed["mnist"] == {"train": 60000, "test": 10000, "image": [28, 28]}
    assert len(run("data", "list").out.splitlines()) == len(listed)
    assert run("data", "get", "digits").out == "digits: verified, inside scikit-learn\n"
    assert json.loads(run("data", "get", "digits", "--json").out) == {"digits": None}
    assert "'mnist'" in fails("data", "get", "mnits")
    assert fails("data", "list", "bogus") == "NAME: expected none with list, got 'bogus'"
