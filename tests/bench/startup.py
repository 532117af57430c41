"""How long small commands take from a start, beside a Python that imports Typer, lxml and lmdb."""

from __future__ import annotations

import statistics
import sys

from tests.bench.contents import key_of
from tests.bench.place import SOWCTL, Place
from tests.bench.rounds import Item, Wrong, judge, output_of, process, race, ratios, show

TITLE = "start-up"
BASE = "import typer, lxml.etree, lmdb"


def run(place: Place, rounds: int) -> None:
    """Many rounds, because every one is short."""
    instance = place.loaded()
    wanted = place.input().read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2]
    get = instance.command("get", "orders", str(key_of(wanted).orderId))
    if output_of(get) != wanted + b"\n":
        raise Wrong("get prints something else: nothing is ranked")
    commands = {
        BASE: [sys.executable, "-c", BASE],
        "sowctl --version": [*SOWCTL, "--version"],
        "sowctl get orders KEY -c CONFIG": get,
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    found = race([Item(name, lambda argv=argv: process(argv)) for name, argv in commands.items()], 10 * rounds)  # type: ignore[misc]
    show(found, base=BASE)
    for name in list(commands)[1:3]:
        judge(f"{name}: time / {BASE}", statistics.median(ratios(found, name, BASE)), 1.5, most=True)
