"""The source sow: what it reads is what the engine reads."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.options import QueryOptions
from sowctl.engine.records import StoredRecord
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.query import start_query
from sowctl.errors import DamageError, LockedError, MissingError, StorageError, UsageError
from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.reading import storereader
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.storereader import KeyRange
from sowctl.values.times import EPOCH, EntryInstant, format_time
from tests.spark.reading import read, reader_of, rows_of, source
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

TOPICS = ("orders", "chosen", "past", "loose")


def micros(at: Any) -> int:
    """A TIMESTAMP as microseconds; 0 for NULL."""
    if at is None:
        return 0
    since = at - EPOCH
    return since.days * 86400 * SECOND + since.seconds * SECOND + since.microseconds


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as tuples, in key order."""
    return sorted(
        (int(r["_sow_key"]), r["payload"], r["_txid"], micros(r["_timestamp"]), micros(r["_expiration"]), r["_topic"])
        for r in rows
    )


def engine(lab: Lab, topic: str, filter: str | None = None, at: int | None = None) -> list[tuple[Any, ...]]:
    """The same of the engine's query."""
    target = Target(topic=lab.open().topic(topic).config)
    found: list[StoredRecord] = list(
        start_query(lab.open(), [target], QueryOptions(filter=filter, at=at)).iterate_records()
    )
    return sorted((r.sow_key, r.payload, r.txid, r.timestamp, r.expiration, topic) for r in found)


def refused(error: BaseException) -> str:
    """The code of a carried error."""
    found = decode_error(str(error))
    assert found is not None
    return found.code


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("partitions", [1, 7])
def test_a_topic_is_read_as_the_engine_reads_it(stocked: Lab, spark: SparkSession, topic: str, partitions: int) -> None:
    expected = engine(stocked, topic)
    assert plain(read(source(stocked, topic=topic, numPartitions=partitions), spark)) == expected
    assert len(expected) >= 5


@pytest.mark.parametrize("text", ["/price > 50 AND /who/name LIKE 'n[12]'", "/tags IN (3, 4, 5)", "1 = 2"])
def test_a_filter_is_the_engines(stocked: Lab, spark: SparkSession, text: str) -> None:
    expected = engine(stocked, "orders", text)
    assert plain(read(source(stocked, topic="orders", filter=text, numPartitions=3), spark)) == expected


def test_a_filter_over_the_header(stocked: Lab, spark: SparkSession) -> None:
    text = "LAST_UPDATED() > 0 AND SOW_KEY() LIKE '3'"
    assert plain(read(source(stocked, topic="chosen", filter=text), spark)) == engine(stocked, "chosen", text) != []


@pytest.mark.parametrize("topic", ["orders", "past"])
@pytest.mark.parametrize("minutes", [0, 3, 7, 90])
def test_the_state_at_an_instant(stocked: Lab, spark: SparkSession, topic: str, minutes: int) -> None:
    at = START + minutes * 60 * SECOND
    found = read(source(stocked, topic=topic, at=format_time(at)), spark)
    assert plain(found) == engine(stocked, topic, at=at)


def test_a_bare_file_without_any_configuration(stocked: Lab, spark: SparkSession) -> None:
    found = read(source(stocked, config=None, path=stocked.store("loose"), numPartitions=2), spark)
    assert plain(found) == engine(stocked, "loose")


def test_what_the_store_has_not_applied_yet_is_read_from_the_journal(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=1, v=1), message(id=2, v=1))
    shutil.copy(lab.store("orders"), lab.directory / "earlier")
    lab.publish("orders", message(id=1, v=2), message(id=3, v=1))
    lab.open().topic("orders").delete(filter="/id = 2")
    lab.forget("orders")
    shutil.copy(lab.directory / "earlier", lab.store("orders"))
    assert plain(read(source(lab, topic="orders", numPartitions=4), spark)) == engine(lab, "orders")
    lab.forget("orders")
    assert plain(read(source(lab, topic="orders", numPartitions=4), spark)) == engine(lab, "orders")


