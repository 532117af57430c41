"""Following a topic: a whole journal beside jq(1) over its messages, a page of 50 under updates, and latency."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from shutil import which
from typing import Any

import sowctl
from sowctl.engine.following.events import Sign
from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish
from sowctl.engine.writing.batching import Listed
from sowctl.output.events import EventLines
from tests.bench import data
from tests.bench.place import Instance, Place
from tests.bench.rounds import ROOT, Item, Wrong, judge, process, race, show, timed

TITLE = "following: events of a journal, a page that is kept, and how soon a message arrives"
PAGE, PACE, SECONDS = 50, 5_000, 8
BATCH = 25
"""Messages of one publish while latency is taken: at the pace, one each 5 ms."""


def run(place: Place, rounds: int) -> None:
    """All three, each by itself."""
    _journal(place, rounds)
    _page(place)
    _latency(place)


def _journal(place: Place, rounds: int) -> None:
    instance = place.loaded()
    items = [Item("sowctl, events", lambda: timed(lambda: _replay(place, instance)))]
    if (jq := which("jq")) is not None:
        # What tail -f FILE | jq costs for each message, without the waiting.
        items.append(Item("jq -c .", lambda: process([jq, "-c", "."], feed=place.input())))
    found = race(items, rounds)
    show(found, base="sowctl, events", count=place.count)
    best = min(run.cpu for run in found["sowctl, events"])
    judge("messages a second of one core", place.count / best, 300_000)


def _replay(place: Place, instance: Instance) -> None:
    lines, seen = EventLines(), 0
    opened = sowctl.open(instance.config)
    following = opened.topic("orders").subscribe(sow=False, bookmark="0", until_now=True)
    with Path(os.devnull).open("wb") as out, following as subscription:
        for delivery in subscription.deliveries():
            seen += len(delivery)
            out.write(lines.sign(delivery) if isinstance(delivery, Sign) else lines.events(delivery))
    if seen != place.count:
        raise Wrong(f"{seen} events of {place.count} messages")


def _page(place: Place) -> None:
    """A page over as many records as there are messages; twice as many messages make them."""
    instance = place.instance(f"page-{place.count}")
    if not (instance.directory / "complete").exists():
        instance = place.instance(f"page-{place.count}", fresh=True)
        process(instance.publish(), feed=place.input(2 * place.count))
        (instance.directory / "complete").touch()
    updates = place.root / "updates.ndjson"
    count = place.count // 5
    data.write(count, place.count, updates)
    options = ("-o", "/price DESC", "--top-n", str(PAGE), "--skip-n", "0", "--oof", "--progress-every", "50ms")
    argv = instance.command("subscribe", "orders", *options)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as subscriber:
        assert subscriber.stdout is not None
        begin = time.perf_counter()
        while (event := json.loads(subscriber.stdout.readline()))["command"] != "group_end":
            pass
        first, loading = event["txid"], time.perf_counter() - begin
        cpu = _cpu(subscriber.pid)
        begin = time.perf_counter()
        process(instance.publish(), feed=updates)
        published = time.perf_counter() - begin
        while event["command"] != "progress" or event["txid"] < first + count:
            event = json.loads(subscriber.stdout.readline())
        followed, cpu = time.perf_counter() - begin, _cpu(subscriber.pid) - cpu
        memory = next(line for line in _status(subscriber.pid) if line.startswith("RssAnon"))
        subscriber.terminate()
    print(f"  page of {PAGE} over {place.count:,} records: first shown after {loading:.1f} s, {memory}")
    print(f"  {count:,} updates published in {published:.1f} s, followed {followed - published:.2f} s later")
    judge("updates a second of one core", count / cpu, 20_000)


def _latency(place: Place) -> None:
    """Messages of a publisher at a pace, from their acknowledgement to the line of the subscriber."""
    instance = place.instance("latency", fresh=True)
    opened = sowctl.open(instance.config)
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    argv = instance.command("subscribe", "orders", "--data-only")

    def listen(stream: Any) -> None:
        for line in stream:
            arrived[json.loads(line)["n"]] = time.perf_counter()

    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as subscriber:
        listener = threading.Thread(target=listen, args=(subscriber.stdout,))
        listener.start()
        time.sleep(1)
        begin = time.perf_counter()
        for first in range(0, PACE * SECONDS, BATCH):
            numbers = range(first, first + BATCH)
            texts = [b'{"orderId":%d,"n":%d}' % (number % 1000, number) for number in numbers]

            def acknowledged(_: Any, numbers: range = numbers) -> None:
                sent.update(dict.fromkeys(numbers, time.perf_counter()))

            source = [("in", Listed(texts))]
            publish(opened, "orders", source, PublishOptions(batch=BATCH), on_acknowledged=acknowledged)
            time.sleep(max(0.0, begin + (first + BATCH) / PACE - time.perf_counter()))
        took = time.perf_counter() - begin
        while len(arrived) < PACE * SECONDS and time.perf_counter() < begin + 4 * SECONDS:
            time.sleep(0.1)
        subscriber.terminate()
        listener.join()
    if len(arrived) != len(sent):
        raise Wrong(f"{len(arrived)} of {len(sent)} messages arrived")
    late = sorted(max(arrived[number] - at, 0.0) * 1000 for number, at in sent.items())
    print(f"  {len(sent):,} messages at {len(sent) / took:,.0f} a second")
    judge("median latency, ms", late[len(late) // 2], 10, most=True)
    judge("latency of 99 %, ms", late[len(late) * 99 // 100], 50, most=True)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().split("\n")
