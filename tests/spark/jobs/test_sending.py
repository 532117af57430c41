"""Data sets at URLs that Spark's writers do not reach: equal to theirs, and whole or not there."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from sowctl.errors import InputError, RefusedError, StorageError, UsageError
from sowctl.remote import remote_files
from sowctl.remote.place import parse_url
from sowctl.spark.jobs.export import ExportSelection, export, export_journal
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs import remote_datasets
from sowctl.spark.jobs.outputs.datasets import write_rows
from sowctl.spark.jobs.outputs.delivery import require_reachable
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.outputs.partfiles import build_part_format
from sowctl.spark.jobs.outputs.remote_datasets import format_directory
from sowctl.spark.jobs.progress import BYTES_COLUMN
from sowctl.spark.jobs.tasks import TaskRows
from tests.spark.test_remote import with_key
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.objectstore import ObjectStore, serving

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

FIELDS = (
    "id BIGINT, s STRING, b BINARY, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, d5 DECIMAL(5,2), d18 DECIMAL(18,0), "
    'd38 DECIMAL(38,3), fl FLOAT, db DOUBLE, bo BOOLEAN, ti TINYINT, sm SMALLINT, i INT, `odd, "name"` STRING, '
    "st STRUCT<a: INT, at: TIMESTAMP, l: ARRAY<STRING>>, m MAP<STRING, INT>, many ARRAY<TIMESTAMP_NTZ>"
)
LATE, EARLY = dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1, 0, 0, 0, 1)


@pytest.fixture(scope="module")
def shore(spark: SparkSession) -> Iterator[ObjectStore]:
    with serving() as store:
        yield store


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Records with values of every type that fields have, at their bounds, and with texts that CSV has to quote."""
    lab = Lab(
        tmp_path_factory.mktemp("mixed"),
        config_xml(topic_xml("all") + topic_xml("two") + topic_xml("none"), ("all", "two")),
    )
    rng = random.Random(5)
    texts = ("", " ", "a", ' "q", x ', "é\u2028\U0001f600", "line\nline", "tab\t\\back", "\r", "#", "%41/=", "NULL")
    rows = []
    for number in range(60):
        moment = rng.choice((LATE, EARLY, dt.datetime(1969, 12, 31, 23, 59, 59, 5), dt.datetime(2024, 2, 29, 1, 2, 3)))
        row = {
            "s": rng.choice(texts), "b": "aGk=", "t": moment.isoformat() + "Z", "n": moment.isoformat(),
            "d": moment.date().isoformat(), "d5": -1.25, "d18": 10**17, "d38": 1234567.125, "fl": 1.5, "db": 1e300,
            "bo": number % 2 == 0, "ti": -128, "sm": 32767, "i": -(2**31), 'odd, "name"': rng.choice(texts),
            "st": {"a": 1, "at": moment.isoformat() + "Z", "l": ["x", None, rng.choice(texts)]},
            "m": {"k": 1, "l": None}, "many": [moment.isoformat(), None],
        }  # fmt: skip
        rows.append({name: value for name, value in row.items() if rng.random() < 0.8} | {"id": number})
    lab.publish("all", *[message(**row) for row in rows])
    kinds = ({"kind": "x/é"}, {}, {"kind": ""}, {"kind": 'a=b "c"%'})
    lab.publish("two", *[message(id=number, **kind) for number, kind in enumerate(kinds)])
    lab.publish("none", message(id=1))
    lab.open().topic("none").delete(filter="/id = 1")
    return lab


def topic_of(lab: Lab, name: str = "all"):  # type: ignore[no-untyped-def]
    instance = lab.open()
    return instance, next(one for one in instance.config.topics if one.name == name)


def fetched(shore: ObjectStore, prefix: str, into: Path) -> Path:
    """The objects below a prefix as files."""
    for name in shore.names(f"{prefix}/"):
        if name and not name.endswith("/"):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(shore.objects[f"lake/{prefix}/{name}"])
    return into


def shape(directory: Path) -> list[str]:
    """The names of a data set's files, without what differs from run to run."""
    files = sorted(str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file())
    kept = [name for name in files if not name.endswith(".crc")]
    return [
        name if "part-" not in name else name[: name.index("part-") + 10] + name[name.rindex("-c0") :] for name in kept
    ]


