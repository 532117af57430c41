"""query: bounds, lookups, select lists, statistics, consistency (behaviour C56, C59, C61-C69, section 3)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.options import DeleteOptions, QueryOptions
from sowctl.engine.sources.current import CurrentSource
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.query import start_query
from sowctl.errors import MissingError, UsageError
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml


def _ids(payloads: list[str]) -> list[object]:
    return [json.loads(payload)["id"] for payload in payloads]


def test_a_topic_that_nobody_defined(lab: Lab) -> None:  # C56
    with pytest.raises(MissingError) as caught:
        lab.open().topic("nowhere")
    assert caught.value.exit_status == 10
    assert lab.query("t") == []


def test_paging(lab: Lab) -> None:  # C59
    lab.publish("t", *(message(id=i, orderId=i) for i in (204, 194, 72, 102)))
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=0)) == [72, 102]
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=2)) == [194, 204]
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=3)) == [204]
    assert _ids(lab.query("t", order_by="/orderId", top_n=2, skip_n=9)) == []


def test_skip_needs_top(lab: Lab) -> None:  # C61
    with pytest.raises(UsageError) as caught:
        lab.query("t", skip_n=2)
    assert caught.value.code == "SOW-QRY-010"


@pytest.mark.parametrize(("size", "fits"), [(0, False), (1, True), (10_000, True), (10_001, False)])
def test_batch_sizes(lab: Lab, size: int, fits: bool) -> None:  # C62
    lab.publish("t", message(id=1))
    if fits:
        assert len(lab.query("t", batch_size=size)) == 1
    else:
        with pytest.raises(UsageError):
            lab.query("t", batch_size=size)


@pytest.mark.parametrize("order", [None, "/id"])
def test_no_rows_but_statistics(lab: Lab, order: str | None) -> None:  # C63, 3.3
    lab.publish("t", *(message(id=i, s="ab"[i % 2]) for i in range(5)))
    result = lab.open().topic("t").query("/s = 'a'", top_n=0, order_by=order)
    assert list(result.records()) == []
    numbers = result.statistics[0]
    assert (numbers.examined, numbers.matched, numbers.returned) == (5, 3, 0)
    result = lab.open().topic("t").query("/s = 'a'", top_n=2, order_by=order)
    assert len(list(result.records())) == 2
    numbers = result.statistics[0]
    assert (numbers.examined, numbers.matched, numbers.returned) == (5, 3, 2)


def test_a_pattern_visits_topics_in_configuration_order(make_lab) -> None:  # type: ignore[no-untyped-def]  # C64, C65
    names = ("Topic_B", "Other", "Topic_A", "Topic_C")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in names:
        lab.publish(name, *(message(id=f"{name}{i}") for i in range(3)))
    instance = lab.open()
    result = start_query(instance, resolve_targets(instance, "^Topic_"), QueryOptions())
    found = [batch.topic for batch in result for _ in batch.records]
    assert found == ["Topic_B"] * 3 + ["Topic_A"] * 3 + ["Topic_C"] * 3
    result = start_query(
        instance, resolve_targets(instance, "^Topic_"), QueryOptions(order_by="/id DESC", top_n=4, skip_n=1)
    )
    assert _ids([r.payload.decode() for r in result.iterate_records()]) == [
        "Topic_C1",
        "Topic_C0",
        "Topic_B2",
        "Topic_B1",
    ]
    assert [(n.topic, n.matched, n.returned) for n in result.statistics] == [
        ("Topic_B", 3, 2), ("Topic_A", 3, 0), ("Topic_C", 3, 2),
    ]  # fmt: skip
    result = start_query(instance, resolve_targets(instance, "^Topic_"), QueryOptions(top_n=4, skip_n=2))
    assert [batch.topic for batch in result for _ in batch.records] == ["Topic_B", "Topic_A", "Topic_A", "Topic_A"]


def test_a_topic_without_records_spoils_no_pattern(make_lab) -> None:  # type: ignore[no-untyped-def]
    names = ("Topic_A", "Topic_B", "Topic_C")
    volatile = topic_xml("Topic_D", "<Durability>transient</Durability>", file=None)
    lab = make_lab(config_xml("".join(map(topic_xml, names)) + volatile, names[:2]))
    instance = lab.open()
    assert list(start_query(instance, resolve_targets(instance, "^Topic_"), QueryOptions())) == []
    lab.publish("Topic_B", message(id=1))
    result = start_query(instance, resolve_targets(instance, "^Topic_"), QueryOptions())
    assert [record.payload.decode() for record in result.iterate_records()] == [message(id=1)]
    for dry_run in (True, False):
        reports = delete_records(
            instance, resolve_targets(instance, "^Topic_"), DeleteOptions(filter="1=1", dry_run=dry_run)
        )
        assert [(report.topic, report.matched) for report in reports] == [("Topic_B", 1)]
    assert [path.name for path in lab.directory.rglob("*.sow")] == ["Topic_B.json.sow"]


def test_names_match_as_patterns_unanchored(make_lab) -> None:  # type: ignore[no-untyped-def]  # C64
    names = ("order-na", "order_northamerica", "my-order-nx", "rollup-orders-northamerica")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    assert [target.topic.name for target in resolve_targets(lab.open(), "order.n")] == list(names[:3])
    with pytest.raises(MissingError):
        resolve_targets(lab.open(), "order.n", literal=True)


SAMPLE = '{"name":"Bob","age":5,"pocket_contents":{"left":"frog","right":"key"},"event":{"id":4,"description":"d"}}'


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("-/,+/name,+/pocket_contents/left", {"name": "Bob", "pocket_contents": {"left": "frog"}}),  # C66
        (
            "-/event,+/event/description",  # C67
            {
                "name": "Bob",
                "age": 5,
                "pocket_contents": {"left": "frog", "right": "key"},
                "event": {"description": "d"},
            },
        ),
        ("-/,+/zz", {}),  # C68
        ("-/,+/age", {"age": 5}),  # C69
    ],
)
def test_select_lists(lab: Lab, select: str, expected: dict[str, object]) -> None:
    lab.publish("t", SAMPLE.replace("{", '{"id":1,', 1))
    found = lab.query("t", "/name = 'Bob' AND /id = 1", select=select)
    keep = {"id": 1} if not select.startswith("-/,") else {}
    assert [json.loads(text) for text in found] == [keep | expected]


def test_user_keys_and_decimal_keys(lab: Lab) -> None:
    lab.publish("own", message(x=1), sow_key="AAA")
    lab.publish("own", message(x=2), sow_key="123")
    assert lab.query("own", sow_keys=("AAA", "123", "zzz")) == sorted(
        lab.query("own"), key=lambda text: lab.query("own").index(text)
    )
    lab.publish("t", message(id=1), message(id=2))
    keys = {r.payload: str(r.sow_key) for r in lab.records("t")}
    assert lab.query("t", sow_keys=(keys[b'{"id":2}'], "7")) == ['{"id":2}']
    assert lab.query("t", "/id = 1", sow_keys=tuple(keys.values())) == ['{"id":1}']
    for bad in ("x", "-1", "1.0", str(1 << 64), "", "9" * 30):
        with pytest.raises(UsageError):
            lab.query("t", sow_keys=(bad,))


def test_a_query_sees_one_state_while_others_write(lab: Lab) -> None:
    """All batches of a query belong to one snapshot, however slowly they are read."""
    lab.publish("t", *(message(id=i, v=0) for i in range(50)))
    result = lab.open().topic("t").query(batch_size=5)
    first = next(iter(result))
    rest = [record for batch in result for record in batch.records]
    assert {json.loads(r.payload)["v"] for r in [*first.records, *rest]} == {0}


def test_a_query_given_up_early_holds_nothing(lab: Lab) -> None:
    lab.publish("t", *(message(id=i) for i in range(50)))
    for order in (None, "/id"):
        result = lab.open().topic("t").query(batch_size=5, order_by=order)
        next(iter(result))
        result.close()
        assert lab.publish("t", message(id=1)).unchanged == 1


def test_bad_texts_are_found_before_a_store_is_opened(lab: Lab) -> None:
    for options in ({"filter": "/id = = 1"}, {"order_by": "/id UP"}, {"select": "id"}, {"top_n": -1}):
        with pytest.raises(UsageError):
            lab.open().topic("t").query(**options)  # type: ignore[arg-type]


def test_every_subset_of_options_agrees_with_plain_python(lab: Lab) -> None:
    rows = [{"id": i, "v": (i * 7) % 10} for i in range(40)]
    lab.publish("t", *(message(**row) for row in rows))
    for low, descending, skip, top in itertools.product((0, 4, 20), (False, True), (0, 3), (None, 1, 5, 100)):
        order = "/v DESC, /id" if descending else "/v, /id"
        wanted = sorted(
            (r for r in rows if r["v"] >= low),
            key=lambda r: (-r["v"] if descending else r["v"], r["id"]),
        )
        expected = wanted if top is None else wanted[skip : skip + top]
        found = lab.query("t", f"/v >= {low}", order_by=order, top_n=top, skip_n=skip if top is not None else None)
        assert [json.loads(text) for text in found] == expected


def test_the_clock_of_a_query_hides_what_expired(lab: Lab) -> None:
    lab.publish("quotes", message(id=1))
    lab.clock.at += 30 * SECOND
    result = lab.open().topic("quotes").query()
    assert list(result.records()) == []
    assert result.statistics[0].examined == 0


def test_a_forgotten_query_lets_go_of_its_store(lab: Lab) -> None:
    import gc

    lab.publish("t", *(f'{{"id":{n}}}' for n in range(5)))
    topic = lab.open().topic("t")
    gc.disable()
    try:
        result = topic.query(batch_size=1)
        next(iter(result))
        del result
        assert len(list(topic.query().records())) == 5
    finally:
        gc.enable()


@pytest.mark.parametrize("index", [0, None])
def test_whoever_asks_for_no_statistics_reads_no_more_than_needed(tmp_path: Path, index: int | None) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    for topic in ("t", "u"):
        lab.publish(topic, *(message(id=number, s="ab"[number % 2]) for number in range(2000)))
    instance = lab.open()
    for top, skip in ((0, None), (3, None), (700, 400), (1500, None), (9000, 1)):
        found, examined = [], []
        for counted in (True, False):
            options = QueryOptions(filter="/s = 'a'", top_n=top, skip_n=skip, index_from=index, counted=counted)
            result = start_query(instance, resolve_targets(instance, "^[tu]$"), options)
            found.append([(batch.topic, record.key) for batch in result for record in batch.records])
            examined.append(sum(numbers.examined for numbers in result.statistics))
        assert found[0] == found[1]
        assert examined[0] == 4000
        assert (examined[1] < 4000) == (top < 2000)


def test_a_key_query_counts_no_records_unless_it_is_asked_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many unapplied changes, counting takes seconds."""
    lab.publish("t", *(message(id=f"k{n}") for n in range(500)))
    options = QueryOptions(filter="/id[0] IN ('k2', 'k900')")
    result = start_query(lab.open(), [Target(topic=lab.open().topic("t").config)], options)
    assert (len(list(result.iterate_records())), result.statistics[0].examined) == (1, 500)

    def counting(self: CurrentSource) -> int:
        raise AssertionError("counted")

    monkeypatch.setattr(CurrentSource, "count_visible", counting)
    options = replace(options, counted=False)
    result = start_query(lab.open(), [Target(topic=lab.open().topic("t").config)], options)
    assert (len(list(result.iterate_records())), result.statistics[0].examined) == (1, 0)
    assert start_query(lab.open(), [Target(topic=lab.open().topic("t").config)], options).count_records() == 1
