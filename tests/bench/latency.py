"""How soon a message arrives: from a publisher's acknowledgement to the subscriber's line, beside tail(1) and jq(1).

Run it alone, on a quiet machine: what else runs on its cores is part of what it measures.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from shutil import which
from typing import Any

import sowctl
from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from tests.bench.place import Place
from tests.bench.rounds import ROOT, Wrong, judge

TITLE = "latency: from the acknowledgement of a message to the line of its subscriber"
PACE, SECONDS = 5_000, 8
BATCH = 25
"""Messages of one publish: at the pace, one each 5 ms."""
MEDIAN, MOST = 10.0, 50.0
"""Goals in milliseconds, of the median and of 99 %."""


def run(place: Place, rounds: int) -> None:
    """Messages of a publisher at a pace; then lines appended to a file at the same pace, for tail and jq."""
    for name, *words in (("journal",), ("filtered", "/n >= 0"), ("page", "-o", "/n DESC", "--top-n", "50", "--oof")):
        instance = place.instance(f"latency-{name}", fresh=True)
        opened = sowctl.open(instance.config)

        def send(texts: Sequence[bytes], acknowledged: Callable[[Any], None], opened: Any = opened) -> None:
            publish_messages(
                opened, "orders", [("in", ListSource(texts))], PublishOptions(batch=BATCH), on_acknowledged=acknowledged
            )

        skip = ("--skip-n", "0") if name == "page" else ()
        late = _late([instance.command("subscribe", "orders", "--data-only", *words, *skip)], send)
        _tell(name, late)
        if name == "journal":
            judge("median latency, ms", _part(late, 50), MEDIAN, most=True)
            judge("latency of 99 %, ms", _part(late, 99), MOST, most=True)
    jq, tail = which("jq"), which("tail")
    if jq is None or tail is None:
        print("  tail -f | jq are not here")
        return
    path = place.root / "latency.ndjson"
    path.write_bytes(b"")
    with path.open("ab", buffering=0) as file:

        def append(texts: Sequence[bytes], acknowledged: Callable[[Any], None]) -> None:
            file.write(b"".join(text + b"\n" for text in texts))
            acknowledged(None)

        _tell("tail -f | jq", _late([[tail, "-n", "0", "-f", str(path)], [jq, "-c", "--unbuffered", "."]], append))


def _late(
    commands: Sequence[Sequence[str]], send: Callable[[Sequence[bytes], Callable[[Any], None]], None]
) -> list[float]:
    """Milliseconds of each message, in ascending order. Raises Wrong where one did not arrive."""
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    running: list[subprocess.Popen[bytes]] = []
    for argv in commands:
        feed = running[-1].stdout if running else None
        running.append(subprocess.Popen(argv, stdin=feed, stdout=subprocess.PIPE, cwd=ROOT))

    def listen(stream: Any) -> None:
        for line in stream:
            arrived.setdefault(json.loads(line)["n"], time.perf_counter())

    listener = threading.Thread(target=listen, args=(running[-1].stdout,))
    listener.start()
    time.sleep(1)
    begin = time.perf_counter()
    for first in range(0, PACE * SECONDS, BATCH):
        numbers = range(first, first + BATCH)
        texts = [b'{"orderId":%d,"n":%d}' % (number % 1000, number) for number in numbers]

        def acknowledged(_: Any, numbers: range = numbers) -> None:
            sent.update(dict.fromkeys(numbers, time.perf_counter()))

        send(texts, acknowledged)
        time.sleep(max(0.0, begin + (first + BATCH) / PACE - time.perf_counter()))
    took = time.perf_counter() - begin
    while len(arrived) < PACE * SECONDS and time.perf_counter() < begin + 4 * SECONDS:
        time.sleep(0.1)
    for one in running:
        one.terminate()
    listener.join()
    for one in running:
        one.wait()
    if len(arrived) != len(sent):
        raise Wrong(f"{len(arrived)} of {len(sent)} messages arrived")
    if took > 1.1 * SECONDS:
        print(f"  the pace was not kept: {len(sent) / took:,.0f} a second instead of {PACE:,}")
    return sorted(max(arrived[number] - at, 0.0) * 1000 for number, at in sent.items())


def _part(late: Sequence[float], percent: int) -> float:
    return late[min(len(late) * percent // 100, len(late) - 1)]


def _tell(name: str, late: Sequence[float]) -> None:
    parts = ", ".join(f"{percent} % {_part(late, percent):.2f}" for percent in (50, 90, 99))
    print(f"  {name:14} {len(late):,} messages; ms: {parts}, longest {late[-1]:.2f}")
