"""Following a topic: a whole journal beside tail(1) and jq(1), replays, bookmark stores, a page of 50 under updates.

Latency is measured apart, because it wants a quiet machine: :mod:`tests.bench.latency`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from shutil import which

import sowctl
from sowctl.engine.subscriptions.events import MarkerEvent
from sowctl.output.events import EventLines
from tests.bench import data
from tests.bench.place import Instance, Place
from tests.bench.rounds import ROOT, Item, Sample, Wrong, judge, process, race, show, timed

TITLE = "following: events of a journal, replays, bookmark stores, and a page that is kept"
PAGE = 50


def run(place: Place, rounds: int) -> None:
    """Each by itself."""
    _journal(place, rounds)
    _replays(place, rounds)
    _page(place)


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
            out.write(
                lines.format_sign(delivery) if isinstance(delivery, MarkerEvent) else lines.format_events(delivery)
            )
    if seen != place.count:
        raise Wrong(f"{seen} events of {place.count} messages")


def _replays(place: Place, rounds: int) -> None:
    """Whole programs over the journal from its beginning: payloads, filtered, with a place that is kept."""
    instance = place.loaded()
    store = instance.directory / "bench.bookmarks"
    base = ("orders", "--no-sow", "--bookmark", "0", "--data-only")
    kept = ("--store", str(store), "--client", "bench", "--commit")

    def forget() -> None:
        store.unlink(missing_ok=True)

    def ended(*words: str) -> Sample:
        return process(instance.command("subscribe", *base, "--until-now", *words))

    rows = "sowctl --data-only"
    items = [
        Item(rows, lambda: ended()),
        Item("the same, live, until all has come", lambda: _until_all([instance.command("subscribe", *base)], place)),
        Item("with a filter of few", lambda: ended("/price > 99.9")),
        Item("with --store FILE --commit", lambda: ended(*kept), forget),
        Item("the same, each move stored", lambda: ended(*kept, "--commit-every", "1"), forget),
        Item("Python, each acknowledged", lambda: timed(lambda: _acknowledged(place, instance, store)), forget),
    ]
    if (jq := which("jq")) is not None and (tail := which("tail")) is not None:
        tailed = [[tail, "-n", "+1", "-f", str(place.input())], [jq, "-c", "--unbuffered", "."]]
        items.append(Item("tail -f | jq, until all has come", lambda: _until_all(tailed, place)))
    print("  kcat -C is left out: " + ("it wants a broker" if which("kcat") else "it is not here, nor is a broker"))
    show(race(items, rounds), base=rows, count=place.count)


def _until_all(commands: list[list[str]], place: Place) -> Sample:
    """A pipeline that goes on for ever, until as many lines have come as there are messages."""
    begin, running, feed = time.perf_counter(), [], None
    for argv in commands:
        running.append(subprocess.Popen(argv, stdin=feed, stdout=subprocess.PIPE, cwd=ROOT))
        feed = running[-1].stdout
    assert feed is not None
    lines = 0
    try:
        while lines < place.count and (data := os.read(feed.fileno(), 1 << 20)):
            lines += data.count(b"\n")
        took, cpu = time.perf_counter() - begin, sum(_cpu(one.pid) for one in running)
    finally:
        for one in running:
            one.terminate()
            one.communicate() if one.stdout is not None and not one.stdout.closed else one.wait()
    if lines != place.count:
        raise Wrong(f"{lines} lines of {place.count} messages")
    return Sample(took, cpu)


def _acknowledged(place: Place, instance: Instance, store: Path) -> None:
    opened, seen = sowctl.open(instance.config), 0
    with (
        opened.place(str(store), "bench", "1") as kept,
        opened.topic("orders").subscribe(sow=False, until_now=True, bookmark=kept.recent) as subscription,
    ):
        for event in kept.events(subscription):
            seen += kept.acknowledge(event)
    if seen != place.count:
        raise Wrong(f"{seen} acknowledged of {place.count} messages")


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


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().split("\n")
