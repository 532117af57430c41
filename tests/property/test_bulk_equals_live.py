"""A law: the same messages through publish and through a bulk commit have the same outcomes, records and journal.

Random rounds of messages go to twin instances, as one batch to the one and as a staged run to the other: times and
lifetimes of their own, deltas, correlation ids, keys that come again within a round and in later ones. In one form of
it all payloads have one staged hash, in another all keys fall on a few SOW keys, so that most of them collide. Payloads
that differ from a record's in one letter's case, a space or a last byte alone are changed ones to both.
"""

from __future__ import annotations

import io
import json
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.bulk.commit import RefusalReporting, commit_run
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.bulk.task import StageTask
from sowctl.engine.fold import limits
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import CommitReport, PublishReport, Rejected
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.publish import publish_messages
from sowctl.messages.framing.frames import FrameReader
from tests.support.examples import examples
from tests.support.instances import Lab
from tests.support.staged import make
from tests.support.verbs import small_folds

TOPICS = ("log", "alone", "past", "kept", "brief", "own", "rich")
COUNTS = ("messages", "published", "inserted", "updated", "unchanged", "rejected", "already_expired", "bytes", "ahead")
TXIDS = ("first_txid", "last_txid")
MESSAGE = st.fixed_dictionaries(
    {"id": st.integers(0, 3), "v": st.sampled_from([None, 1, 2, "x"]), "delta": st.booleans()},
    optional={
        "timestamp": st.integers(-3, 3),
        "expiration": st.sampled_from([0, 1, 100, "past", "later"]),
        "correlation_id": st.sampled_from(["a", "b"]),
    },
)
CLOSE = st.fixed_dictionaries(
    {
        "id": st.integers(0, 1),
        "v": st.sampled_from(["x", "X"]),
        "delta": st.just(False),
        "spaces": st.sampled_from([("", ""), (" ", ""), ("", " "), ("", "\n")]),
    }
)
"""Messages whose payloads differ in letter case, in white space within, or in last bytes."""
ROUND = st.tuples(st.lists(MESSAGE, min_size=1, max_size=8), st.integers(0, 8), st.sampled_from([0, 2, 40]))

Round = tuple[list[dict[str, object]], int, int]
"""Messages, the place between the two tasks, and the seconds behind the round."""


def _line(topic: str, row: dict[str, object], now: int) -> bytes:
    """The envelope of one message; times are seconds from ``now``."""
    found: dict[str, object] = {"command": "delta_publish" if row["delta"] else "publish"}
    if "timestamp" in row:
        found["timestamp"] = f"{now // 1_000_000 + int(str(row['timestamp']))}s"
    if "expiration" in row:
        ends = {"past": f"{now // 1_000_000 - 1}s", "later": f"{now // 1_000_000 + 9}s"}
        given = row["expiration"]
        found["expiration"] = ends.get(given, given) if isinstance(given, str) else given
    if "correlation_id" in row:
        found["correlation_id"] = row["correlation_id"]
    if topic == "own":
        found["sow_key"] = f"key{row['id']}"
    data = {"id": row["id"], "n": row["v"] if isinstance(row["v"], int) else 0, "v": row["v"]}
    if "spaces" in row:
        within, behind = row["spaces"]  # type: ignore[misc]
        text = json.dumps(data, separators=(",", f":{within}")) + behind
        # Only here can a message end with white space: ``data`` ends where its value does.
        return json.dumps(found | {"data_base64": b64encode(text.encode()).decode()}).encode() + b"\n"
    return json.dumps(found | {"data": data}).encode() + b"\n"


def _live(lab: Lab, topic: str, lines: list[bytes], options: PublishOptions) -> tuple[PublishReport, list[Rejected]]:
    rejected: list[Rejected] = []
    source = FrameReader(io.BytesIO(b"".join(lines)), "envelope")
    return publish_messages(lab.open(), topic, [("in", source)], options, on_reject=rejected.append), rejected


