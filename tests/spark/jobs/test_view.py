"""view: what Spark groups and joins equals the aggregated query, and the joining of all records in one process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.config.derived_entries import View
from sowctl.engine.instance import Instance
from sowctl.engine.options import QueryOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.query import start_query
from sowctl.errors import InputError, MissingError, UsageError
from sowctl.expressions.compiler import compile_projection
from sowctl.expressions.environment import Environment
from sowctl.expressions.syntax.joins import parse_join
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.view import AdHocView, build_query, view
from tests.spark.jobs.test_outputs import publish_after_plan, read_lines
from tests.support.aggregates import GROUPING, PROJECTION, drawn_history, expected, spelled
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.joins import left_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JSON = "<MessageType>json</MessageType>"
VIEWS = f"""
<View><Name>totals</Name>{JSON}<UnderlyingTopic>orders</UnderlyingTopic><FileName>sow/%n.sow</FileName>
<Projection><Field>/customer AS /customer</Field><Field>SUM(/qty) AS /sum</Field></Projection>
<Grouping><Field>/customer</Field></Grouping><Filter>/qty &gt; 2</Filter></View>
<View><Name>joined</Name>{JSON}
<UnderlyingTopic><Join>[orders]./customer = [customers]./id</Join>
<Join>[orders]./item = [items]./id</Join></UnderlyingTopic>
<Projection><Field>[customers]./name AS /name</Field><Field>SUM([orders]./qty) AS /sum</Field>
<Field>GROUP_CONCAT([items]./label) AS /labels</Field><Field>[orders]./id AS /last</Field></Projection>
<Grouping><Field>[customers]./name</Field></Grouping></View>
<View><Name>over</Name>{JSON}<UnderlyingTopic>totals</UnderlyingTopic>
<Projection><Field>COUNT(/sum) AS /n</Field><Field>MAX(/sum) AS /most</Field></Projection>
<Grouping><Field>/none</Field></Grouping></View>
"""
XML = config_xml(topic_xml("orders") + topic_xml("customers") + topic_xml("items") + VIEWS, ("orders",))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 20)
    made = Lab(tmp_path / "lab", XML)
    rows = [
        {"id": n, "customer": n % 7 if n % 5 else None, "qty": n * 1.1, "item": f"i{n % 4}", "who": f"w{n % 3}"}
        for n in range(90)
    ]
    made.publish("orders", *[message(**{k: v for k, v in row.items() if v is not None}) for row in rows])
    made.publish("customers", *[message(id=n, name=f"name {n // 2}") for n in range(5)])
    made.publish("items", *[message(id=f"i{n}", label=f"label {n}") for n in range(3)])
    made.publish("orders", message(id=3, customer=1, qty=0.5, item="i1"))
    return made


def run(spark: SparkSession, lab: Lab, wanted: View | AdHocView | str, path: Path, **output: str) -> list[str]:
    instance = lab.open()
    if isinstance(wanted, str):
        assert instance.config is not None
        (entry,) = instance.config.find_entries(wanted)
        assert isinstance(entry, View)
        wanted = entry
    view(spark, instance, wanted, Output(str(path), "ndjson"))
    assert not list(lab.directory.rglob("*.staging*"))
    return read_lines(path)


def test_a_view_of_stores_that_are_written(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        for topic in ("orders", "customers"):
            publish_after_plan(patched, lab, topic, message(id=3, customer=2, qty=5.5, item="i2", name="new"))
        found = run(spark, lab, "joined", tmp_path / "busy")
    assert found == run(spark, lab, "joined", tmp_path / "quiet")


@pytest.mark.parametrize("filter", [None, "/qty > 20 AND /item != 'i3'"])
def test_equals_the_aggregated_query(spark: SparkSession, lab: Lab, tmp_path: Path, filter: str | None) -> None:
    projection = "/customer, COUNT(/id) AS /n, SUM(/qty) AS /sum, GROUP_CONCAT(/item) AS /items, /id AS /last"
    wanted = lab.query("orders", filter, projection=projection, grouping="/customer")
    told = run(spark, lab, AdHocView("orders", (projection,), ("/customer",), filter=filter), tmp_path / "v")
    assert told == wanted
    assert len(told) > 5


@pytest.mark.parametrize("seed", [2, 4])
def test_a_group_sees_its_records_in_the_order_of_their_updates(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 5)
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    history = drawn_history(seed, updates=120, ids=40)
    lab.publish("t", *map(json.dumps, history))
    told = run(spark, lab, AdHocView("t", (PROJECTION,), (GROUPING,)), tmp_path / "v")
    assert told == lab.query("t", projection=PROJECTION, grouping=GROUPING)
    assert spelled({row["g"]: row for row in map(json.loads, told)}) == spelled(expected(history))


def test_a_configured_view_and_one_over_it(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    options = {"projection": "/customer AS /customer, SUM(/qty) AS /sum", "grouping": "/customer"}
    wanted = lab.query("orders", "/qty > 2", **options)
    assert sorted(run(spark, lab, "totals", tmp_path / "v")) == sorted(wanted)
    sums = [json.loads(text)["sum"] for text in wanted]
    assert [json.loads(text) for text in run(spark, lab, "over", tmp_path / "o")] == [
        {"n": len(sums), "most": max(sums)}
    ]


@pytest.mark.parametrize("small", [0, 1000])
def test_joins_equal_those_in_one_process(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    # Attached sources go to every task, or are brought together with the first one by shuffles.
    monkeypatch.setattr(JOB_LIMITS, "max_broadcast_records", small)
    instance = lab.open()
    assert instance.config is not None
    (entry,) = instance.config.find_entries("joined")
    assert isinstance(entry, View)
    joins = [parse_join(text) for text in entry.joins]
    records = {(None, name): lab.records(name) for name in ("orders", "customers", "items")}
    kind = instance.find_message_type("json")
    rows = list(
        left_join(joins, records, lambda s, r: kind.build_key_extractor([s.path])([r.payload])[0][0][0] if r else None)
    )
    program = compile_projection(entry.projection, entry.grouping, joined=True)
    asked = list(zip(program.slots, program.sources, strict=True))
    read = {source: [slot for slot, qualifier in asked if qualifier[-1] == source[1]] for source in records}
    values = []
    for row in rows:
        found = {
            source: dict(zip(read[source], kind.build_extractor(read[source])([record.payload])[0][0], strict=True))
            for source, record in row.items()
            if record is not None
        }
        values.append(tuple(found.get((None, qualifier[-1]), {}).get(slot) for slot, qualifier in asked))
    groups: dict = {}
    environment = Environment(now=instance.clock, instance_name="x", group_name="x", random=instance.random)
    of = [max((r.txid, r.timestamp) for r in row.values() if r is not None) for row in rows]
    program.add_messages(groups, values, environment, None, of)
    wanted = [
        kind.build_message(
            list(zip(program.destinations, program.compute_fields(group, environment), strict=True))
        ).decode()
        for group in groups.values()
    ]
    assert sorted(run(spark, lab, entry, tmp_path / "v")) == sorted(wanted)
    assert len(wanted) > 3


def test_a_store_of_a_view(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    instance = lab.open()
    wanted = AdHocView("orders", ("/customer, SUM(/qty) AS /sum",), ("/customer",))
    view(spark, instance, wanted, Output(str(tmp_path / "v.sow")))
    bare = Instance(clock=lab.clock)
    result = start_query(bare, [Target(path=tmp_path / "v.sow")], QueryOptions())
    held = [record.payload.decode() for record in result.iterate_records()]
    assert held == lab.query("orders", projection="/customer, SUM(/qty) AS /sum", grouping="/customer")


def test_what_is_refused(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    output, instance = Output(str(tmp_path / "x"), "ndjson"), lab.open()
    for bad, error in (
        (AdHocView(None, ("/a",), ("/a",)), UsageError),
        (AdHocView("nothing", ("/a",), ("/a",)), MissingError),
        (AdHocView(None, ("[orders]./a",), ("[orders]./a",), joins=("[orders]./a = [other]./b",)), MissingError),
    ):
        with pytest.raises(error):
            view(spark, instance, bad, output)
    assert not list(tmp_path.glob("x"))
    assert InputError.exit_status == 3


def test_a_source_of_another_type_is_the_one_topic_of_its_name(tmp_path: Path) -> None:
    """Rule F022 only warns of it; where two topics share the name, the view's own type is meant."""
    across = ACROSS
    lab = Lab(tmp_path, config_xml(topic_xml("orders") + across, ("orders",)))
    with lab.open() as instance:
        assert instance.config is not None
        (wanted,) = instance.config.find_entries("across")
        assert isinstance(wanted, View)
        assert build_query(instance, wanted).sources == (("orders", "json"),)
    both = topic_xml("orders") + topic_xml("orders").replace("json", "bson") + across
    lab.config.write_text(config_xml(both, ("orders",)))
    with lab.open() as instance:
        assert build_query(instance, wanted).sources == (("orders", "nvfix"),)