def test_tasks_see_the_state_of_the_plan_although_the_journal_grew(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", *[message(id=i, v=1) for i in range(50)])
    shutil.copy(lab.store("orders"), lab.directory / "earlier")
    expected = engine(lab, "orders")
    reader = reader_of(source(lab, topic="orders", numPartitions=3), spark)
    parts = list(reader.partitions())
    first = rows_of(reader, parts[:1])
    lab.publish("chosen", message(id=1), sow_key="another")
    second = rows_of(reader, parts[1:2])
    lab.publish("orders", *[message(id=i, v=2) for i in range(25)])
    lab.forget("orders")
    shutil.copy(lab.directory / "earlier", lab.store("orders"))
    assert plain(first + second + rows_of(reader, parts[2:])) == expected


@pytest.mark.parametrize("partitions", [1, 5])
@pytest.mark.parametrize("topic", ["orders", "past"])
def test_a_plan_outlives_writers(lab: Lab, spark: SparkSession, topic: str, partitions: int) -> None:
    """From the journal, once the store shows a newer state; also what has expired since."""
    lab.publish(topic, *[message(id=i, v=1) for i in range(30)])
    lab.publish(topic, *[message(id=i, v=2) for i in range(20, 40)], expiration=3600.0)
    reader = reader_of(source(lab, topic=topic, numPartitions=partitions), spark)
    parts = list(reader.partitions())
    expected = engine(lab, topic)
    assert plain(rows_of(reader, parts)) == expected
    lab.clock.tick(4000)
    lab.publish(topic, *[message(id=i, v=3) for i in range(50)])
    lab.open().topic(topic).delete(filter="/id < 20")
    for _ in range(2):
        assert plain(rows_of(reader, parts)) == expected
    # Built once for all tasks, and by a single one without a file.
    assert len(list(lab.directory.rglob("state.sow"))) == (partitions > 1)
    later = reader_of(source(lab, topic=topic, numPartitions=partitions), spark)
    assert plain(rows_of(later, list(later.partitions()))) == engine(lab, topic) != expected


@pytest.mark.parametrize("pin", ["", "auto"])
def test_a_frame_outlives_writers(lab: Lab, spark: SparkSession, pin: str) -> None:
    lab.publish("orders", *[message(id=i) for i in range(30)])
    options = {"config": str(lab.config), "topic": "orders", "now": format_time(lab.clock.at), "pin": pin}
    frame = spark.read.format("sow").options(numPartitions=2, **options).load()
    assert frame.count() == 30
    lab.publish("orders", *[message(id=i) for i in range(20, 60)])
    lab.open().topic("orders").compact()
    assert frame.count() == frame.select("_txid").distinct().count() == 30
    # Copies of a local session are not beside the journal: they go with it.
    assert not list(lab.directory.rglob("state.sow"))


def test_a_plan_ends_where_nothing_has_its_state(lab: Lab, spark: SparkSession) -> None:
    for topic in ("loose", "orders"):
        lab.publish(topic, message(id=1))
        reader = reader_of(source(lab, topic=topic), spark)
        parts = list(reader.partitions())
        lab.publish(topic, message(id=2))
        if topic == "orders":
            # of another history: its entries are not those that the plan saw
            shutil.rmtree(lab.directory / "journal")
            lab.forget(topic)
            lab.publish(topic, *[message(id=i) for i in range(9)])
        with pytest.raises(CarriedError) as caught:
            rows_of(reader, parts)
        error = decode_error(str(caught.value))
        assert isinstance(error, LockedError) and error.code == "SOW-SPK-020" and "pin=auto" in (error.hint or "")


@pytest.mark.parametrize("topic", ["orders", "past", "loose", None])
def test_an_automatic_pin_needs_no_journal(lab: Lab, spark: SparkSession, topic: str | None) -> None:
    name = topic or "loose"
    lab.publish(name, *[message(id=i) for i in range(9)])
    place = {"topic": topic} if topic else {"config": None, "path": lab.store(name)}
    reader = reader_of(source(lab, pin="auto", numPartitions=2, **place), spark)
    parts = list(reader.partitions())
    expected = engine(lab, name)
    lab.publish(name, message(id=10))
    for path in lab.journals():
        path.unlink()
    assert plain(rows_of(reader, parts)) == expected
    assert len(list(lab.directory.rglob("state.sow"))) == 1


@pytest.mark.parametrize("topic", ["orders", "past", "loose"])
def test_a_pinned_state_stays(lab: Lab, spark: SparkSession, topic: str) -> None:
    lab.publish(topic, *[message(id=i) for i in range(9)])
    expected = engine(lab, topic)
    one = source(lab, topic=topic, pin=lab.directory / "pin.sow", numPartitions=2)
    assert plain(read(one, spark)) == expected
    lab.publish(topic, message(id=10))
    assert plain(read(one, spark)) == expected
    again = source(lab, topic=topic, pin=lab.directory / "pin.sow", filter="/id > 6")
    assert sorted(row["payload"] for row in read(again, spark)) == [b'{"id":7}', b'{"id":8}']


def test_the_past_may_be_named_by_an_entry(stocked: Lab, spark: SparkSession) -> None:
    """By its txid or its bookmark, as ``--at`` of the commands."""
    entries = [r for batch in dump_entries(stocked.open(), EntryFilter(topic_names=("past",))) for r in batch.records]
    entry = entries[len(entries) // 2]
    assert entry.bookmark is not None
    expected = engine(stocked, "past", at=EntryInstant(entry.timestamp, entry.txid))
    for at in (entry.txid, entry.bookmark):
        assert plain(read(source(stocked, topic="past", at=at), spark)) == expected != engine(stocked, "past")


@pytest.mark.parametrize("topic", ["orders", "past"])
def test_a_state_after_an_entry_is_read_in_many_partitions(
    topic: str, stocked: Lab, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(stocked.directory, tmp_path / "copy")
    stocked = Lab(tmp_path / "copy", stocked.xml, clock=stocked.clock)
    entries = [r for batch in dump_entries(stocked.open(), EntryFilter()) for r in batch.records]
    for entry in entries[1 :: len(entries) // 4]:
        one = source(stocked, topic=topic, at=entry.txid, numPartitions=5)
        assert plain(read(one, spark)) == engine(stocked, topic, at=EntryInstant(entry.timestamp, entry.txid))


INSTANTS = tuple(START + seconds * SECOND for seconds in (30, 61, 200, 333, 420, 500))


@pytest.mark.parametrize("filter", [None, "/step > 2"])
@pytest.mark.parametrize("topic", ["orders", "past", "chosen"])
def test_several_instants_are_the_states_at_each(
    stocked: Lab, spark: SparkSession, tmp_path: Path, topic: str, filter: str | None
) -> None:
    shutil.copytree(stocked.directory, tmp_path / "copy")
    lab = Lab(tmp_path / "copy", stocked.xml, clock=stocked.clock)
    at = ", ".join(map(format_time, reversed(INSTANTS)))
    found = read(source(lab, topic=topic, at=at, filter=filter, numPartitions=3), spark)
    by_instant = {instant: [row for row in found if micros(row["_at"]) == instant] for instant in INSTANTS}
    assert sum(map(len, by_instant.values())) == len(found)
    for instant in INSTANTS:
        assert plain(by_instant[instant]) == engine(lab, topic, filter, at=instant)
    # One fold for all of them, and none where the store has the versions.
    assert len(list(lab.directory.rglob("versions-*"))) == (3 if topic != "past" else 0)
    again = read(source(lab, topic=topic, at=at, filter=filter, numPartitions=3), spark)
    assert again == found and len(list(lab.directory.rglob("count"))) == (topic != "past")


def test_instants_of_many_blocks_and_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that come, change, expire, are deleted and come again, of topics whose times are not those of others."""
    monkeypatch.setattr(FOLD_LIMITS, "bucket_bytes", 4000)
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_file_bytes", 4000)
    monkeypatch.setattr(FOLD_LIMITS, "fold_part_records", 7)
    monkeypatch.setattr(FOLD_LIMITS, "compact_entries", 20)
    topics = topic_xml("t", "<Expiration>40s</Expiration>") + topic_xml("ahead")
    lab, rng = Lab(tmp_path, config_xml(topics, ("t", "ahead")), journal_size=5000), random.Random(4)
    instants = []
    for step in range(60):
        lab.publish("t", *[message(id=rng.randrange(40), step=step) for _ in range(8)])
        if step % 7 == 3:
            lab.open().topic("t").delete(filter=f"/id >= {rng.randrange(40)}")
        if step % 5 == 0:
            lab.publish("ahead", message(id=step), timestamp=format_time(lab.clock.at + 500 * SECOND))
        lab.clock.tick(rng.choice([0, 3, 20]))
        if rng.random() < 0.4:
            instants.append(lab.clock.at - rng.choice([0, 1, SECOND]))
    instants = [START - 1, *sorted(set(instants))]
    at = ",".join(map(format_time, instants))
    for partitions in (1, 7, 100):
        found = read(source(lab, topic="t", at=at, numPartitions=partitions), spark)
        by_instant = {instant: [row for row in found if micros(row["_at"]) == instant] for instant in instants}
        for instant in instants:
            assert plain(by_instant[instant]) == engine(lab, "t", at=instant), instant
    assert len(found) > 300 and not by_instant[START - 1]


def test_a_lost_file_of_versions_is_no_empty_state(stocked: Lab, spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(stocked.directory, tmp_path / "copy")
    lab = Lab(tmp_path / "copy", stocked.xml, clock=stocked.clock)
    at = ", ".join(map(format_time, INSTANTS))
    one = source(lab, topic="orders", at=at)
    read(one, spark)
    (file,) = lab.directory.rglob("versions-*")
    file.write_bytes(file.read_bytes()[:-16])
    with pytest.raises(CarriedError) as caught:
        read(one, spark)
    assert refused(caught.value) == "SOW-SPK-061"


def test_several_instants_through_spark(stocked: Lab, spark: SparkSession) -> None:
    given = {"config": str(stocked.config), "topic": "past", "at": ",".join(map(format_time, INSTANTS))}
    given |= {"now": format_time(stocked.clock.at), "payloadSchema": "id BIGINT", "columns": "_at,payload"}
    frame = spark.read.format("sow").options(**given).load()
    counted = frame.selectExpr("unix_micros(_at) AS at").groupBy("at").count()
    counts = {row["at"]: row["count"] for row in counted.collect()}
    assert counts == {instant: len(engine(stocked, "past", at=instant)) for instant in INSTANTS}
    kept = read(source(stocked, topic="past", at=given["at"], payloadSchema="id STRING", mode="DROPMALFORMED"), spark)
    assert len(kept) == sum(counts.values())
    # By the system's clock, which goes on while the options are read.
    live = {"config": str(stocked.config), "topic": "past", "at": f"{format_time(INSTANTS[0])},now", "columns": "_at"}
    assert spark.read.format("sow").options(**live).load().select("_at").distinct().count() <= 2


def test_instants_that_cannot_be_read_together(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    lab.publish("orders", message(id=1))
    lab.publish("loose", message(id=1))
    lab.clock.tick(60)
    early, late = format_time(START), format_time(START + SECOND)
    cases: list[dict[str, object]] = [
        {"topic": "loose"},
        {"config": None, "path": lab.store("orders")},
        {"topic": "orders", "at": f"{early}, 1"},
        {"topic": "orders", "at": f"{early}, {format_time(START + 90 * SECOND)}"},
        {"topic": "orders", "pin": tmp_path / "pin.sow"},
    ]
    for options in cases:
        with pytest.raises(CarriedError) as caught:
            read(source(lab, **{"at": f"{early}, {late}", **options}), spark)
        assert refused(caught.value) == "SOW-SPK-172", options


def test_a_pinned_state_of_the_past_is_read_in_parts(stocked: Lab, spark: SparkSession, tmp_path: Any) -> None:
    at = START + 200 * SECOND
    one = source(stocked, topic="orders", at=format_time(at), pin=tmp_path / "then.sow", numPartitions=5)
    reader = reader_of(one, spark)
    assert len(reader.partitions()) == 5
    assert plain(read(one, spark)) == engine(stocked, "orders", at=at)


def test_the_past_is_read_in_many_partitions(stocked: Lab, spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(stocked.directory, tmp_path / "copy")
    lab = Lab(tmp_path / "copy", stocked.xml, clock=stocked.clock)
    for topic in ("orders", "past", "chosen"):
        for seconds in (30, 200, 200, 10_000):
            at = START + seconds * SECOND
            one = source(lab, topic=topic, at=format_time(at), numPartitions=5)
            assert len(reader_of(one, spark).partitions()) == 5
            assert plain(read(one, spark)) == engine(lab, topic, at=at)
    # Asked twice, a state is built once; of a topic with History none is, and none of what has not changed since.
    assert len(list(lab.directory.rglob("*.staging/*/state.sow"))) == 4


@pytest.mark.parametrize("topic", ["orders", "past", "chosen"])
def test_a_missing_store_is_read_in_many_partitions(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    options = {"sow_key": "k"} if topic == "chosen" else {}
    lab.publish(topic, *[message(id=n) for n in range(1 if options else 9)], **options)
    expected = engine(lab, topic)
    lab.forget(topic)
    monkeypatch.setattr(PARTITION_LIMITS, "records_per_partition", 4)
    one = source(lab, topic=topic)
    assert len(reader_of(one, spark).partitions()) == (1 if options else 3)
    assert plain(read(one, spark)) == expected == engine(lab, topic)
    # Where nothing can be staged, one task does it all.
    monkeypatch.setattr(storereader, "find_copy_place", unwritable)
    assert len(reader_of(one, spark).partitions()) == 1
    assert plain(read(one, spark)) == expected


def unwritable(*_: object) -> NoReturn:
    raise StorageError("SOW-ENG-044", "no")


def test_key_ranges_cover_every_key_once(stocked: Lab, spark: SparkSession) -> None:
    parts = reader_of(source(stocked, topic="orders", numPartitions=3), spark).partitions()
    ranges = [part for part in parts if isinstance(part, KeyRange)]
    assert ranges[0].bounds[0] is None and ranges[-1].bounds[1] is None
    assert [part.bounds[1] for part in ranges[:-1]] == [part.bounds[0] for part in ranges[1:]]
    assert rows_of(reader_of(source(stocked, topic="orders"), spark), [InputPartition(None)]) == []


def test_columns_on_request(stocked: Lab, spark: SparkSession) -> None:
    found = read(source(stocked, topic="chosen", columns="_user_key, _correlation_id,_txid"), spark)
    assert sorted(row["_user_key"] for row in found) == [f"key{n}" for n in range(5)]
    assert {row["_correlation_id"] for row in found} == {None} and list(found[0]) == [
        "_user_key",
        "_correlation_id",
        "_txid",
    ]


def test_messages_as_structs(stocked: Lab, spark: SparkSession) -> None:
    declared = read(source(stocked, topic="orders", payloadSchema="id INT, who STRUCT<name: STRING>, x DATE"), spark)
    by_bytes = {row["_txid"]: row["payload"] for row in read(source(stocked, topic="orders"), spark)}
    assert len(declared) == len(by_bytes)
    for row in declared:
        message = row["payload"]
        assert message["x"] is None
        assert f'"id":{message["id"]},'.encode() in by_bytes[row["_txid"]]
        assert message["who"]["name"] == f"n{message['id'] % 5}é"
    inferred = source(stocked, topic="orders", payload="struct").schema()
    assert inferred.startswith(
        "`payload` STRUCT<`id`: BIGINT, `step`: BIGINT, `price`: DOUBLE, `who`: STRUCT<`name`: STRING>, "
        "`tags`: ARRAY<BIGINT>>"
    )


def test_of_a_member_that_is_given_twice_the_first_is_a_field(lab: Lab, spark: SparkSession) -> None:
    texts = [f'{{"id":{n},"who":{{"name":"a","n\\u0061me":"b"}},"v":[{{"q":1,"q":2}}],"id":"x"}}' for n in range(70)]
    lab.publish("orders", *texts[:5], *(text.replace(',"id":"x"', "") for text in texts[5:]))
    declared = "id INT, who STRUCT<name: STRING>, v ARRAY<STRUCT<q: INT>>"
    for given in ({"payload": "struct"}, {"payloadSchema": declared}):
        found = [row["payload"] for row in read(source(lab, topic="orders", **given), spark)]
        assert sorted(row["id"] for row in found) == list(range(70))
        assert all((row["who"], row["v"]) == ({"name": "a"}, [{"q": 1}]) for row in found)


def test_spark_itself(stocked: Lab, spark: SparkSession) -> None:
    """The whole way once: registration, planning, executors, a declared schema, SQL over the struct."""
    frame = (
        spark.read.format("sow")
        .options(config=str(stocked.config), topic="orders", now=format_time(stocked.clock.at), numPartitions="3")
        .schema("payload STRUCT<id: BIGINT, price: DOUBLE>, _sow_key DECIMAL(20,0), _timestamp TIMESTAMP")
        .load()
    )
    assert frame.rdd.getNumPartitions() == 3
    found = frame.filter("payload.price > 50").orderBy("_sow_key").collect()
    expected = engine(stocked, "orders", "/price > 50")
    assert [(int(row._sow_key), micros_of(row._timestamp)) for row in found] == [(row[0], row[3]) for row in expected]


def micros_of(local: Any) -> int:
    """A TIMESTAMP that Spark handed to Python: without a zone, in the zone of this process."""
    return micros(local.astimezone())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic": "ordrs"}, "SOW-ENG-012"),
        ({"topic": None}, "SOW-SPK-013"),
        ({"topic": "orders", "path": "x.sow"}, "SOW-SPK-012"),
        ({"config": None, "topic": None}, "SOW-SPK-012"),
        ({"config": None, "path": "/nowhere.sow"}, "SOW-ENG-013"),
        ({"topic": "orders", "filtre": "/id = 1"}, "SOW-SPK-010"),
        ({"topic": "orders", "numPartitions": "0"}, "SOW-SPK-011"),
        ({"topic": "orders", "at": "12345"}, "SOW-ENG-070"),
        ({"topic": "orders", "columns": "payload,_nothing"}, "SOW-SPK-015"),
        ({"topic": "orders", "payload": "bytes", "payloadSchema": "a INT"}, "SOW-SPK-016"),
        ({"topic": "orders", "filter": "/id ="}, "SOW-EXP-007"),
    ],
)
def test_what_does_not_fit_is_refused(stocked: Lab, spark: SparkSession, options: dict[str, Any], code: str) -> None:
    with pytest.raises(CarriedError) as caught:
        read(source(stocked, **options), spark)
    assert refused(caught.value) == code


def test_an_error_keeps_its_class_and_hint_through_spark(stocked: Lab, spark: SparkSession) -> None:
    from sowctl.spark.errors import translate_errors

    with pytest.raises(MissingError, match="'ordrs'") as caught, translate_errors():
        spark.read.format("sow").options(config=str(stocked.config), topic="ordrs").load().count()
    assert caught.value.hint == "did you mean orders?"
    with pytest.raises(UsageError), translate_errors():
        spark.read.format("sow").options(config=str(stocked.config), topic="orders", filter="(").load().count()


def test_a_damaged_store_names_the_command_that_helps(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", *[message(id=i, text="x" * 100) for i in range(50)])
    raw = bytearray(lab.store("orders").read_bytes())
    for place in range(4096 * 3, len(raw), 500):
        raw[place] ^= 0x55
    lab.store("orders").write_bytes(raw)
    with pytest.raises(CarriedError) as caught:
        read(source(lab, topic="orders"), spark)
    error = decode_error(str(caught.value))
    assert isinstance(error, DamageError) and "sowctl replay orders" in (error.hint or "")


@pytest.mark.parametrize(
    "options", [{}, {"payload": "struct"}, {"payloadSchema": "id INT"}, {"at": format_time(START)}]
)
def test_a_topic_to_which_nothing_was_published_is_an_empty_frame(
    tmp_path: Path, spark: SparkSession, options: dict[str, str]
) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("unused") + topic_xml("used"), ("unused", "used")))
    lab.publish("used", message(id=1))
    frame = spark.read.format("sow").options(config=str(lab.config), topic="unused", **options).load()
    assert frame.collect() == [] and "payload" in frame.columns
