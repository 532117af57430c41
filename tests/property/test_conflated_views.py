"""Laws of conflated topics over views: they show what a plain model shows at every instant.

The first model applies one change after the other to dictionaries, joins and groups all records in loops, and notes
which groups have another message than before: an update that another one of the same instant reverts is a change, too.
The second one computes the view, of any definition over topics, as of the instant of each change. (In a view over a
view, one change may be several: of the inner view, each group that changes is an update of its own.)
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.verbs.conflate import advance_conflated
from sowctl.errors import MissingError
from tests.property.test_views import BODY, NAME, TOPICS, done, joined, single
from tests.support.conflation import conflate, find_state
from tests.support.examples import examples
from tests.support.instances import SECOND, START, Lab, config_xml, topic_xml

LIFE = 7
INTERVAL = 4


def view_xml(name: str, source: str, qualifier: str, grouping: str) -> str:
    orders = f"{qualifier}/v"
    fields = (
        f"{grouping} AS /name", f"COUNT({qualifier}/id) AS /n", f"SUM({orders}) AS /sum", f"MIN({orders}) AS /least",
        f"MAX({orders}) AS /most", f"COUNT_DISTINCT({orders}) AS /kinds",
    )  # fmt: skip
    return (
        f"<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Projection>{''.join(f'<Field>{field}</Field>' for field in fields)}</Projection>"
        f"<Grouping><Field>{grouping}</Field></Grouping></View>"
        f"<ConflatedTopic><Name>slow-{name}</Name><MessageType>json</MessageType>"
        f"<UnderlyingTopic>{name}</UnderlyingTopic><Interval>{INTERVAL}s</Interval></ConflatedTopic>"
    )


VIEWS = view_xml("alone", "orders", "", "/client") + view_xml(
    "named", "<Join>[orders]./client = [clients]./code</Join>", "[orders].", "[clients]./name"
)
NAMES = ("alone", "named")
CODE = st.sampled_from(["a", "b", "c"])
# Values that take each other's place leave a group as it was: an update that is none.
ORDER = st.fixed_dictionaries({"id": st.integers(1, 6), "client": CODE}, optional={"v": st.integers(-1, 1)})
CLIENT = st.fixed_dictionaries({"id": st.integers(1, 4), "code": CODE}, optional={"name": st.sampled_from("xy")})
STEP = st.one_of(
    st.tuples(st.just("orders"), st.lists(ORDER, min_size=1, max_size=3)),
    st.tuples(st.just("clients"), st.lists(CLIENT, min_size=1, max_size=2)),
    st.tuples(st.just("delete"), st.tuples(st.sampled_from(["orders", "clients"]), st.integers(1, 6))),
    st.tuples(st.just("read"), st.sampled_from(NAMES)),
    st.tuples(st.just("conflate"), st.none()),
)
# Also several steps at one instant, and at the very end of an interval or of a lifetime.
PAUSE = st.sampled_from([0, 0, 1, 2 * SECOND, 3_999_999, INTERVAL * SECOND, 5 * SECOND, LIFE * SECOND])


class Change(NamedTuple):
    """A change of a topic, as its journal has it. Of one instant, those of orders come first, and expiries before."""

    time: int
    topic: int
    rank: int
    key: int
    body: dict[str, Any] | None
    txid: int

    @property
    def record(self) -> tuple[int, int]:
        return self.topic, self.key


class Model:
    """Changes of two topics, and what follows from them."""

    def __init__(self, life: int | None) -> None:
        self._life = life
        self._changes: list[Change] = []
        self._txid = 0

    def publish(self, topic: int, key: int, body: dict[str, Any] | None, time: int) -> None:
        self._txid += 1
        self._changes.append(Change(time, topic, self._txid, key, body, self._txid))

    def _all_changes(self, until: int) -> list[Change]:
        found = list(self._changes)
        if self._life is not None:
            for place, one in enumerate(self._changes):
                over = one.time + self._life * SECOND
                following = [other.time for other in self._changes[place + 1 :] if other.record == one.record]
                if one.topic == 0 and one.body is not None and over <= min([until, *following[:1]]):
                    found.append(one._replace(time=over, rank=0, body=None))
        return sorted(one for one in found if one.time <= until)

    def is_alive(self, topic: int, key: int, now: int) -> bool:
        """Whether a topic has a record."""
        mine = [one.body for one in self._all_changes(now) if one.record == (topic, key)]
        return bool(mine) and mine[-1] is not None

    def row_changes(self, name: str, until: int) -> dict[str | None, list[tuple[int, str | None]]]:
        """The changes of each group of a view: message and txid since then."""
        records: tuple[dict[int, Change], dict[int, Change]] = {}, {}
        found: dict[str | None, list[tuple[int, str | None]]] = {}
        before: dict[str | None, tuple[str, int]] = {}
        for change in self._all_changes(until):
            records[change.topic].pop(change.key, None)
            if change.body is not None:
                records[change.topic][change.key] = change
            after = dict(_group(_rows(name, *records)))
            for group in before.keys() | after.keys():
                message, txid = after.get(group, (None, 0))
                if message != before.get(group, (None, 0))[0]:
                    found.setdefault(group, []).append((change.time, message and f"{txid} {message}"))
            before = after
        return found


def _rows(
    name: str, orders: dict[int, Change], clients: dict[int, Change]
) -> Iterator[tuple[str | None, int | None, int]]:
    """Group, value and txid of each row."""
    for order in orders.values():
        assert order.body is not None
        code, value = order.body["client"], order.body.get("v")
        if name == "alone":
            yield code, value, order.txid
            continue
        partners = [(one.body, one.txid) for one in clients.values() if one.body is not None]
        met = [(body.get("name"), txid) for body, txid in partners if body["code"] == code]
        for group, txid in met or [(None, 0)]:
            yield group, value, max(order.txid, txid)


def _group(
    rows: Iterator[tuple[str | None, int | None, int]],
) -> Iterator[tuple[str | None, tuple[str, int]]]:
    groups: dict[str | None, list[tuple[int | None, int]]] = {}
    for group, value, txid in rows:
        groups.setdefault(group, []).append((value, txid))
    for group, some in groups.items():
        values = [value for value, _ in some if value is not None]
        results = (sum(values), min(values), max(values)) if values else (None, None, None)
        named = dict(zip(("sum", "least", "most"), results, strict=True))
        body = {"name": group, "n": len(some), **named, "kinds": len(set(values))}
        yield group, (json.dumps(body, separators=(",", ":")), max(txid for _, txid in some))


def shown(lab: Lab, name: str, at: int | None = None) -> list[str]:
    """The messages of a conflated topic, each behind its txid."""
    return sorted(f"{record.txid} {record.payload.decode()}" for record in lab.records(f"slow-{name}", at=at))


def wanted(model: Model, name: str, now: int) -> list[str]:
    return sorted(find_state(conflate(model.row_changes(name, now), INTERVAL, now), now).values())


@pytest.mark.parametrize("life", [None, LIFE])
@settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
    deadline=None,
)
@given(steps=st.lists(st.tuples(PAUSE, STEP), min_size=4, max_size=16))
def test_a_conflated_view_shows_what_a_model_shows(life: int | None, steps: Sequence[tuple[int, Any]]) -> None:
    orders = topic_xml("orders", "" if life is None else f"<Expiration>{life}s</Expiration>")
    with tempfile.TemporaryDirectory() as place:
        topics = ("orders", "clients")
        lab = Lab(Path(place) / "lab", config_xml(orders + topic_xml("clients") + VIEWS, topics))
        model = Model(life)
        instants = [START]
        for pause, (what, value) in steps:
            lab.clock.at += pause
            now = lab.clock.at
            instants += [now, now + INTERVAL * SECOND - 1, now + INTERVAL * SECOND]
            if what in topics:
                lab.open().topic(what).publish([json.dumps(body).encode() for body in value])
                for body in value:
                    model.publish(topics.index(what), body["id"], body, now)
            elif what == "delete":
                topic, key = value
                if model.is_alive(topics.index(topic), key, now):
                    model.publish(topics.index(topic), key, None, now)
                with suppress(MissingError):
                    lab.open().topic(topic).delete(filter=f"/id = {key}")
            elif what == "read":
                assert shown(lab, value) == wanted(model, value, now)
            else:
                list(advance_conflated(lab.open()))
        lab.clock.at = max(instants) + LIFE * SECOND
        for path in lab.directory.rglob("*-views"):
            shutil.rmtree(path)
        for now in instants:
            for name in NAMES:
                assert shown(lab, name, now) == wanted(model, name, now), (name, now - START)


SLOW = (
    "<ConflatedTopic><Name>slow-view</Name><MessageType>json</MessageType><UnderlyingTopic>view</UnderlyingTopic>"
    f"<Interval>{INTERVAL}s</Interval></ConflatedTopic>"
)
VIEW_LIFE = 20
ONE_CHANGE = st.one_of(
    st.tuples(st.sampled_from(["publish", "publish", "delta"]), NAME, st.tuples(st.integers(1, 6), BODY)),
    st.tuples(st.just("delete"), NAME, st.integers(1, 6)),
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    xml=st.one_of(single(), joined(), joined()),
    steps=st.lists(st.tuples(st.sampled_from([1, 7, SECOND, 3 * SECOND]), ONE_CHANGE), min_size=6, max_size=20),
)
def test_a_conflated_view_shows_the_view_of_earlier_instants(xml: str, steps: Sequence[tuple[int, Any]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        lab = Lab(Path(place) / "lab", config_xml(TOPICS + xml + SLOW, ("A", "B", "C")))
        instants = []
        for pause, (what, name, value) in steps:
            # One change at each instant, so that no state between two of them is missed.
            lab.clock.at += pause
            instants.append(lab.clock.at)
            done(lab, (what, name, value if what == "delete" else [value]))
        instants = sorted([*instants, *(now + VIEW_LIFE * SECOND for now in instants)])
        lab.clock.at = instants[-1] + INTERVAL * SECOND + 1
        changes: dict[bytes, list[tuple[int, str | None]]] = {}
        before: dict[bytes, bytes] = {}
        for now in instants:
            records = {record.key: record for record in lab.records("view", at=now)}
            after = {key: record.payload for key, record in records.items()}
            for key in before.keys() | after.keys():
                if before.get(key) != after.get(key):
                    value = f"{records[key].txid} {after[key].decode()}" if key in after else None
                    changes.setdefault(key, []).append((now, value))
            before = after
        for now in [*instants, *(one + INTERVAL * SECOND for one in instants)]:
            assert shown(lab, "view", now) == sorted(find_state(conflate(changes, INTERVAL, now), now).values())
