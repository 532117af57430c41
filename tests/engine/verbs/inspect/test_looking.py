"""schema and stats: their reports on records of topics, and on the journal."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.profile.sample import SampleShare
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.inspect.schema import SchemaReport, profile_schema
from sowctl.engine.verbs.inspect.stats import (
    MAX_FIELDS,
    STATS_LIMITS,
    EntryRange,
    StatsReport,
    compute_stats,
    count_rates,
)
from sowctl.engine.verbs.query import start_query
from sowctl.errors import UsageError
from sowctl.values.paths import parse_path
from tests.engine.conftest import MakeLab
from tests.support.instances import START, Lab, config_xml, message, topic_xml

MINUTE = 60_000_000


def schema_of(lab: Lab, share: SampleShare | None = None, **options: object) -> SchemaReport:
    with lab.open() as instance:
        targets = resolve_targets(instance, "t", derived=True)
        with closing(start_query(instance, targets, QueryOptions(**options))) as result:  # type: ignore[arg-type]
            return profile_schema(result, "t", instance.find_message_type("json"), share)


def stats_of(
    lab: Lab, *paths: str, share: SampleShare | None = None, top: int = 5, batch: int = 1000, type_name: str = "json"
) -> StatsReport:
    with lab.open() as instance:
        targets = resolve_targets(instance, "t", derived=True)
        kind = instance.find_message_type(type_name)
        return compute_stats(
            lambda: closing(start_query(instance, targets, QueryOptions(batch_size=batch))),
            "t",
            kind,
            list(map(parse_path, paths)),
            share,
            top=top,
        )


def _message(n: int) -> str:
    extra = {"note": "late"} if n % 10 == 0 else {}
    return message(id=n, price=n / 4, tags=["x"] * (n % 3), **extra)


@pytest.fixture
def filled(make_lab: MakeLab) -> Lab:
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    for minute in range(4):
        for start in (1, 2):
            numbers = range(50 * minute + start, 50 * minute + 51, 2)
            lab.publish("t", *map(_message, numbers), client="ab"[start % 2])
        lab.clock.tick(60)
    lab.publish("u", message(id=1))
    return lab


def test_a_schema_reads_all_records_that_match(filled: Lab) -> None:
    report = schema_of(filled, filter="/id > 100")
    assert (report.records, report.looked_at, report.unreadable) == (100, 100, 0)
    facts = {one.path: one for one in report.paths}
    assert list(facts) == ["/id", "/price", "/tags", "/tags[*]", "/note"]
    assert (facts["/id"].types, facts["/id"].distinct, facts["/id"].distinct_error) == ({"integer": 100}, 100, None)
    assert facts["/price"].types == {"number": 100}
    assert facts["/tags"].items == (0, 2)
    assert (facts["/note"].missing, facts["/note"].examples) == (90, ["late"])


@pytest.mark.parametrize(("share", "least", "most"), [(SampleShare(most=20), 20, 20), (SampleShare(part=0.3), 30, 90)])
def test_a_sample_is_the_same_in_every_run(filled: Lab, share: SampleShare, least: int, most: int) -> None:
    report = schema_of(filled, share)
    assert report.records == 200
    assert least <= report.looked_at <= most
    assert report.paths == schema_of(filled, share).paths
    assert stats_of(filled, "/id", share=share).looked_at == report.looked_at


def test_figures_of_named_fields(filled: Lab) -> None:
    price, tags, note = stats_of(filled, "/price", "/tags", "/note").fields
    assert price.numbers is not None
    assert (price.numbers.minimum, price.numbers.maximum, price.numbers.mean) == (0.25, 50.0, 25.125)
    assert price.numbers.quantiles["50%"] == 25.0
    assert price.numbers.rank_error is None
    assert [bar.count for bar in price.numbers.histogram] == [19] + [20] * 8 + [21]
    assert (tags.records, tags.without, tags.values) == (134, 66, 201)
    assert [(one.value, one.count) for one in tags.top] == [("x", 201)]
    assert (note.records, note.without, note.shortest, note.longest, note.first) == (20, 180, 4, 4, "late")


def test_fields_are_found_where_none_is_named(filled: Lab) -> None:
    report = stats_of(filled)
    assert [one.path for one in report.fields] == ["/id", "/price", "/tags", "/note"]
    assert report.fields == stats_of(filled, "/id", "/price", "/tags", "/note").fields


def test_of_too_many_fields_the_first_are_looked_at(filled: Lab) -> None:
    filled.publish("t", json.dumps({"id": 0} | {f"f{n}": n for n in range(MAX_FIELDS)}))
    report = stats_of(filled)
    assert (len(report.fields), report.left_out) == (MAX_FIELDS, 4)


def test_messages_without_fields_have_no_figures(filled: Lab) -> None:
    with filled.open() as instance, pytest.raises(UsageError) as caught:
        compute_stats(lambda: closing(start_query(instance, [])), "t", instance.find_message_type("binary"), [])
    assert caught.value.code == "SOW-STA-001"


def test_rates_count_messages_by_topic_client_and_time(filled: Lab) -> None:
    with filled.open() as instance:
        report = count_rates(instance, [], EntryRange(), interval=MINUTE)
        assert (report.begin, report.interval, report.messages) == (START, MINUTE, 201)
        found = {(one.topic, one.client): one.counts for one in report.series}
        assert found == {
            ("t", "b"): [25, 25, 25, 25, 0],
            ("t", "a"): [25, 25, 25, 25, 0],
            ("u", None): [0, 0, 0, 0, 1],
        }
        part = EntryRange(from_time=START + MINUTE, to_time=START + 2 * MINUTE, client="a")
        (one,) = count_rates(instance, ["t"], part, interval=MINUTE).series
        assert (one.counts, one.messages) == ([25, 25], 50)
        (few,) = count_rates(instance, ["t"], EntryRange(from_txid=21, to_txid=30, client="b"), interval=MINUTE).series
        assert few.messages == 5


def test_intervals_become_longer_where_they_are_too_many(filled: Lab) -> None:
    with filled.open() as instance:
        report = count_rates(instance, ["t"], EntryRange(), interval=10_000)
    # Three minutes in at most 10,000 intervals.
    assert report.interval == 20_000
    assert report.messages == 200
    assert sum(map(sum, (one.counts for one in report.series))) == 200


def test_deletions_are_no_messages(filled: Lab) -> None:
    with filled.open() as instance:
        instance.topic("u").delete(filter="/id = 1")
        assert count_rates(instance, ["u"], EntryRange()).messages == 1


def test_names_that_filters_cannot_write_are_left_out(lab: Lab) -> None:
    lab.publish("t", b'{"id":1,"x]":1,"":2,"[*]":3,"ok":4}')
    found = stats_of(lab)
    assert {one.path for one in found.fields} >= {"/id", "/ok"}
    assert found.left_out == 5 - len(found.fields)
    assert found.left_out > 0


def test_figures_of_many_values_are_those_of_a_part(filled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = stats_of(filled)
    assert (whole.searched, whole.looked_at, whole.records) == (None, 200, 200)
    monkeypatch.setattr(STATS_LIMITS, "probe_batch_records", 1)
    monkeypatch.setattr(STATS_LIMITS, "max_probed_values", 50)
    found = stats_of(filled, batch=5)
    assert found.searched is not None
    assert 10 < found.searched < 30
    assert found.looked_at == found.records == 200
    # Fields found by the probe have all their values; the fields of an empty array have none.
    assert {one.path for one in found.fields} <= {one.path for one in whole.fields}
    assert {one.path: one.values for one in found.fields}["/price"] == 200
    monkeypatch.setattr(STATS_LIMITS, "max_values", 300)
    part = stats_of(filled, batch=5)
    assert part.looked_at < 150
    assert part.records == 200
    assert part == stats_of(filled, batch=5)
    monkeypatch.setattr(STATS_LIMITS, "max_values", 1 << 40)
    monkeypatch.setattr(STATS_LIMITS, "max_message_bytes", 2000)
    assert stats_of(filled).looked_at < 150
    # Explicitly requested fields are complete.
    assert stats_of(filled, "/id", "/price").looked_at == 200
    assert stats_of(filled, share=SampleShare(part=1.0)).looked_at == 200


def test_texts_that_look_like_numbers_are_told_apart_and_count_as_numbers(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", key="/11").replace("json", "fix"), ()))
    texts = ["00123", "123", "1.50", "2.25", "x", "00123"]
    lab.publish("t", *[f"11=k{number}\x011={text}\x01" for number, text in enumerate(texts)])
    (found,) = stats_of(lab, "/1", type_name="fix").fields
    assert found.types == {"string": 4, "integer": 1, "number": 1}
    assert found.distinct == 5
    assert (found.top[0].value, found.top[0].count) == ("00123", 2)
    assert found.numbers is not None
    assert (found.numbers.count, found.numbers.minimum, found.numbers.maximum) == (5, 1.5, 123)
