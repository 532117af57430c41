"""replace: afterwards a topic equals the input, or is unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport
from sowctl.engine.verbs import replace as replace_module
from sowctl.engine.verbs.replace import ReplaceLimits
from sowctl.errors import InputError, RefusedError, UsageError
from sowctl.seam import Seam
from tests.support.faults import CountingSeam, choose_kills, died_at_call
from tests.support.instances import Lab, config_xml, message, topic_xml, verified

OLD = [message(id=number, v=0) for number in range(1, 8)]
NEW = [message(id=number, v=int(number == 2)) for number in (2, 3, 4, 9, 10)]


@pytest.fixture(params=["t", "alone", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


TOPICS = (
    topic_xml("t"),
    topic_xml("past", "<History><Window>1h</Window><Granularity>10s</Granularity></History>"),
    topic_xml("alone"),
)


def _replace(lab: Lab, topic: str, *messages: str, **options: object) -> PublishReport:
    return lab.publish(topic, *messages, replace_all=True, **options)


def _records(lab: Lab, topic: str) -> list[str]:
    return sorted(lab.query(topic))


def test_the_topic_has_the_records_of_the_input(lab: Lab, topic: str) -> None:
    lab.publish(topic, *OLD)
    lab.clock.tick(1)
    report = _replace(lab, topic, *NEW)
    assert (report.inserted, report.updated, report.unchanged, report.deleted) == (2, 1, 2, 4)
    assert (report.messages, report.published, report.durable) == (5, 7, True)
    assert report.last_txid - report.first_txid == 6
    assert _records(lab, topic) == sorted(NEW)
    assert _replace(lab, topic, *NEW).published == 0


def test_equal_records_keep_their_times_and_all_others_get_one(lab: Lab) -> None:
    lab.publish("t", *OLD)
    lab.clock.tick(60)
    _replace(lab, "t", *NEW)
    times = {json.loads(r.payload)["id"]: r.timestamp for r in lab.records("t")}
    assert times[3] == times[4] == lab.clock.at - 60_000_000
    assert {times[2], times[9], times[10]} == {lab.clock.at}


def test_the_last_message_of_a_key_counts_and_nothing_between(lab: Lab) -> None:
    lab.publish("t", OLD[0])
    report = _replace(lab, "t", message(id=1, v=5), OLD[0])
    assert (report.messages, report.published, report.unchanged) == (2, 0, 1)


def test_a_dry_run_counts_and_names_the_first_keys(lab: Lab, topic: str) -> None:
    lab.publish(topic, *OLD)
    before = lab.digest(topic)
    report = _replace(lab, topic, *NEW, dry_run=True)
    assert (report.inserted, report.updated, report.unchanged, report.deleted) == (2, 1, 2, 4)
    assert {(one.change, one.key) for one in report.first_changes} == {
        ("inserted", "9"), ("inserted", "10"), ("updated", "2"),
        ("deleted", "1"), ("deleted", "5"), ("deleted", "6"), ("deleted", "7"),
    }  # fmt: skip
    assert lab.digest(topic) == before


def test_a_topic_that_nothing_was_published_to(lab: Lab, topic: str) -> None:
    assert _replace(lab, topic, *NEW, dry_run=True).inserted == 5
    assert _replace(lab, topic, *NEW).inserted == 5
    assert _records(lab, topic) == sorted(NEW)


def test_an_invalid_message_ends_it_and_nothing_is_written(lab: Lab) -> None:
    lab.publish("t", *OLD)
    before = lab.digest("t")
    with pytest.raises(InputError) as caught:
        _replace(lab, "t", *NEW, "{")
    assert caught.value.hint is not None
    assert "skip" not in caught.value.hint
    assert lab.digest("t") == before


def test_an_empty_input_is_refused_unless_it_is_forced(lab: Lab) -> None:
    assert _replace(lab, "t").published == 0
    lab.publish("t", *OLD)
    with pytest.raises(RefusedError) as caught:
        _replace(lab, "t")
    assert caught.value.code == "SOW-PUB-033"
    assert len(lab.query("t")) == 7
    assert _replace(lab, "t", force=True).deleted == 7
    assert lab.query("t") == []


@pytest.mark.parametrize(
    "options", [{"on_error": "skip"}, {"delta": True}, {"sequence": 1, "client": "c"}, {"timestamp_field": "/at"}]
)
def test_options_that_do_not_fit_are_refused(lab: Lab, options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        _replace(lab, "t", *NEW, **options)
    assert caught.value.code == "SOW-PUB-032"


def test_a_topic_without_records_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t", "log")))
    with pytest.raises(UsageError) as caught:
        lab.open().publish("log", ["{}"], replace_all=True)
    assert caught.value.code == "SOW-PUB-031"


def test_a_time_before_the_last_one_of_the_topic_is_refused(lab: Lab) -> None:
    lab.publish("t", *OLD)
    with pytest.raises(InputError) as caught:
        _replace(lab, "t", *NEW, timestamp="2020-01-01T00:00:00Z")
    assert caught.value.code == "SOW-PUB-006"
    _replace(lab, "t", *NEW, timestamp="2030-01-01T00:00:00Z")
    assert max(r.timestamp for r in lab.records("t")) > lab.clock.at


def test_a_client_numbers_its_changes(lab: Lab, topic: str) -> None:
    lab.publish(topic, *OLD, client="c")
    _replace(lab, topic, *NEW, client="c")
    assert lab.publish(topic, *OLD[:2], client="c", sequence=13).duplicates == 2
    assert lab.publish(topic, *OLD[:2], client="c", sequence=15).published == 2


def test_one_logical_topic_is_replaced_and_no_other(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", "<Pattern>orders[.].*</Pattern>"), ("orders[.].*",)))
    instance = lab.open()
    for name in ("orders.a", "orders.b"):
        instance.publish(name, OLD)
    report = instance.publish("orders.a", NEW, replace_all=True)
    assert (report.inserted, report.updated, report.unchanged, report.deleted) == (2, 1, 2, 4)
    assert [len(list(instance.topic(name).query().records())) for name in ("orders.a", "orders.b")] == [5, 7]


def test_lifetimes_count_from_the_reading(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", "<Expiration>1h</Expiration>"), ("t",)))
    lab.publish("t", *OLD)
    lab.clock.tick(1800)
    assert _replace(lab, "t", *OLD).updated == 7
    lab.clock.tick(2400)
    assert len(lab.query("t")) == 7
    lab.clock.tick(1800)
    assert lab.query("t") == []


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_call_leaves_all_of_it_or_nothing(
    tmp_path: Path, topic: str, after: bool, seed: int, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace_module, "REPLACE_LIMITS", ReplaceLimits(part_records=2))

    def build(name: str) -> Lab:
        lab = Lab(tmp_path / name, config_xml("".join(TOPICS), ("t", "past")))
        lab.publish(topic, *OLD)
        return lab

    def work(lab: Lab, seam: Seam) -> None:
        lab.open(seam=seam).topic(topic).publish(NEW, PublishOptions(replace_all=True))

    counting = CountingSeam()
    work(build("count"), counting)
    whole = 0
    step = 1 if deep else 3 if topic == "t" else 6
    # The last call is always included: after it, all new records are visible.
    calls = choose_kills(counting.count, after=after)
    for call in [*calls[:-1][seed % step :: step], calls[-1]]:
        lab = build(f"{call}")
        assert died_at_call(call, lambda seam, lab=lab: work(lab, seam), after=after)  # type: ignore[misc]
        found = _records(lab, topic)
        assert found in (sorted(OLD), sorted(NEW))
        whole += found == sorted(NEW)
        assert _replace(lab, topic, *NEW).durable
        assert _records(lab, topic) == sorted(NEW)
        with verified(lab):
            pass
    # For the other topics, fewer calls are tested.
    assert whole or topic != "t"


Row = tuple[int, int]


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=12), min_size=1, max_size=4))
def test_a_replacement_is_the_state_of_the_emptied_topic(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[Row]]
) -> None:
    """The law: afterwards the topic holds the last message of each key, and a second replace writes nothing."""
    lab = Lab(tmp_path_factory.mktemp("lab"), config_xml(topic_xml("t"), ("t",)))
    before: dict[int, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replace_module, "REPLACE_LIMITS", replace_fields(ReplaceLimits(), part_records=3))
        for rows in rounds:
            messages = [message(id=key, v=value) for key, value in rows]
            now = {key: text for (key, _), text in zip(rows, messages, strict=True)}
            report = _replace(lab, "t", *messages, force=True)
            assert report.deleted == len(before.keys() - now.keys())
            assert report.inserted == len(now.keys() - before.keys())
            assert report.unchanged == len(before.items() & now.items())
            if now or before:
                assert _records(lab, "t") == sorted(now.values())
            assert _replace(lab, "t", *messages, force=True).published == 0
            before = now
