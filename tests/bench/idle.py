"""Getting a record of an idle topic, beside few and beside many later entries of other topics in the journal."""

from __future__ import annotations

import statistics

from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Wrong, judge, output_of, process, race, ratios, show

TITLE = "idle: get from a topic that was quiet while others wrote"
MESSAGE = b'{"orderId":1,"price":1}'


def run(place: Place, rounds: int, *, big: bool = False) -> None:
    """One instance for each amount of other entries; with ``big`` one of ten times as many as the largest."""
    amounts = {"alone": 0, f"beside {place.count:,} entries": 1}
    if big:
        amounts[f"beside {10 * place.count:,} entries"] = 10
    instances = {name: _instance(place, times) for name, times in amounts.items()}
    commands = {name: instance.command("get", "quiet", "1") for name, instance in instances.items()}
    for name, argv in commands.items():
        if output_of(argv) != MESSAGE + b"\n":
            raise Wrong(f"get prints something else {name}: nothing is ranked")
    found = race([Item(name, lambda argv=argv: process(argv)) for name, argv in commands.items()], 7 * rounds)  # type: ignore[misc]
    show(found, base="alone")
    for name in list(amounts)[1:]:
        judge(f"{name}: time / alone", statistics.median(ratios(found, name, "alone")), 1.2, most=True)


def _instance(place: Place, times: int) -> Instance:
    name = f"idle-{times * place.count}"
    instance = place.instance(name, ("quiet", "busy"))
    if not (instance.directory / "complete").exists():
        instance = place.instance(name, ("quiet", "busy"), fresh=True)
        message = instance.directory / "message.ndjson"
        message.write_bytes(MESSAGE + b"\n")
        process(instance.publish("quiet"), feed=message)
        for _ in range(times):
            process(instance.publish("busy"), feed=place.input())
        (instance.directory / "complete").touch()
    return instance
