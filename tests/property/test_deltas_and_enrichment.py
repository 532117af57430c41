"""Laws of the publish path: how messages are cut into batches changes nothing, and what is journalled is finished.

Random runs of publishes, deltas, deletions (by envelopes among the messages, and by filter) and clock steps go to twin
topics, message by message to the one and in batches to the other, with preprocessing, enrichment that looks at the
record before, expiration and history. Contents, times and stamps are equal, also those of a plain model of the rules;
stores that are rebuilt from the journal equal those that grew, although the functions of enrichment would give other
values today.
"""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import MissingError
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, topic_xml, verified

FIELDS = (
    "COALESCE(/n OF PREVIOUS, 0) + 1 AS /n",
    "IF(/v OF CURRENT IS NULL, /v OF PREVIOUS, /v OF CURRENT * 2) AS /v HINT OPTIONAL, SET_CURRENT",
    "CONCAT(/v, '@', UNIX_TIMESTAMP()) AS /log",
)
ENRICHMENT = f"<Enrichment>{''.join(f'<Field>{text}</Field>' for text in FIELDS)}</Enrichment>"
PREPROCESSING = "<Preprocessing><Field>/key * 10 AS /id</Field></Preprocessing>"
KINDS = {
    "plain": "",
    "enriched": ENRICHMENT,
    "quotes": PREPROCESSING + ENRICHMENT + "<Expiration>20s</Expiration>",
    "past": PREPROCESSING + "<History><Window>1h</Window><Granularity>0s</Granularity></History>",
}
NAMES = tuple(f"{kind}-{way}" for kind in KINDS for way in ("single", "batch"))
XML = config_xml("".join(topic_xml(name, KINDS[name.partition("-")[0]]) for name in NAMES), NAMES)

SCALAR = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from(["", "x", "1.50"]))
BODY = st.dictionaries(
    st.sampled_from(["v", "a", "b", "o"]), st.one_of(SCALAR, st.dictionaries(st.sampled_from("pq"), SCALAR, max_size=2))
)
COMMAND = st.sampled_from(["publish", "publish", "delta_publish", "delta_publish", "sow_delete"])
MESSAGE = st.tuples(st.integers(1, 3), BODY, COMMAND, st.sampled_from([None, None, None, 0, 5]))
STEP = st.one_of(
    st.tuples(st.just("publish"), st.lists(MESSAGE, min_size=1, max_size=7)),
    st.tuples(st.just("publish"), st.lists(MESSAGE, min_size=1, max_size=7)),
    st.tuples(st.just("delete"), st.integers(1, 3)),
    st.tuples(st.just("clock"), st.sampled_from([1, 4, 25])),
)


def _envelopes(kind: str, messages: list[tuple]) -> list[bytes]:  # type: ignore[type-arg]
    lines = []
    for number, (key, body, command, lifetime) in enumerate(messages):
        name = "key" if "Preprocessing" in KINDS[kind] else "id"
        row = {"command": command, "data": {name: key} | body}
        row |= {} if lifetime is None else {"expiration": lifetime}
        row |= {"correlation_id": f"c{number}"} if number % 3 == 0 else {}
        lines.append(json.dumps(row).encode() + b"\n")
    return lines


def _send(lab: Lab, topic: str, lines: list[bytes]) -> None:
    source = FrameReader(io.BytesIO(b"".join(lines)), "envelope")
    publish_messages(lab.open(), topic, [("in", source)], PublishOptions(batch=1 if topic.endswith("single") else 4))


def _state(lab: Lab, topic: str) -> list[tuple[object, ...]]:
    """What is there, keys apart: those of twins differ."""
    with suppress(MissingError):
        records = lab.records(topic)
        return sorted(
            (json.loads(r.payload)["id"], r.payload.decode(), r.timestamp, r.expiration, r.correlation_id)
            for r in records
        )
    return []


@dataclass
class Model:
    """The topic ``plain`` by the rules alone: records by key, with their members."""

    records: dict[int, dict[str, object]] = field(default_factory=dict)

    def publish(self, key: int, body: dict[str, object], command: str) -> None:
        whole = {"id": key} | body
        if command == "sow_delete":
            self.records.pop(key, None)
            return
        delta = command == "delta_publish"
        self.records[key] = _merged(self.records[key], whole) if delta and key in self.records else whole


def _is_null(value: object) -> bool:
    return value in (None, "") or (isinstance(value, dict) and all(map(_is_null, value.values())))


def _merged(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    result = dict(old)
    for name, value in new.items():
        before = result.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            result[name] = _merged(before, value)
        elif not _is_null(value):
            result[name] = _merged({}, value) if isinstance(value, dict) else value
    return result


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, min_size=1, max_size=8))
def test_batches_change_nothing_and_the_journal_is_finished(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as place, verified(Lab(Path(place) / "lab", XML)) as lab:
        model = Model()
        for verb, what in steps:
            if verb == "clock":
                lab.clock.tick(what)
                continue
            for topic in NAMES:
                kind = topic.partition("-")[0]
                if verb == "publish":
                    _send(lab, topic, _envelopes(kind, what))
                elif lab.store(topic).exists():
                    lab.open().topic(topic).delete(filter=f"/id IN ({what}, {what * 10})")
            if verb == "publish":
                for key, body, command, _ in what:
                    model.publish(key, body, command)
            else:
                model.records.pop(what, None)
        for kind in KINDS:
            assert _state(lab, f"{kind}-batch") == _state(lab, f"{kind}-single")
        assert [json.loads(str(row[1])) for row in _state(lab, "plain-batch")] == [
            model.records[key] for key in sorted(model.records)
        ]
        before = {topic: lab.digest(topic) for topic in NAMES if lab.store(topic).exists()}
        lab.clock.tick(1)
        later = {topic: lab.digest(topic) for topic in before}
        for topic in before:
            lab.forget(topic)
            lab.open().topic(topic).replay(rebuild=True)
        assert {topic: lab.digest(topic) for topic in before} == later
