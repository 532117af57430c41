"""Consistent start under load: several processes publish while subscriptions begin, and every copy is exact."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence

from sowctl.engine.options import PublishOptions
from sowctl.engine.subscriptions.events import Event
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.values.times import system_clock
from tests.support.following import Holder, following, news
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.processes import Child

MakeLab = Callable[..., Lab]
KEYS = 40


def _publisher(lab: Lab, topic_names: Sequence[str], number: int, rounds: int) -> Callable[[Child], None]:
    """Publish batches of few or many messages, with a sequence that identifies each of them."""

    def work(child: Child) -> None:
        chance = random.Random(number)
        instance = lab.open(lock_wait=60)
        os.read(child.inlet, 1)
        sent = 0
        for _ in range(rounds):
            topic = chance.choice(topic_names)
            texts = []
            for _ in range(chance.choice((1, 1, 3, 30))):
                sent += 1
                texts.append(message(id=chance.randrange(KEYS), who=number, n=sent).encode())
            publish_messages(instance, topic, [("in", ListSource(texts))], PublishOptions(client=f"p{number}"))
        child.say("done")

    return work


def _settled(lab: Lab, topic_names: Sequence[str]) -> dict[tuple[str, str], bytes]:
    """Return the records of all topics after everything was published."""
    found = {}
    for topic in topic_names:
        for record in lab.open().topic(topic).query().records():
            found[topic, str(record.sow_key)] = bytes(record.payload)
    return found


def _ordered(events: Sequence[Event]) -> None:
    """Assert that messages are in txid order, each once, and all after the instant of the group."""
    (instant,) = {event.txid for event in events if event.command in ("group_begin", "group_end")}
    assert instant is not None
    txids = [event.txid for event in events if event.command == "publish"]
    assert txids == sorted(set(txids))  # type: ignore[type-var]
    assert all(txid is not None and txid > instant for txid in txids)
    assert all(event.txid is not None and event.txid <= instant for event in events if event.command == "sow")


def test_copies_of_subscribers_that_begin_among_writers_are_exact(make_lab: MakeLab, seed: int, deep: bool) -> None:
    topic_names = ("a", "b", "c")
    lab = make_lab(config_xml("".join(map(topic_xml, topic_names)), topic_names))
    lab.clock = system_clock  # type: ignore[assignment]
    lab.journal_size = 60_000
    for topic in topic_names:
        lab.publish(topic, *(message(id=number, who=0, n=0) for number in range(KEYS)))
    rounds = 400 if deep else 80
    publishers = [Child(_publisher(lab, topic_names, seed + number, rounds)) for number in range(3)]
    held: list[tuple[str, Holder, list[Event]]] = []
    running = []
    try:
        for child in publishers:
            os.write(child.feed, b"x")
        begin = time.monotonic()
        chance = random.Random(seed)
        while not all(child.ended() for child in publishers):
            if len(running) < 12:
                target = chance.choice((*topic_names, "^[abc]$", "^[ab]$"))
                running.append(following(lab, target))
                held.append((target, Holder(), []))
            for subscription, (_, holder, seen) in zip(running, held, strict=True):
                events = news(subscription)
                holder.take(events)
                seen += events
            assert time.monotonic() - begin < 120
        for child in publishers:
            assert child.join() == 0
        final = _settled(lab, topic_names)
        for subscription, (target, holder, seen) in zip(running, held, strict=True):
            events = news(subscription)
            holder.take(events)
            seen += events
            names = [name for name in topic_names if target == name or (target[0] == "^" and name in target)]
            assert holder.held == {place: payload for place, payload in final.items() if place[0] in names}
            _ordered(seen)
            # no message of a publisher is missing between its first and last one here
            for topic in names:
                numbers: dict[int, list[int]] = {}
                for event in seen:
                    if event.command == "publish" and event.topic == topic and event.data is not None:
                        row = json.loads(event.data)
                        numbers.setdefault(row["who"], []).append(row["n"])
                for sent in numbers.values():
                    assert sent == sorted(set(sent))
    finally:
        for subscription in running:
            subscription.close()
        for child in publishers:
            child.kill()
            child.forget()