def _bulk(
    lab: Lab, topic: str, lines: list[bytes], options: PublishOptions, cut: int
) -> tuple[CommitReport, list[Rejected]]:
    """Two tasks, which have the messages before and behind ``cut``."""
    rejected: list[Rejected] = []
    instance = lab.open()
    with hold_staging_area(instance, instance.topic(topic).config) as area:
        plan = area.build_plan(options)
        done = []
        for number, part in enumerate((lines[:cut], lines[cut:])):
            with StageTask(plan, f"t{number}") as task:
                for chunk in FrameReader(io.BytesIO(b"".join(part)), "envelope"):
                    task.add_messages(chunk.payloads, number, range(len(chunk.payloads)), envelopes=chunk.envelopes)
                staged = task.finish()
                rejected += staged.samples
                done.append(staged)
        return commit_run(area, plan, done, refusals=RefusalReporting(on_reject=rejected.append)), rejected


def _journal(lab: Lab) -> list[tuple[object, ...]]:
    """Every entry of the journal with all that it says."""
    found: list[tuple[object, ...]] = []
    if not lab.journals():
        return found
    with open_log(lab.open()) as log:
        for block in log.iter_blocks():
            columns, payloads = block.decode_columns(), block.list_payloads()
            empty = [None] * len(block)
            for place in range(len(block)):
                words = slice(8 * place, 8 * place + 8)
                found.append(
                    (
                        block.first_txid + place,
                        block.topic_refs[columns.topic_indexes[place]],
                        columns.operations[place],
                        bytes(columns.keys[words]),
                        bytes(columns.checks[words]),
                        columns.times[place],
                        columns.expirations[place],
                        columns.flags[place],
                        (columns.user_keys or empty)[place],
                        (columns.correlation_ids or empty)[place],
                        payloads[place],
                    )
                )
    return found


def _same_hash(_: bytes) -> int:
    return 7