AGGREGATES = (
    "COUNT({0}) AS /a", "COUNT_DISTINCT({0}) AS /b", "SUM({0}) AS /c", "AVG({0}) AS /d", "STDDEV_SAMP({0}) AS /e",
    "MIN({0}) AS /f", "MAX({0}) AS /h", "UNIQUE({0}) AS /i", "ANY({0}) AS /j", "GROUP_CONCAT({0}, '-') AS /k",
    "SUM({0}) / COUNT({1}) AS /l", "IF(COUNT({1}) > 2, MAX({0}), MIN({1})) AS /m", "{0} AS /n",
)  # fmt: skip
MIXED = [None, 1, 1.0, "1", "1.50", True, 2.25, 1e300, -1e300, 0.1, "a", "b", 2**53 + 1, 7]


def _view(name: str, under: str, fields: list[str], grouping: str, *parts: str) -> str:
    projection = "".join(f"<Field>{field}</Field>" for field in fields).replace("> 2", "&gt; 2")
    return (
        f"<View><Name>{name}</Name>{JSON}<UnderlyingTopic>{under}</UnderlyingTopic><FileName>sow/%n.sow</FileName>"
        f"<Projection>{projection}</Projection><Grouping><Field>{grouping}</Field></Grouping>{''.join(parts)}</View>"
    )


