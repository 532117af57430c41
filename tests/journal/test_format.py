"""Files of a journal: header errors distinguish magic, version and checksum; names; fields of records."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from sowctl.errors import DamageError, UsageError, VersionError
from sowctl.journal import format as fmt
from sowctl.journal.entries import ENTRY_COLUMNS, Entry
from sowctl.store import codec as store_codec

RECORD_FIELDS = {
    "key": "keys",
    "check": "checks",
    "txid": "txid",
    "time": "times",
    "expiration": "expirations",
    "flags": "flags",
    "user_key": "user_keys",
    "correlation_id": "correlation_ids",
    "logical_topic": "logical_topics",
    "payload": "payloads",
}
"""Where a journal keeps each field of a store's record: in a column, among the payloads, or counted (the txid)."""


def test_every_field_of_a_record_has_a_column() -> None:
    fields = set(store_codec.Record.__struct_fields__) - {"value"}
    assert fields == set(RECORD_FIELDS)
    columns = {column.name for column in ENTRY_COLUMNS} | {"txid", "payloads"}
    assert set(RECORD_FIELDS.values()) <= columns
    page = (Path(__file__).parents[2] / "man" / "sow-journal.5").read_text()
    table = page.split("record field", 1)[1].split(".TE", 1)[0]
    listed = {line.split("\t")[0] for line in table.splitlines()[1:] if "\t" in line}
    assert listed == fields


def test_an_entry_has_the_parts_of_the_table() -> None:
    others = {"txid", "topic", "publisher", "client", "payload"}
    assert set(Entry.__struct_fields__) == {column.part for column in ENTRY_COLUMNS if column.part} | others


def resigned(raw: bytes, position: int, value: bytes, crc_at: int) -> bytes:
    """Return a file header with changed bytes and a recomputed CRC."""
    changed = bytearray(raw)
    changed[position : position + len(value)] = value
    changed[crc_at : crc_at + 4] = zlib.crc32(changed[:crc_at]).to_bytes(4, "little")
    return bytes(changed)


def test_magic_checksum_and_version_are_three_errors() -> None:
    raw = fmt.pack_file_header(b"L" * 16, 11, 3, 77, b"checkpoint")[: fmt.FILE_HEADER_SIZE]
    header = fmt.unpack_file_header(raw, "here")
    assert (header.lineage, header.first_txid, header.number, header.created) == (b"L" * 16, 11, 3, 77)
    assert header.blocks_offset == 90
    for wrong, kind, code in (
        (b"X" + raw[1:], DamageError, "SOW-JRN-002"),
        (b"", DamageError, "SOW-JRN-002"),
        (raw[:20] + b"X" + raw[21:], DamageError, "SOW-JRN-004"),
        (raw[:8] + b"\2" + raw[9:], DamageError, "SOW-JRN-004"),
        (resigned(raw, 8, b"\3", 76), VersionError, "SOW-JRN-003"),
        (resigned(raw, 10, b"\1", 76), DamageError, "SOW-JRN-004"),
        (resigned(raw, 32, bytes(8), 76), DamageError, "SOW-JRN-004"),
    ):
        with pytest.raises(kind) as caught:
            fmt.unpack_file_header(wrong, "here")
        assert caught.value.code == code


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a\0b", "x" * 201])
def test_instance_names_that_are_no_file_names(name: str) -> None:
    with pytest.raises(UsageError):
        fmt.check_instance(name)


def test_names_of_files() -> None:
    assert fmt.format_file_name("a.b", 7) == "a.b.0000000007.journal"
    assert fmt.build_name_pattern("a.b").fullmatch("a.b.0000000007.journal")
    assert not fmt.build_name_pattern("a.b").fullmatch("axb.0000000007.journal")
    assert not fmt.build_name_pattern("a").fullmatch("a.b.0000000007.journal")


def test_what_belongs_to_a_journal() -> None:
    own = fmt.build_own_files_pattern("a.b")
    for name in ("0000000007.journal", "0000000007.journal.gz", "0000000007.journal.torn-12", "topics", "lock"):
        assert own.fullmatch(f"a.b.{name}")
        assert not own.fullmatch(f"a.{name}")
    for name in ("7.journal", "0000000007.journal.bz2", "0000000007.journal.torn-", "topics.old"):
        assert not own.fullmatch(f"a.b.{name}")


def test_fields_of_rows_are_texts_and_numbers_and_nothing_like_them() -> None:
    assert (fmt.require_text("x"), fmt.require_number(0), fmt.require_number(1 << 63)) == ("x", 0, 1 << 63)
    for value in (b"x", 1, None, ["x"]):
        with pytest.raises(ValueError, match="text"):
            fmt.require_text(value)
    for value in (True, 1.0, "1", None):
        with pytest.raises(ValueError, match="number"):
            fmt.require_number(value)


def test_rows_are_an_array_of_as_many_as_expected() -> None:
    assert fmt.unpack_rows(b"\x92\x01\xa1x", 2) == [1, "x"]
    for raw in (b"", b"\xc1", b"\x81\x01\x02", b"\x91\x01", b"\x92\x01\xa1x\x00"):
        with pytest.raises(ValueError, match="not "):
            fmt.unpack_rows(raw, 2)