def both(
    spark: SparkSession, lab: Lab, shore: ObjectStore, tmp_path: Path, output: Output, name: str = "all"
) -> tuple[Path, Path]:
    """The data set of a topic as Spark's writers write it, and as tasks do at a URL."""
    instance, topic = topic_of(lab, name)
    shore.empty()
    here = replace(output, path=str(tmp_path / "here"), force=True)
    there = replace(output, path=with_key(shore, "out/set"), force=True)
    told = export(spark, instance, [topic], here), export(spark, instance, [topic], there)
    assert (told[0].records, told[0].bytes, told[0].partitions) == (told[1].records, told[1].bytes, told[1].partitions)
    assert not [name for name in shore.names("out/set/") if "_temporary" in name]
    return tmp_path / "here", fetched(shore, "out/set", tmp_path / "there")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_are_those_of_spark(
    spark: SparkSession, mixed: Lab, shore: ObjectStore, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 40)
    fields = FIELDS
    if kind == "orc":
        # Early times are refused, see below.
        fields = fields.replace("t TIMESTAMP,", "").replace("at: TIMESTAMP, ", "").replace("d DATE,", "")
    else:
        # Without times of no zone, files of Parquet agree to the physical type.
        fields = fields.replace("_NTZ", "")
    here, there = both(spark, mixed, shore, tmp_path, Output("", kind, fields=fields))
    assert shape(here) == shape(there) and len(shape(there)) == 3
    frames = spark.read.format(kind).load(str(here)), spark.read.format(kind).load(str(there))
    assert frames[0].schema == frames[1].schema
    # Python has no name for some of these instants.
    clock = "y-MM-dd HH:mm:ss.SSSSSS"
    text = f"to_json(struct(*), map('timestampFormat', '{clock}X', 'timestampNTZFormat', '{clock}'))"
    rows = [sorted(row[0] for row in frame.selectExpr(text).collect()) for frame in frames]
    assert rows[0] == rows[1] and len(rows[0]) == 60
    if kind == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        files = [pq.ParquetFile(next(one.glob("part-*"))) for one in (here, there)]
        assert files[0].schema.equals(files[1].schema)
        told = [file.metadata.metadata for file in files]
        key = b"org.apache.spark.sql.parquet.row.metadata"
        assert json.loads(told[0].pop(key)) == json.loads(told[1].pop(key)) and told[0] == told[1]


