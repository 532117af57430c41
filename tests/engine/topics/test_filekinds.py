"""A path that is clearly not a store: its kind, exit 2; a name ending in .sow is a store, otherwise damaged (5)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import resolve_targets
from sowctl.errors import DamageError, UsageError
from tests.support.instances import Lab, config_xml, message, topic_xml

KINDS = {
    "a.ndjson": (b'{"id":1}\n{"id":2}\n', "looks like JSON"),
    "bom.json": (b'\xef\xbb\xbf [{"id":1}]', "looks like JSON"),
    "a.xml": (b"<AMPSConfig/>", "looks like XML"),
    "a.csv": ("id,näme\n".encode() + b"x" * 5000, "it is text"),
    "cut.txt": (("x" * 4095 + "é" * 9).encode(), "it is text"),
    "a.gz": (gzip.compress(b"{}", mtime=0), "gzip"),
    "a.zst": (b"\x28\xb5\x2f\xfd\x24", "zstd"),
    "a.zip": (b"PK\3\4\24", "zip"),
    "a.db": (b"SQLite format 3\0\1\2", "SQLite"),
    "empty": (b"", "empty"),
    "x.sow-lock": (b"\0" * 100, "a lock file of x.sow"),
    "x.sow-gate": (b"\1" * 16, "a lock file of x.sow"),
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, config_xml(topic_xml("orders"), ("orders",)))


@pytest.mark.parametrize("name", KINDS)
def test_what_it_looks_like(lab: Lab, name: str) -> None:
    content, words = KINDS[name]
    path = lab.directory / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        resolve_targets(lab.open(), str(path))
    assert (raised.value.code, raised.value.exit_status) == ("SOW-ENG-080", 2)
    assert words in raised.value.message and raised.value.hint


def test_a_journal(lab: Lab) -> None:
    lab.publish("orders", message(id=1))
    with pytest.raises(UsageError, match="journal file"):
        resolve_targets(lab.open(), str(lab.journals()[0]))


def test_what_is_or_was_a_store_passes(lab: Lab) -> None:
    lab.publish("orders", message(id=1))
    store = lab.store("orders")
    copy = lab.directory / "copy"
    copy.write_bytes(store.read_bytes())
    assert resolve_targets(lab.open(), str(copy))[0].path == copy
    copy.write_bytes(bytes(8192))
    assert resolve_targets(lab.open(), str(copy))[0].path == copy
    store.write_bytes(b"text where a store was")
    with pytest.raises(DamageError) as raised:
        list(lab.open().topic("orders").query().records())
    assert raised.value.code == "SOW-STO-021"
    assert resolve_targets(lab.open(), str(store))[0].path == store
