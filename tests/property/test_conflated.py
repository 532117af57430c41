"""Law: a conflated topic that ticked at random instants showed what is computed from the journal for these instants."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from sowctl.engine.verbs.conflate import advance_conflated
from tests.support.conflation import conflate, find_state
from tests.support.examples import choose_cases
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

CONFLATED = """
<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></ConflatedTopic>
<ConflatedTopic><Name>f</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>
<Interval>3s</Interval><Filter>/v &lt; 6</Filter></ConflatedTopic>
<ConflatedTopic><Name>cc</Name><MessageType>json</MessageType><UnderlyingTopic>f</UnderlyingTopic>
<Interval>2s</Interval></ConflatedTopic>
<View><Name>sums</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>
<Projection><Field>/g AS /id</Field><Field>SUM(/v) AS /v</Field></Projection><Grouping><Field>/g</Field></Grouping>
</View>
<ConflatedTopic><Name>cv</Name><MessageType>json</MessageType><UnderlyingTopic>sums</UnderlyingTopic>
<Interval>4s</Interval></ConflatedTopic>
<View><Name>most</Name><MessageType>json</MessageType><UnderlyingTopic>cv</UnderlyingTopic>
<Projection><Field>1 AS /id</Field><Field>MAX(/v) AS /v</Field></Projection><Grouping><Field>/none</Field></Grouping>
</View>
"""
LIFE = 7
EXPIRES = f"<Expiration>{LIFE}s</Expiration>"
Events = dict[int, list[tuple[int, int | None]]]


def with_expiry(events: Events, life: int, until: int) -> Events:
    found: Events = {}
    for key, some in events.items():
        for place, (time, value) in enumerate(some):
            found.setdefault(key, []).append((time, value))
            over = time + life * SECOND
            following = some[place + 1][0] if place + 1 < len(some) else until + 1
            if value is not None and over <= following and over <= until:
                found[key].append((over, None))
    return found


def sums(events: Events) -> Events:
    """The rows of the view: changes of the sums of the odd and the even keys."""
    found: Events = {}
    present: dict[int, int] = {}
    # What happens at one instant comes key by key in the order of the log, an expiry first; no test needs more.
    order = sorted((time, place, key) for key, some in events.items() for place, (time, _) in enumerate(some))
    for time, place, key in order:
        before = _groups(present)
        value = events[key][place][1]
        present.pop(key, None)
        if value is not None:
            present[key] = value
        after = _groups(present)
        for group in before.keys() | after.keys():
            if before.get(group) != after.get(group):
                found.setdefault(group, []).append((time, after.get(group)))
    return found


def most(events: Events, until: int) -> Events:
    there = find_state(events, until)
    return {1: [(until, max(there.values()))]} if there else {}


def _groups(present: dict[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for key, value in present.items():
        found[key % 2] = found.get(key % 2, 0) + value
    return found


def shown(lab: Lab, name: str, at: int | None = None) -> dict[int, int]:
    found = [json.loads(payload) for payload in lab.query(name, at=at)]
    return {one["id"]: one["v"] for one in found}


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("seed", choose_cases(range(3), 1))
def test_ticked_is_computed(seed: int, lives: bool, tmp_path: Path) -> None:
    source = random.Random(seed)
    topics_xml = topic_xml("t", EXPIRES if lives else "") + topic_xml("other") + CONFLATED
    lab = Lab(tmp_path / "lab", config_xml(topics_xml, ("t", "other")))
    events: Events = {}
    ticked: dict[tuple[str, int], dict[int, int]] = {}
    for _ in range(60):
        # Also several at one instant, and at the very ends of intervals.
        lab.clock.at += source.choice([0, 1, 500_000, SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND, 4_999_999])
        draw = source.random()
        key, value, present = source.randrange(4), source.randrange(10), lab.clock.at
        if draw < 0.6 and source.random() < 0.2:
            # Journalled with a time that is over; within a topic times never decrease.
            lab.clock.at -= source.choice([1, 300_000, 2 * SECOND])
        last = max((some[-1][0] for some in events.values()), default=0)
        now = max(lab.clock.at, last) if draw < 0.6 else present
        if draw < 0.6:
            # What was seen of its instant and behind it was seen too early.
            ticked = {what: found for what, found in ticked.items() if what[1] < now}
        if draw < 0.45:
            lab.publish("t", message(id=key, v=value, g=key % 2))
            events.setdefault(key, []).append((now, value))
        elif draw < 0.6:
            if lab.open().topic("t").delete(filter=f"/id = {key}").deleted:
                events[key].append((now, None))
        elif draw < 0.65:
            lab.publish("other", message(id=key))
        elif draw < 0.9:
            for name in source.sample(["c", "f", "cc", "cv", "most"], 2):
                ticked[name, now] = shown(lab, name)
        else:
            list(advance_conflated(lab.open()))
        lab.clock.at = present
    end = lab.clock.at
    lab.clock.tick(60)
    for path in lab.directory.rglob("*-views"):
        shutil.rmtree(path)
    for (name, now), found in ticked.items():
        assert shown(lab, name, at=now) == found, (name, now - START)
        source_events = with_expiry(events, LIFE, now) if lives else events
        kept = {k: [(t, v if v is not None and v < 6 else None) for t, v in some] for k, some in source_events.items()}
        wanted = {
            "c": lambda now=now, some=source_events: conflate(some, 5, now),
            "f": lambda now=now, some=kept: conflate(some, 3, now),
            "cv": lambda now=now, some=source_events: conflate(sums(some), 4, now),
            "most": lambda now=now, some=source_events: most(conflate(sums(some), 4, now), now),
            "cc": lambda now=now, some=kept: conflate(conflate(some, 3, now), 2, now),
        }[name]()
        assert find_state(wanted, now) == found, (name, now - START)
    assert len(ticked) > 3
    assert end > START