def _few_keys(digest: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Digests with two SOW keys, and check words as they would be."""
    return lambda data: bytes(7) + bytes((digest(data)[0] % 2,)) + digest(data)[8:]


@contextmanager
def _as(form: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as held:
        if form == "one hash":
            patch.setattr(xxhash, "xxh3_64_intdigest", _same_hash)
        elif form.startswith("few keys"):
            patch.setattr(xxhash, "xxh3_128_digest", _few_keys(xxhash.xxh3_128_digest))
        elif form == "small parts":
            held.enter_context(small_folds())
        if form.endswith("columns"):
            patch.setattr(limits, "MEMTABLE_LIMITS", limits.Limits(columned=0, columned_after=0))
        yield


@pytest.mark.parametrize("form", ["plain", "one hash", "few keys", "small parts", "columns", "few keys by columns"])
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TOPICS), st.lists(ROUND, min_size=1, max_size=3), st.booleans())
def test_a_bulk_commit_says_what_a_publish_says(form: str, topic: str, rounds: list[Round], update_only: bool) -> None:
    _say_the_same(form, topic, rounds, update_only=update_only)


@pytest.mark.parametrize("form", ["plain", "one hash", "columns"])
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["log", "alone", "own"]), st.lists(st.lists(CLOSE, min_size=4, max_size=12), min_size=2, max_size=3)
)
def test_both_see_every_difference_of_payloads(form: str, topic: str, rounds: list[list[dict[str, object]]]) -> None:
    _say_the_same(form, topic, [(messages, 0, 0) for messages in rounds])


@pytest.mark.parametrize("update_only", [False, True])
@pytest.mark.parametrize("other", [1, 2, 3])
def test_a_delta_behind_a_record_of_its_run_that_is_over(other: int, update_only: bool) -> None:
    """The record takes no delta any more, and its key is still taken: in one batch, and in two tasks of a run."""
    first: dict[str, object] = {"id": 0, "v": 1, "delta": False}
    over: dict[str, object] = {"id": other, "v": 1, "delta": False, "expiration": "past"}
    rounds = [([first], 0, 40), ([over, first | {"delta": True}], 1, 0)]
    _say_the_same("few keys", "brief", rounds, update_only=update_only)


PLAIN = st.fixed_dictionaries(
    {"id": st.integers(0, 5), "v": st.sampled_from([None, 1, "x"]), "delta": st.booleans()},
    optional={
        "timestamp": st.integers(-3, 3),
        "expiration": st.sampled_from([0, 100, "later"]),
        "correlation_id": st.sampled_from(["a", "b"]),
    },
)
"""Messages that neither have expired nor are refused, but for their times: these two things a batch sees as one."""


@pytest.mark.parametrize("form", ["plain", "columns"])
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["log", "alone", "past", "kept", "brief", "own"]),
    st.lists(PLAIN, min_size=1, max_size=8),
    st.data(),
)
def test_a_batch_of_one_says_what_a_batch_of_many_says(
    form: str, topic: str, messages: list[dict[str, object]], data: st.DataObject
) -> None:
    """Its bytes in the journal, what is read of it, the state of the store; and with the blocks cut anywhere."""
    size = data.draw(st.integers(1, len(messages)))
    with tempfile.TemporaryDirectory() as place:
        many, few, one = (make(Path(place) / name) for name in ("many", "few", "one"))
        lines = [_line(topic, row, many.clock()) for row in messages]
        with _as(form):
            told, refused = _live(many, topic, lines, PublishOptions(on_error="skip"))
            for lab, count in ((few, size), (one, 1)):
                report, also = _live(lab, topic, lines, PublishOptions(on_error="skip", batch=count))
                assert {n: getattr(report, n) for n in COUNTS} == {n: getattr(told, n) for n in COUNTS}
                assert _reasons(also, topic) == _reasons(refused, topic)
        first, *others = [
            (_journal(lab), lab.digest(topic), [(r.key, r.value) for r in lab.records(topic)])
            for lab in (many, few, one)
        ]
        assert others == [first, first]


def _say_the_same(form: str, topic: str, rounds: list[Round], *, update_only: bool = False) -> None:
    """Publish the rounds to the one instance and commit them to the other, and compare all that both say; then rebuild
    both from their journals.
    """
    options = PublishOptions(on_error="skip", update_only=update_only)
    with tempfile.TemporaryDirectory() as place, _as(form):
        live, bulk = make(Path(place) / "live"), make(Path(place) / "bulk")
        for messages, cut, pause in rounds:
            lines = [_line(topic, row, live.clock()) for row in messages]
            told, refused = _live(live, topic, lines, options)
            report, also = _bulk(bulk, topic, lines, options, cut)
            names = COUNTS + (TXIDS if told.published else ())
            assert {n: getattr(report, n) for n in names} == {n: getattr(told, n) for n in names}
            assert _reasons(also, topic) == _reasons(refused, topic)
            assert _journal(bulk) == _journal(live)
            if live.store(topic).exists():
                assert bulk.digest(topic) == live.digest(topic)
                held = [[(r.key, r.value) for r in lab.records(topic)] for lab in (bulk, live)]
                assert held[0] == held[1]
            live.clock.tick(pause)
            bulk.clock.tick(pause)
        # What both have published is what the journal says.
        for lab in (live, bulk):
            if lab.store(topic).exists() and lab.open().topic(topic).config.journalled:
                grown = lab.digest(topic)
                lab.forget(topic)
                assert lab.open().topic(topic).replay().action == "rebuilt"
                assert lab.digest(topic) == grown


def _reasons(refused: list[Rejected], topic: str) -> list[tuple[str, str, bytes | None]]:
    """What was refused and why. Of a message that was preprocessed before it was staged, its first form is gone."""
    return sorted((one.code, one.message, None if topic == "rich" else one.payload) for one in refused)
