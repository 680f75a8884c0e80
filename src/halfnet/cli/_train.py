"""halfnet train: train a network on data of one's own, and keep it in one file."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfnet._engine._training import EpochScores
    from halfnet.lab._fitting import Fitted
    from halfnet.lab.specs import Recipe

_LAYERS_HELP = (
    "layers with ReLU between, such as 'half(64, k=16), dense(32)': half(units, k=rank), "
    "dense(units), lowrank(units, k=rank), and first conv(filters, kernel) or "
    "halfconv(filters, kernel, k=rank); options noise=fixed, affine=no, binary, draw=orthogonal, "
    "init=paper, padding=2; '' has no hidden layer (default: half(64, k=16))"
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a network on your data",
        description="Train a network and write it, with what prepares its inputs, to one "
        "safetensors file for `halfnet predict` and halfnet.load.",
        epilog="example: halfnet train digits --layers 'half(64, k=8)' --epochs 20",
    )
    add = parser.add_argument
    add(
        "data",
        metavar="DATA",
        help="mnist, fashion-mnist, cifar10 or digits; a .csv with a header; a .npz with x and y, "
        "train_images and train_labels, or x_train and y_train; a folder of images, a sub-folder a "
        "class",
    )
    add("--layers", metavar="TEXT", help=_LAYERS_HELP)
    add("--output", default="model.safetensors", metavar="FILE", help="default: %(default)s")
    add("--overwrite", action="store_true", help="replace the output if it exists")
    add(
        "--epochs",
        type=int,
        metavar="N",
        help="default: 10, or where rows are few as many as make 1,000 steps",
    )
    add("--rate", type=float, default=3e-3, metavar="R", help="Adam's (default: %(default)s)")
    add("--batch-size", type=int, default=128, metavar="N", help="default: %(default)s")
    add("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    add(
        "--validation",
        type=float,
        default=0.1,
        metavar="F",
        help="the fraction of rows to keep apart and measure on (default: %(default)s)",
    )
    add("--target", metavar="COLUMN", help="a CSV's column of classes (default: the last)")
    add("--size", metavar="WxH", help="resize the images of a folder, such as 32x32")
    add("--init", default="default", help="initial values: default or paper")
    add("--draw", default="normal", help="frozen numbers: normal or orthogonal")
    add("--threads", type=int, metavar="N", help="of torch (default: torch's choice)")
    add("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, save, and print what came of it."""
    from halfnet.lab import _fitting, _layers_text, _model_file, _reading  # noqa: PLC0415

    recipe = _recipe(arguments)
    if arguments.layers is not None:
        _layers_text.parse(arguments.layers)  # a slip is found before the data are read
    output = Path(arguments.output)
    _model_file.check_output(output, overwrite=arguments.overwrite, read=[Path(arguments.data)])
    if arguments.threads is not None:
        _fitting.set_threads(arguments.threads)
    inputs = _reading.read(arguments.data, target=arguments.target, size=arguments.size)
    layers = _fitting.default_layers(inputs) if arguments.layers is None else arguments.layers
    architecture = _layers_text.parse(layers)
    if arguments.epochs is None:
        recipe = _fitting.with_enough_epochs(recipe, inputs)
    with _Progress(recipe.epochs) as progress:
        fitted = _fitting.fit(
            inputs,
            architecture,
            recipe,
            seed=arguments.seed,
            validation=arguments.validation,
            on_step=progress,
        )
    _model_file.save(fitted.model, fitted.layout, output)
    summary = _summary(fitted, layers, recipe.epochs)
    summary |= {"output": str(output), "bytes": output.stat().st_size}
    print(json.dumps(summary, indent=1) if arguments.json else _text(summary))
    return 0


def _recipe(arguments: argparse.Namespace) -> "Recipe":
    from halfnet.lab import _fitting  # noqa: PLC0415

    recipe = _fitting.RECIPE
    return replace(
        recipe,
        rate=arguments.rate,
        batch_size=arguments.batch_size,
        epochs=recipe.epochs if arguments.epochs is None else arguments.epochs,
        init=arguments.init,
        draw=arguments.draw,
    )


class _Progress:
    """A bar on a terminal; elsewhere at most ten lines on stderr."""

    def __init__(self, epochs: int) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        from halfnet.lab._download import progress_bars  # noqa: PLC0415

        self._epochs, self._told = epochs, 0
        self._bars = progress_bars(
            TextColumn("epoch {task.fields[epoch]} of {task.fields[epochs]}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
        )
        self._bar = self._bars.add_task("", total=None, epoch=1, epochs=epochs, scores="")

    def __enter__(self) -> "_Progress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, done: int, total: int, scores: "EpochScores | None") -> None:
        """Show how far the training is, and an epoch's scores when it ends."""
        finished = done * self._epochs // total
        epoch = min(finished + 1, self._epochs)
        self._bars.update(self._bar, completed=done, total=total, epoch=epoch)
        if scores is not None:
            text = f"loss {scores.loss[0]:.3f}, accuracy {scores.accuracy[0]:.2f}%"
            self._bars.update(self._bar, scores=text)
            self._print(finished, text)

    def _print(self, finished: int, text: str) -> None:
        due = 10 * finished // self._epochs
        if self._bars.disable and due > self._told:
            self._told = due
            print(f"epoch {finished} of {self._epochs}: {text}", file=sys.stderr, flush=True)


def _summary(fitted: "Fitted", layers: str, epochs: int) -> dict[str, Any]:
    return {
        "layers": layers,
        "epochs": epochs,
        "inputs": fitted.layout.shape,
        "classes": len(fitted.layout.classes),
        "params": fitted.params,
        "dense_params": fitted.dense_params,
        "rows": fitted.rows._asdict(),
        "accuracy": fitted.accuracy._asdict(),
        "seconds": round(fitted.seconds, 2),
    }


def _text(summary: dict[str, Any]) -> str:
    inputs = " x ".join(map(str, summary["inputs"]))
    layers = f"{summary['layers']}, " if summary["layers"].strip() else ""
    learned, dense = summary["params"], summary["dense_params"]
    accuracy = [
        f"{value:.2f}% {part} ({summary['rows'][part]:,} rows)"
        for part, value in summary["accuracy"].items()
        if value is not None
    ]
    return "\n".join(
        [
            f"layers    {inputs} inputs, {layers}{summary['classes']} classes",
            f"learned   {learned:,} numbers; {dense:,} if dense ({learned / dense:.0%})",
            f"accuracy  {', '.join(accuracy)}",
            f"time      {summary['seconds']:.1f} s, {summary['epochs']:,} epochs",
            f"written   {summary['output']}, {summary['bytes']:,} bytes",
        ]
    )
