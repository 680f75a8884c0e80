"""halfnet predict: what a model of halfnet train says of data."""

import argparse
import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfnet.lab._predicting import Predictions


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "predict",
        help="predict classes with a trained model",
        description="Predict the class of each row with a model that `halfnet train` wrote. Prints "
        "CSV; if the data hold labels, the accuracy goes to stderr.",
        epilog="example: halfnet predict model.safetensors digits --output predictions.csv",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="the file that halfnet train wrote")
    add(
        "data",
        metavar="DATA",
        help="a data set's name (its part to test on), a .csv, a .npz or a folder of images; "
        "labels may be left out",
    )
    add("--output", metavar="FILE", help="write the CSV here; an existing file is replaced")
    add("--probabilities", action="store_true", help="add a column for each class")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Predict, and print or write what came out."""
    from halfnet.lab import _model_file, _predicting, _reading, _results  # noqa: PLC0415

    predictor = _predicting.Predictor.read(Path(arguments.model))
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        read = (predictor.path, Path(arguments.data))
        _model_file.check_output(output, overwrite=True, read=read)
    inputs = _reading.read(arguments.data, layout=predictor.layout)
    found = predictor.predict(inputs)
    if output is not None:
        text = _csv(found, arguments.probabilities)
        _results.write_atomically(output, text.encode())
    if arguments.json:
        print(json.dumps(_record(found, arguments, detailed=output is None), indent=1))
    elif output is None:
        print(_csv(found, arguments.probabilities), end="", flush=True)
        _say(_accuracy(found), sys.stderr)
    else:
        _say(f"{len(found.classes):,} predictions written to {output}", sys.stdout)
        _say(_accuracy(found), sys.stdout)
    return 0


def _say(text: str, stream: Any) -> None:
    if text:
        print(text, file=stream)


def _accuracy(found: "Predictions") -> str:
    if found.accuracy is None:
        return ""
    return f"accuracy {found.accuracy:.2f}% of {len(found.classes):,} rows"


def _csv(found: "Predictions", probabilities: bool) -> str:
    header = ["file"] if found.files else []
    columns: list[Any] = [found.files] if found.files else []
    header.append("prediction")
    columns.append(found.classes)
    if probabilities:
        header += [f"p({name})" for name in found.names]
        columns += [[f"{value:.6g}" for value in column] for column in found.probabilities.T]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def _record(
    found: "Predictions", arguments: argparse.Namespace, *, detailed: bool
) -> dict[str, Any]:
    record: dict[str, Any] = {"rows": len(found.classes), "accuracy": found.accuracy}
    if not detailed:
        return record | {"output": arguments.output}
    record["predictions"] = found.classes
    if found.files:
        record["files"] = found.files
    if arguments.probabilities:
        record |= {"classes": found.names, "probabilities": found.probabilities.tolist()}
    return record
