"""Packed input files: what is in them, that they are not cut, and what is said of it; without a virtual machine."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import zstandard
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.engine.options import PublishOptions
from sowctl.errors import DamageError, UsageError
from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.seam import SEAM
from sowctl.spark.jobs import load as loading
from sowctl.spark.jobs.folds import two_pass_fold
from sowctl.spark.jobs.inputs import find_large_compressed, read_lines, split_files
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.reading.limits import PARTITION_LIMITS
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.rdds import Session, numbers

XML = config_xml(topic_xml("log"), ("log",))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".GZ": lambda raw: gzip.compress(raw[:10]) + gzip.compress(raw[10:]),
}


def found(path: Path, size: int) -> list[object]:
    """Messages with their offsets and lines, blank lines, what is refused."""
    parts = [part for split in split_files([str(path)], size) for part in read_lines(split)]
    messages = [row for part in parts for row in zip(part.payloads, part.offsets, part.lines, strict=True)]
    refused = [(one.line, one.offset, one.code) for part in parts for one in part.refused]
    return [messages, sum(part.blank for part in parts), refused]


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_has_the_lines_of_a_plain_one(tmp_path: Path, suffix: str) -> None:
    rng = random.Random(suffix)
    for data in (b"", b"\n", b"{}", b"a\nbb\n\nccc\r\n\n", rng.randbytes(40_000).replace(b"\n", b"\n\n")):
        plain, packed = tmp_path / "in.ndjson", tmp_path / f"in.ndjson{suffix}"
        plain.write_bytes(data)
        packed.write_bytes(PACKERS[suffix](data))
        assert found(packed, 10) == found(plain, 1 << 20)
        assert len(list(split_files([str(packed)], 10))) == 1


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_file_that_is_damaged_is_told(tmp_path: Path, suffix: str) -> None:
    raw = PACKERS[suffix](b"{}\n" * 1000)
    packed = tmp_path / f"in.ndjson{suffix}"
    for wrong in (raw[:-1], b"plain", raw + b"behind"):
        packed.write_bytes(wrong)
        with pytest.raises(DamageError) as caught:
            found(packed, 10)
        assert (caught.value.code, caught.value.place) == ("SOW-SPK-154", str(packed))


def test_a_load_of_packed_files_is_one_of_plain_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(numbers())
    monkeypatch.setattr(loading, "format_attempt_name", lambda: next(names))
    told: list[str] = []
    rows = [message(id=n % 30, v=n) + "\n" for n in range(200)]
    (tmp_path / "a.ndjson").write_text("".join(rows[:150]))
    (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress("".join(rows[150:]).encode()))
    options = LoadOptions(publish=PublishOptions(), split_bytes=300)
    digests, tasks = [], []
    for name, files in (("one", ["a.ndjson", "b.ndjson.gz"]), ("two", ["a.ndjson.zst"])):
        lab = Lab(tmp_path / name, XML)
        if name == "two":
            (tmp_path / "a.ndjson.zst").write_bytes(zstandard.ZstdCompressor().compress("".join(rows).encode()))
        instance = replace(lab.open(), notify=told.append)
        paths = [str(tmp_path / file) for file in files]
        report = load(cast(Any, Session()), instance, instance.topic("log").config, paths, options)
        assert (report.records, report.rejected) == (200, 0)
        digests.append(lab.digest("log"))
        tasks.append(report.partitions)
        # What is larger than a piece, and yet one, is said.
        large = [path for path in paths if not path.endswith("n") and Path(path).stat().st_size > 300]
        assert report.details.get("uncut", []) == large
    assert digests[0] == digests[1]
    assert tasks[0] > 3 and tasks[1] == 1
    assert len(told) == 1 and told[0].startswith(f"{tmp_path}/a.ndjson.zst is compressed")
    with pytest.raises(UsageError):
        load(cast(Any, Session()), instance, instance.topic("log").config, [str(tmp_path / "one")], options)


def test_a_rebuild_remarks_on_journal_files_that_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(numbers())
    monkeypatch.setattr(two_pass_fold, "format_attempt_name", lambda: next(names))
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", 600)
    lab = Lab(tmp_path, XML, journal_size=2000)
    for step in range(12):
        lab.publish("log", *[message(id=n, pad=random.Random(step + n).randbytes(40).hex()) for n in range(30)])
    first, second, *_ = lab.journals()
    first.with_name(f"{first.name}.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    compress_file(second, ".zst", SEAM)
    before, told = lab.digest("log"), list[str]()
    instance = replace(lab.open(), notify=told.append)
    rebuild(cast(Any, Session()), instance, [instance.topic("log").config])
    assert lab.digest("log") == before
    assert [text[:23] for text in told] == ["journal file 0000000000"]


def test_only_large_packed_files_are_told(tmp_path: Path) -> None:
    for name in ("a.ndjson", "b.ndjson.gz", "c.ndjson.zst"):
        (tmp_path / name).write_bytes(b"x" * (100 if name[0] == "b" else 200))
    splits = list(split_files([str(path) for path in sorted(tmp_path.iterdir())], 100))
    assert find_large_compressed(splits, 100) == [f"{tmp_path}/c.ndjson.zst"]
