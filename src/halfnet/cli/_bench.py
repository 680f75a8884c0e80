"""halfnet bench: time half layers against dense ones on this machine."""

import argparse
import json
from pathlib import Path
from typing import Any


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench",
        help="time half layers against dense ones on this machine",
        description="Measure training steps, inference, memory and the paper's networks beside "
        "their dense counterparts, print tables and the targets, and write JSON and a plot.",
        epilog="example: halfnet bench --output build/bench",
    )
    add = parser.add_argument
    add("--output", default="build/bench", metavar="FOLDER", help="default: %(default)s")
    add("--quick", action="store_true", help="tiny layers, some seconds, to see it work")
    add("--threads", type=int, metavar="N", help="of torch (default: torch's choice)")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print what comes of it."""
    import torch  # noqa: PLC0415

    from halfnet.lab import _bench, _bench_report, _fitting, _results, _run  # noqa: PLC0415

    folder = Path(arguments.output)
    _results.check_writable(folder)
    if arguments.threads is not None:
        _fitting.set_threads(arguments.threads)
    records: list[_bench.Record] = []
    for record in _bench.run(_bench.QUICK if arguments.quick else _bench.Plan()):
        if not arguments.json:
            if not records or records[-1]["section"] != record["section"]:
                print(_bench_report.header(record["section"]))
            print(_bench_report.line(record), flush=True)
        records.append(record)
    content = {
        "threads": torch.get_num_threads(),
        "processor": _bench.processor(),
        "versions": _run.versions(),
        "commit": _run.commit(),
        "targets": _bench_report.judged(records),
        "records": records,
    }
    lines = ",\n".join(f"  {json.dumps(record)}" for record in records)
    text = json.dumps(content | {"records": []}, indent=1)
    text = text.replace('"records": []', f'"records": [\n{lines}\n ]')
    _results.write_atomically(folder / "bench.json", (text + "\n").encode())
    _bench_report.plot(records, folder / "bench.png")
    if arguments.json:
        print(json.dumps(content, indent=1))
    else:
        print(_bench_report.targets_text(records))
        print(f"\nwritten: {folder / 'bench.json'}, {folder / 'bench.png'}")
    return 0