@pytest.mark.parametrize("seed", range(5))
def test_equals_what_the_engine_computes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Law: one definition, two computations: single and joined views, views of views, and over conflated topics."""
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 15)
    monkeypatch.setattr(JOB_LIMITS, "max_broadcast_records", (0, 1000)[seed % 2])
    source = random.Random(seed)

    def fields(one: str, other: str) -> list[str]:
        return [text.format(one, other) for text in source.sample(AGGREGATES, 8)]

    nulls = "<JoinNullEquivalency>enabled</JoinNullEquivalency>" if seed % 3 == 0 else ""
    join = "<Join>[a]./x = [b]./x</Join><Join>[b]./y = [c]./id</Join>"
    conflated = f"<ConflatedTopic><Name>slow</Name>{JSON}<UnderlyingTopic>a</UnderlyingTopic></ConflatedTopic>"
    xml = "".join(map(topic_xml, "abc")) + conflated
    xml += _view("single", "a", ["/g AS /g", *fields("/v", "/w")], "/g", "<Filter>/id != 3</Filter>")
    xml += _view("joined", join, ["[b]./y AS /g", *fields("[a]./v", "[c]./v")], "[b]./y", nulls)
    xml += _view("above", "single", ["COUNT(/g) AS /n", "GROUP_CONCAT(/g) AS /all", "MAX(/c) AS /most"], "/none")
    xml += _view("beside", "slow", ["/g AS /g", *fields("/w", "/v")], "/g")
    lab = Lab(tmp_path / "lab", config_xml(xml, ("a", "b", "c")))
    for _ in range(3):
        for name in "abc":
            drawn = [
                {"id": source.randrange(60), "v": source.choice(MIXED), "w": source.choice(MIXED[:6])}
                | {key: source.choice([None, 1, "1", "x", "y"]) for key in "gxy"}
                for _ in range(40 if name == "a" else 12)
            ]
            lab.publish(name, *map(json.dumps, drawn))
        lab.clock.tick(4)
    for name in ("single", "joined", "above", "beside"):
        assert run(spark, lab, name, tmp_path / name) == lab.query(name), name


ACROSS = """
<View><Name>across</Name><MessageType>nvfix</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<FileName>sow/%n.sow</FileName><Projection><Field>/customer AS /1</Field></Projection>
<Grouping><Field>/customer</Field></Grouping></View>
"""
