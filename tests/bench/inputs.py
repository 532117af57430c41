"""Inputs of publish: JSON arrays and typed CSV beside JSON lines, from files, and CSV from a pipe.

The same flat orders in each format become the same messages. The judgements are by CPU time, which counts what others
on the machine do least.
"""

from __future__ import annotations

import csv
import json
import random
import statistics
from pathlib import Path
from typing import Any

from tests.bench.contents import of_output
from tests.bench.place import Place, same
from tests.bench.rounds import Item, judge, output_of, process, race, show

TITLE = "inputs: arrays of JSON and typed CSV beside JSON lines"
MAX_RATIO = 1.5
_LINES, _ARRAY, _CSV, _PIPE = "JSON lines", "JSON array", "csv, types detected", "csv from a pipe"


def run(place: Place, rounds: int) -> None:
    """Publish each file into an empty instance, compare what is held, then take the times."""
    count = min(place.count, 300_000)
    files = _write_files(place.root, count)
    instance = place.instance("inputs")
    commands = {name: instance.command("publish", "orders", str(files[name])) for name in (_LINES, _ARRAY, _CSV)}
    pipe = instance.command("publish", "orders", "--format", "csv")

    def clear() -> None:
        instance.clear("sow", "journal")

    def publish(name: str) -> Any:
        return process(pipe, feed=files[_CSV]) if name == _PIPE else process(commands[name])

    names = (*commands, _PIPE)
    wanted = None
    for name in names:
        clear()
        publish(name)
        found = of_output(output_of(instance.command("query", "orders", "--format", "raw")))
        wanted = found if wanted is None else wanted
        same(found, wanted, name)
    times = race([Item(name, lambda name=name: publish(name), clear) for name in names], rounds)  # type: ignore[misc]
    show(times, base=_LINES, count=count)
    lines = statistics.median(one.cpu for one in times[_LINES])
    for name in names[1:]:
        ratio = statistics.median(one.cpu for one in times[name]) / lines
        judge(f"{name}: CPU time / {_LINES}", ratio, MAX_RATIO, most=True)
    clear()


def _write_files(root: Path, count: int) -> dict[str, Path]:
    chance = random.Random(20260105)
    rows = [
        {
            "orderId": 10_000 + number,
            "customer": f"C{chance.randrange(500):04}",
            "symbol": chance.choice(("IBM", "ORCL", "CSCO", "MSFT")),
            "side": chance.choice(("buy", "sell")),
            "qty": chance.randrange(1, 90) * 100,
            "filled": chance.randrange(50) * 100,
            "price": chance.randrange(1, 30_000) / 100,
            "status": chance.choice(("new", "partial", "filled")),
            "time": f"2026-01-05T09:{chance.randrange(60):02}:{chance.randrange(60):02}Z",
        }
        for number in range(count)
    ]
    files = {_LINES: root / "inputs.ndjson", _ARRAY: root / "inputs.json", _CSV: root / "inputs.csv"}
    texts = [json.dumps(row, separators=(",", ":")) for row in rows]
    files[_LINES].write_text("\n".join(texts) + "\n")
    files[_ARRAY].write_text("[\n" + ",\n".join(texts) + "\n]\n")
    with files[_CSV].open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return files