@pytest.mark.parametrize("setting", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_times_of_parquet_are_of_the_form_that_is_set(spark: SparkSession, tmp_path: Path, setting: str) -> None:
    pa = pytest.importorskip("pyarrow")
    name, micros = "spark.sql.parquet.outputTimestampType", -62_135_596_799_999_000
    kept = spark.conf.get(name)
    spark.conf.set(name, setting)
    try:
        for ddl in ("t TIMESTAMP", "t TIMESTAMP, l ARRAY<TIMESTAMP_NTZ>"):
            schema = StructType.fromDDL(ddl)
            form = build_part_format(spark, "parquet", {}, schema)
            path = tmp_path / f"{len(ddl)}.parquet"
            columns = [pa.array([value], one.type) for one, value in zip(form.schema, (micros, [micros]), strict=False)]
            with path.open("wb") as file:
                part = form.open(pa.PythonFile(file))
                part.write(pa.RecordBatch.from_arrays(columns, schema.names))
                part.close()
            physical = pytest.importorskip("pyarrow.parquet").ParquetFile(path).schema.column(0).physical_type
            assert physical == ("INT96" if (setting, ddl) == ("INT96", "t TIMESTAMP") else "INT64")
            frame = spark.read.parquet(str(path))
            assert frame.schema == schema and frame.selectExpr("unix_micros(t)").collect()[0][0] == micros
    finally:
        spark.conf.set(name, kept)


CSV: list[dict[str, str]] = [
    {},
    {"sep": ";", "quoteAll": "true", "nullValue": "-", "header": "false", "timestampFormat": "yyyy/MM/dd HH"},
    {"escape": "\\", "emptyValue": "", "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    {"encoding": "UTF-16", "lineSep": "|", "dateFormat": "dd.MM.yyyy"},
    {"charset": "ISO-8859-1", "quote": "'", "delimiter": "\t"},
    {"maxRecordsPerFile": "25"},
]  # fmt: skip


@pytest.mark.parametrize("options", CSV)
def test_lines_of_csv_are_those_of_spark(
    spark: SparkSession, mixed: Lab, shore: ObjectStore, tmp_path: Path, options: dict[str, str], deep: bool
) -> None:
    if not deep and options is not CSV[3]:
        pytest.skip("--deep runs this")
    output = Output("", "csv", fields=FIELDS.replace("b BINARY", "b STRING"), writer=options)
    here, there = both(spark, mixed, shore, tmp_path, output)
    assert shape(here) == shape(there)
    files = [sorted(one.glob("part-*")) for one in (here, there)]
    assert [one.read_bytes() for one in files[0]] == [one.read_bytes() for one in files[1]]


CODECS = {
    # with the endings of names that Spark 4.3 gives
    "ndjson": {
        "GZIP": ".txt.gz", "bzip2": ".txt.bz2", "deflate": ".txt.deflate", "snappy": ".txt.snappy", "lz4": ".txt.lz4",
        "none": ".txt",
    },
    "parquet": {"gzip": ".gz.parquet", "zstd": ".zstd.parquet", "lz4_raw": ".lz4raw.parquet", "none": ".parquet"},
    "orc": {"zlib": ".zlib.orc", "snappy": ".snappy.orc", "lz4": ".lz4.orc", "none": ".orc"},
}  # fmt: skip


@pytest.mark.parametrize("kind", CODECS)
def test_spark_reads_every_compression(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    lines = [f"line {number} " + "x" * (number % 2000) for number in range(400)]
    batch = pa.RecordBatch.from_arrays([pa.array(lines)], ["value"])
    schema = StructType.fromDDL("value STRING")
    for codec, ending in CODECS[kind].items():
        form = build_part_format(spark, kind, {"compression": codec}, schema)
        assert form.suffix == ending
        with (tmp_path / f"{codec}{ending}").open("wb") as file:
            part = form.open(pa.PythonFile(file))
            part.write(batch)
            part.write(batch.slice(7, 5))
            part.close()
    reader = spark.read.format("text" if kind == "ndjson" else kind)
    rows = [row.value for row in reader.load([str(path) for path in tmp_path.iterdir()]).collect()]
    assert sorted(rows) == sorted((lines + lines[7:12]) * len(CODECS[kind]))
    for given in ({"compression": "lzo"}, {"parquet.bloom.filter.enabled": "true"}, {"maxrecordsperfile": "some"}):
        with pytest.raises(UsageError) as caught:
            build_part_format(spark, kind, given, schema)
        assert caught.value.code == "SOW-SPK-168"


def test_times_that_arrow_writes_wrongly_to_orc_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    form = build_part_format(spark, "orc", {}, StructType.fromDDL("st STRUCT<l: ARRAY<TIMESTAMP>>, d DATE"))
    gregorian = -12_219_292_800_000_000
    instants = [0, 5, -1_000_000, gregorian, 253_402_300_799_999_999, None]
    for instant, day in ((5, 5), (-5, 5), (-1_000_001, 5), (gregorian - 1_000_000, 5), (5, -141_428)):
        rows = pa.array([{"l": [one]} for one in [*instants, instant]], form.schema.field("st").type)
        days = pa.array([-141_427, None, 0, 1, 2, 3, day], pa.int32()).cast(pa.date32())
        path = tmp_path / f"{instant}{day}.orc"
        with path.open("wb") as file:
            part = form.open(pa.PythonFile(file))
            part.write(pa.RecordBatch.from_arrays([rows, days], ["st", "d"]))
            if (instant, day) == (5, 5):
                part.close()
                continue
            with pytest.raises(UsageError, match=r"column (st\.l|d) ") as caught:
                part.close()
            assert caught.value.code == "SOW-SPK-169"
    found = spark.read.orc(str(tmp_path / "55.orc")).selectExpr("unix_micros(st.l[0])", "unix_date(d)").collect()
    assert [row[0] for row in found] == [*instants, 5] and [row[1] for row in found][::6] == [-141_427, 5]


def lines_of(shore: ObjectStore, prefix: str) -> list[str]:
    """The lines of a data set, file after file."""
    names = [name for name in shore.names(f"{prefix}/") if name.rpartition("/")[2].startswith("part-")]
    return [line for name in names for line in shore.objects[f"lake/{prefix}/{name}"].decode().splitlines()]


def given(shore: ObjectStore, prefix: str) -> dict[str, bytes]:
    """What readers see there: without the marks of directories."""
    names = [name for name in shore.names(f"{prefix}/") if name[-1:] not in ("", "/") and name[:6] != "_tempo"]
    return {name: shore.objects[f"lake/{prefix}/{name}"] for name in names}


class Counted:
    """Reads numbers as rows, in two batches. Between them an attempt does what ``once`` names, once or always."""

    def __init__(self, directory: Path, once: str = "", always: bool = False, url: str = "") -> None:
        self.directory = directory
        self.once = once
        self.always = always
        self.url = url

    def __call__(self, item: range) -> Iterator[pyarrow.RecordBatch]:
        import os
        import signal

        import pyarrow as pa

        yield self.batch(item)
        mark = self.directory / f"tried-{item.start}"
        if item.start == 10 and (self.always or not mark.exists()):
            mark.touch()
            if self.once == "fail":
                raise InputError("SOW-QRY-004", "this attempt fails")
            if self.once == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.once == "come":
                remote_files.write_file(parse_url(self.url) / "stranger", [b"first"])
        yield pa.RecordBatch.from_arrays(
            [pa.array([7] * len(item), pa.int64()), pa.array([b"second %d" % one for one in item])],
            [BYTES_COLUMN, "value"],
        )

    def batch(self, item: range) -> pyarrow.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [pa.array([5] * len(item), pa.int64()), pa.array([b"first %d" % one for one in item])],
            [BYTES_COLUMN, "value"],
        )


ITEMS = [range(10), range(10, 20), range(20, 20), range(20, 30)]
WANTED = [f"{what} {one}" for item in ITEMS for what in ("first", "second") for one in item]


def rows_of(spark: SparkSession, read: Counted) -> TaskRows[range]:
    return TaskRows(spark, ITEMS, read, f"{BYTES_COLUMN} BIGINT, value BINARY")


@pytest.mark.parametrize(("how", "codec"), [("fail", "none"), ("die", "gzip")])
def test_what_a_lost_attempt_has_written_is_no_part_of_the_data_set(
    spark: SparkSession, shore: ObjectStore, tmp_path: Path, how: str, codec: str, deep: bool
) -> None:
    if not deep and how == "fail":
        pytest.skip("--deep runs this; a failing attempt is also below")
    shore.empty()
    output = Output(with_key(shore, "lost"), "ndjson", writer={"compression": codec})
    written = write_rows(rows_of(spark, Counted(tmp_path, how)), output, "write")
    assert (tmp_path / "tried-10").exists()
    assert (written.records, written.bytes, written.partitions) == (60, 360, 4)
    files = fetched(shore, "lost", tmp_path / "files")
    assert shape(files)[-3:] == [f"part-0000{one}-c000.txt{'.gz' * (codec == 'gzip')}" for one in (0, 1, 3)]
    assert len({UUID(path.name[11:47]) for path in files.glob("part-*")}) == 1
    opened = {"none": open, "gzip": gzip.open}[codec]
    assert [line.rstrip("\n") for path in sorted(files.glob("part-*")) for line in opened(path, "rt")] == WANTED
    # Nothing but renaming makes a name that readers look at: an attempt that is thought dead may still write then.
    made = [key for method, key in shore.requests if method in ("PUT", "POST") and key.startswith("lake/lost/")]
    hidden = [key for key in made if key.startswith("lake/lost/_temporary-")]
    attempts = {key.split("/")[3] for key in hidden if "/part-" in key}
    assert len(attempts) == 4 and made[-1] == "lake/lost/_SUCCESS"
    plain = [key for key in made if key not in hidden and "/part-" in key]
    assert len(plain) == len(set(plain)) == 3 and min(map(made.index, plain)) > max(map(made.index, hidden))


def test_a_job_that_fails_leaves_what_was_there(
    spark: SparkSession, shore: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shore.empty()
    output = Output(with_key(shore, "kept"), "ndjson")
    failing = Counted(tmp_path, "fail", always=True)
    with pytest.raises(InputError, match="this attempt fails"):
        write_rows(rows_of(spark, failing), output, "write")
    assert given(shore, "kept") == {}
    write_rows(rows_of(spark, Counted(tmp_path)), output, "write")
    first = given(shore, "kept")
    # What tasks of the runs that failed were still about to write went with the next run.
    assert not [name for name in shore.names("kept/") if name.startswith("_temporary")]
    assert lines_of(shore, "kept") == WANTED
    with pytest.raises(RefusedError) as caught:
        write_rows(rows_of(spark, failing), output, "write")
    assert caught.value.code == "SOW-SPK-064"
    forced = replace(output, force=True)
    with pytest.raises(InputError):
        write_rows(rows_of(spark, failing), forced, "write")
    assert given(shore, "kept") == first
    # Where it is the renaming that fails, nothing is left that might pass for a data set.
    number = UUID(int=5)
    monkeypatch.setattr(remote_datasets, "uuid4", lambda: number)
    shore.refused.add(f"lake/kept/part-00003-{number}-c000.txt")
    with pytest.raises(StorageError) as denied:
        write_rows(rows_of(spark, Counted(tmp_path)), forced, "write")
    assert denied.value.code == "SOW-RMT-004" and given(shore, "kept") == {}
    shore.refused.clear()
    # A data set with more files, in directories, too, and a file in its place, are replaced as a whole.
    shore.objects |= {"lake/kept/a=1/part-9.parquet": b"x", "lake/kept/part-7.orc": b"y", "lake/kept": b"z"}
    monkeypatch.undo()
    write_rows(rows_of(spark, Counted(tmp_path)), forced, "write")
    assert not [name for name in shore.names("kept/") if name.startswith("_temporary")]
    assert lines_of(shore, "kept") == WANTED and len(given(shore, "kept")) == 4 and "lake/kept" not in shore.objects


def test_an_output_that_comes_meanwhile_is_left_alone(spark: SparkSession, shore: ObjectStore, tmp_path: Path) -> None:
    shore.empty()
    url = with_key(shore, "met")
    with pytest.raises(RefusedError) as caught:
        write_rows(rows_of(spark, Counted(tmp_path, "come", url=url)), Output(url, "ndjson"), "write")
    assert caught.value.code == "SOW-SPK-064" and given(shore, "met") == {"stranger": b"first"}


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "ndjson"])
def test_without_a_record_the_columns_are_there(
    spark: SparkSession, mixed: Lab, shore: ObjectStore, tmp_path: Path, kind: str, deep: bool
) -> None:
    if not deep and kind != "orc":
        pytest.skip("--deep runs this")
    here, there = both(spark, mixed, shore, tmp_path, Output("", kind, fields="a INT, b STRING"), "none")
    assert shape(here) == shape(there)
    if kind in ("parquet", "orc"):
        assert spark.read.format(kind).load(str(there)).schema == spark.read.format(kind).load(str(here)).schema
    else:
        assert next(there.glob("part-*")).read_bytes() == next(here.glob("part-*")).read_bytes()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_directories_are_those_of_spark(
    spark: SparkSession, mixed: Lab, shore: ObjectStore, tmp_path: Path, kind: str, deep: bool
) -> None:
    if not deep and kind == "csv":
        pytest.skip("--deep runs this")
    name, by, count = ("all", ("/s", "/bo"), 60) if deep else ("two", ("/kind",), 4)
    output = Output("", kind, partition_by=by, fields="id BIGINT, s STRING")
    here, there = both(spark, mixed, shore, tmp_path, output, name)
    places = [sorted({str(one.relative_to(root).parent) for one in root.rglob("part-*")}) for root in (here, there)]
    assert places[0] == places[1] and len(places[0]) > 2
    frames = [spark.read.option("header", "true").format(kind).load(str(root)) for root in (here, there)]
    rows = [sorted(str(row) for row in frame.collect()) for frame in frames]
    assert frames[0].schema == frames[1].schema and rows[0] == rows[1] and len(rows[0]) == count


def test_names_of_directories(spark: SparkSession, mixed: Lab, shore: ObjectStore) -> None:
    escape = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName  # type: ignore[union-attr]
    every = "".join(map(chr, range(1, 300))) + "\u2028\U0001f600"
    assert format_directory(["a b"], [every]) == f"{escape('a b')}={escape(every)}/"
    with pytest.raises(AnalysisException):
        output = Output(with_key(shore, "no"), partition_by=("_nothing",))
        export_journal(spark, mixed.open(), ExportSelection(), output)


def test_several_topics_and_the_journal(spark: SparkSession, mixed: Lab, shore: ObjectStore) -> None:
    shore.empty()
    instance = mixed.open()
    topics = [one for one in instance.config.topics if one.name != "none"]
    report = export(spark, instance, topics, Output(with_key(shore, "many"), "ndjson"))
    assert report.records == 64 and "_SUCCESS" in shore.names("many/_topic=two/")
    assert report.output == "s3://lake/many"  # without what the URL has of passwords
    assert lines_of(shore, "many/_topic=all") == mixed.query("all")
    assert lines_of(shore, "many/_topic=two") == mixed.query("two")
    refs = tuple((one.name, one.message_type) for one in topics)
    entries = ExportSelection((*refs, ("none", "json")), from_txid=2)
    assert export_journal(spark, instance, entries, Output(with_key(shore, "entries"), "parquet")).records == 63


def test_tables_of_lakes_are_refused(shore: ObjectStore) -> None:
    for kind in ("delta", "iceberg"):
        with pytest.raises(UsageError) as caught:
            require_reachable(Output(with_key(shore, "lake"), kind))
        assert caught.value.code == "SOW-SPK-140" and "secret" not in str(caught.value)
