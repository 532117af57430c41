"""Subscribers killed repeatedly at random moments, while others publish: everything is delivered at least once.

The stored position is never ahead of what was printed, or with --ack of what was acknowledged.
"""

from __future__ import annotations

import io
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from sowctl.cli.main import main
from sowctl.engine.api import InstanceHandle, RowVerbs
from sowctl.engine.options import PublishOptions
from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, Subscriber
from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store
from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range
from sowctl.engine.subscriptions.spans import resolve_bookmark_range
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.identity.bookmarks import parse_bookmark
from sowctl.identity.hashes import hash_client_name
from tests.support.instances import config_xml, message, topic_xml
from tests.support.processes import Child

KEYS = "<Key>/clientName</Key><Key>/subId</Key>"
STORE = f"<Topic><Name>marks</Name><MessageType>json</MessageType>{KEYS}<FileName>sow/marks.sow</FileName></Topic>"
WHO = Subscriber("c", "1")
PUBLISHERS = 2


class Shop:
    """An instance in a directory, two publishers, and a subscriber that is killed repeatedly."""

    def __init__(self, directory: Path, store: str) -> None:
        directory.mkdir()
        self.directory = directory
        self.config = directory / "sowctl.xml"
        self.config.write_text(config_xml(topic_xml("t") + topic_xml("u") + STORE, ("t", "u", "marks")))
        self.store = "marks" if store == "marks" else str(directory / store)
        self.printed = directory / "printed"
        self.printed.touch()
        self.published = [0] * PUBLISHERS

    def open(self) -> InstanceHandle:
        return InstanceHandle.open(self.config, environment={}, lock_wait=30.0)

    def publish(self, who: int, count: int) -> Child:
        """Start a process that publishes to both topics, batch by batch."""
        first = self.published[who] + 1
        self.published[who] += count

        def work(child: Child) -> None:
            handles = [self.open().topic(name) for name in "tu"]
            for number in range(first, first + count):
                payload = message(id=number % 7, who=who, n=number).encode()
                handles[number % 2].publish([payload], PublishOptions(client=f"p{who}", sequence=number))

        return Child(work)

    def command(self, *more: str) -> list[str]:
        keep = ("--store", self.store, "--client", "c", "--sub-id", "1", "--commit")
        return ["--config", str(self.config), "subscribe", "^[tu]$", "--no-sow", *keep, *more]

    def places(self) -> BookmarkStore:
        return open_bookmark_store(self.open(), self.store, RowVerbs())

    def stored_txid(self) -> int:
        """Return the txid after which the subscription would resume."""
        instance = self.open()
        row = self.places().read_place(WHO)
        if row is None:
            return 0
        with open_log(instance) as log:
            return resolve_bookmark_range(instance, log, parse_bookmark_range(row.bookmark, instance.clock)).after

    def logged(self) -> dict[tuple[int, int], int]:
        """Return publisher and number of every message of the journal, with its txid."""
        instance = self.open()
        if not has_log(instance):
            return {}
        with open_log(instance) as log:
            entries = [entry for block in log.iter_blocks() for entry in block.iter_entries() if entry.topic[0] in "tu"]
        return {(json.loads(entry.payload)["who"], json.loads(entry.payload)["n"]): entry.txid for entry in entries}


def messages(lines: bytes) -> list[tuple[int, int]]:
    """Return publisher and number of the messages in complete lines; the last line may be torn by a kill."""
    whole = lines[: lines.rfind(b"\n") + 1].splitlines()
    events = []
    for line in whole:
        # A torn line of an earlier run may be followed directly by the first one of the next.
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event["command"] == "publish":
            events.append((event["data"]["who"], event["data"]["n"]))
    return events


