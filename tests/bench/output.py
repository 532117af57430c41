"""Formats beside Python's json and csv modules doing the same: whole processes, and their CPU time.

About 30,000 records where a million messages are usual, as people export them. Python reads the payloads as lines of a
file and writes the same cells, fields or envelopes; what both write is compared as JSON or CSV before anything is
ranked.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Wrong, judge, output_of, process, race, show

TITLE = "output: csv, tsv, select lists and envelopes beside Python's json and csv modules"
SELECT = "-/,+/orderId,+/price,+/trader/id"
_ENVELOPE = """{'topic': 'orders', 'message_type': 'json', 'sow_key': str(n), 'timestamp':
 datetime.datetime.fromtimestamp(1.7e9 + n, datetime.UTC).isoformat(), 'expiration': None, 'txid': n, 'bookmark': None,
 'correlation_id': None, 'data': r}"""
_PYTHON = {
    "csv": "rows = [json.loads(line) for line in lines]\n"
    "out = csv.DictWriter(sys.stdout, list(rows[0]))\nout.writeheader()\nout.writerows(rows)",
    "tsv": "rows = [json.loads(line) for line in lines]\n"
    "out = csv.DictWriter(sys.stdout, list(rows[0]), delimiter='\\t')\nout.writeheader()\nout.writerows(rows)",
    "select": "for line in lines:\n r = json.loads(line)\n sys.stdout.write(json.dumps("
    "{'orderId': r['orderId'], 'price': r['price'], 'trader': {'id': r['trader']['id']}}) + '\\n')",
    "meta": "for n, line in enumerate(lines):\n r = json.loads(line)\n"
    f" sys.stdout.write(json.dumps({' '.join(_ENVELOPE.split())}, separators=(',', ':')) + '\\n')",
}
_OURS = {"csv": ["--format", "csv"], "tsv": ["--format", "tsv"], "select": ["--select", SELECT], "meta": ["--meta"]}


def run(place: Place, rounds: int) -> None:
    """All of them in one race."""
    instance, source = _fewer(place, max(place.count * 7 // 100, 1000))
    commands: dict[str, list[str]] = {}
    for name, code in _PYTHON.items():
        start = f"import csv, datetime, json, sys\nlines = open({source!r})\n"
        commands[f"sowctl, {name}"] = instance.command("query", "orders", "--no-index", *_OURS[name])
        commands[f"Python, {name}"] = [sys.executable, "-c", start + code]
        ours, theirs = output_of(commands[f"sowctl, {name}"]), output_of(commands[f"Python, {name}"])
        if _content(name, ours) != _content(name, theirs):
            raise Wrong(f"{name} gives something else: nothing is ranked")
    found = race([Item(name, partial(process, argv)) for name, argv in commands.items()], max(rounds, 7))
    show(found, base="Python, csv")
    for name in _PYTHON:
        ours_best, theirs_best = (min(s.cpu for s in found[f"{who}, {name}"]) for who in ("sowctl", "Python"))
        judge(f"{name}: CPU time / Python's", ours_best / theirs_best, 1.5, most=True)


def _fewer(place: Place, count: int) -> tuple[Instance, str]:
    """An instance with the last of ``count`` messages per key, and a file with its payloads."""
    instance = place.instance(f"output-{count}", fresh=True)
    process(instance.publish(), feed=place.input(count))
    source = instance.directory / "payloads.ndjson"
    source.write_bytes(output_of(instance.command("query", "orders")))
    return instance, str(source)


def _content(name: str, output: bytes) -> list[Any]:
    """What an output says, without what differs in spelling: nested objects, keys and times."""
    reads: Callable[[str], Any] = json.loads
    if name == "meta":
        # Records with their metadata come in the order of time, which Python is spared.
        return sorted([json.loads(line)["data"] for line in output.splitlines()], key=itemgetter("orderId"))
    if name == "select":
        return list(map(reads, output.splitlines()))
    rows = csv.DictReader(output.decode().splitlines(), delimiter="\t" if name == "tsv" else ",")
    return [{key: _number(text) for key, text in row.items() if key != "trader"} for row in rows]


def _number(text: str) -> float | str:
    """A number as what it is: Python's writer drops the zeros at its end."""
    try:
        return float(text)
    except ValueError:
        return text