@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_what_the_store_takes_as_done_was_printed(memory: Path, store: str, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    shop = Shop(memory / "shop", store)
    # The first subscribers may start before the journal exists.
    publish = [shop.publish(who, 5) for who in range(PUBLISHERS)]
    kills = 0
    for _ in range(80 if deep else 7):
        publish += [shop.publish(who, chance.choice([0, 1, 40, 100])) for who in range(PUBLISHERS)]
        more = chance.choice([(), ("--commit-every", "0s"), ("--commit-every", "3")])
        ends = chance.random() < 0.2

        def work(child: Child, more: tuple[str, ...] = more, ends: bool = ends) -> None:
            with shop.printed.open("ab") as out:
                # A buffer of a few events: kills happen between a write to it and the output of the process.
                buffered = io.BufferedWriter(out.raw, chance.choice([300, 8192]))  # type: ignore[arg-type]
                words = shop.command(*more, *(["--until-now"] if ends else []))
                os._exit(main(words, environ={}, stdin=io.BytesIO(), stdout=buffered, stderr=io.BytesIO()))

        child = Child(work)
        if ends:
            assert child.join() == 0
        else:
            time.sleep(chance.choice([0.02, 0.05, 0.1, 0.3]) * chance.random())
            child.signal(signal.SIGKILL)
            child.join()
            kills += 1
        printed, logged = set(messages(shop.printed.read_bytes())), shop.logged()
        upto = shop.stored_txid()
        missing = [who for who, txid in logged.items() if txid <= upto and who not in printed]
        assert not missing, f"the place is txid {upto}, and these were never printed: {missing}"
    for child in publish:
        assert child.join() == 0
    words = shop.command("--until-now")
    out = io.BytesIO()
    assert main(words, environ={}, stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO()) == 0
    printed = set(messages(shop.printed.read_bytes() + out.getvalue()))
    assert printed == set(shop.logged())
    assert kills > 1
    again = io.BytesIO()
    assert main(words, environ={}, stdin=io.BytesIO(), stdout=again, stderr=io.BytesIO()) == 0
    assert messages(again.getvalue()) == []


def read_some(stream: BinaryIO, seconds: float) -> bytes:
    """Return what arrives within this time; nothing at the end."""
    ready, _, _ = select.select([stream], [], [], seconds)
    return os.read(stream.fileno(), 1 << 16) if ready else b""


def test_what_a_file_takes_as_done_was_acknowledged(memory: Path, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    shop = Shop(memory / "shop", "a.bookmarks")
    publish = [shop.publish(who, 150) for who in range(PUBLISHERS)]
    acknowledged: set[str] = set()
    received: set[tuple[int, int]] = set()
    rounds = 0
    while rounds < (40 if deep else 5) or len(received) < sum(shop.published):
        rounds += 1
        assert rounds < 200
        last = rounds > (40 if deep else 5)
        words = shop.command("--ack", "--commit-every", chance.choice(["0s", "2", "10ms"]))
        run = subprocess.Popen(
            [sys.executable, "-m", "sowctl", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert run.stdin is not None
        assert run.stdout is not None
        end = time.monotonic() + (20 if last else 0.6 + chance.random())
        rest, open_ones = b"", list[str]()
        # Messages known to be acknowledged at its start are not delivered again.
        known = shop.places().read_acknowledged(WHO)
        while time.monotonic() < end:
            rest += read_some(run.stdout, 0.05)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["command"] == "publish":
                    received.add((event["data"]["who"], event["data"]["n"]))
                    mark = parse_bookmark(event["bookmark"])
                    assert not known.contains_message(mark.publisher, mark.sequence)
                    open_ones.append(event["bookmark"])
            chance.shuffle(open_ones)
            some, open_ones = open_ones[::2], open_ones[1::2]
            # Recorded before it is sent: it is unknown what a killed subscriber has received.
            acknowledged.update(some)
            run.stdin.write("".join(f"{text}\n" for text in some).encode())
            if last and len(received) == sum(shop.published) and not open_ones:
                break
        if not last and chance.random() < 0.5:
            run.send_signal(signal.SIGTERM)
        elif not last:
            run.kill()
        else:
            run.stdin.close()
            run.send_signal(signal.SIGTERM)
        status = run.wait(timeout=30)
        run.stdout.close()
        run.stdin.close()
        # One that is terminated before it has started ends by the signal itself.
        assert status in (-signal.SIGKILL, -signal.SIGTERM, 143)
        known = shop.places().read_acknowledged(WHO)
        logged = {f"{hash_client_name(f'p{who}')}|{n}|": txid for (who, n), txid in shop.logged().items()}
        upto = shop.stored_txid()
        ahead = [
            text
            for text, txid in logged.items()
            if text not in acknowledged
            and (txid <= upto or known.contains_message(parse_bookmark(text).publisher, parse_bookmark(text).sequence))
        ]
        assert not ahead, f"the place is txid {upto}, and these were never acknowledged: {ahead}"
        if last:
            break
    for child in publish:
        assert child.join() == 0
    assert received == set(shop.logged())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_a_signal_flushes_and_stores_the_place(memory: Path, store: str, number: int, status: int) -> None:
    shop = Shop(memory / "shop", store)
    assert shop.publish(0, 20).join() == 0
    words = shop.command("--commit-every", "1h")
    with subprocess.Popen([sys.executable, "-m", "sowctl", *words], stdout=subprocess.PIPE, bufsize=0) as run:
        assert run.stdout is not None
        got = b""
        while len(messages(got)) < 20:
            got += read_some(run.stdout, 20)
        # Nothing was written yet; a signal that ends the run is the last opportunity.
        assert shop.places().read_place(WHO) is None
        run.send_signal(number)
        assert run.wait(timeout=30) == status
    # The signal may come between the last message and its record, and before it is known to be the last one with its
    # bookmark. Without the signal, all earlier messages would have been stored only after an hour.
    upto = shop.stored_txid()
    assert 18 <= upto <= 20
    out = io.BytesIO()
    assert main(shop.command("--until-now"), environ={}, stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO()) == 0
    assert messages(out.getvalue()) == [(0, number) for number in range(upto + 1, 21)]
