"""A damaged state file of a queue is an error in every command, and is never treated as a new one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from tests.cli.conftest import Cli
from tests.support.queues import lab_xml, queue_xml

PAGE = 4096
NO_PAGE = b"\xff" * 8
TREE = struct.Struct("=IHHQQQQ8s")
"""LMDB's record of a database: two numbers, depth, four counts, and the root."""
MAIN_TREE = 16 + 24 + TREE.size
"""Offset in a meta page of that record for the tree of databases."""


@pytest.fixture
def leased(cli: Cli, tmp_path: Path) -> Path:
    """The state file of a queue with four messages, two of them leased."""
    (tmp_path / "sowctl.xml").write_text(lab_xml(queue_xml("<LeasePeriod>1h</LeasePeriod>")))
    assert cli("publish", "orders", stdin=b'{"id":1}\n{"id":2}\n{"id":3}\n{"id":4}\n').status == 0
    assert cli("queue", "lease", "work", "-n", "2").status == 0
    return next(tmp_path.rglob("work.json.queue"))


def expect_damage(cli: Cli, path: Path) -> None:
    before = path.read_bytes()
    expect_refusals(cli, "peek", "lease", "info")
    info, check = cli("info", "--format", "ndjson"), cli("check")
    assert (info.status, "SOW-QUE-002" in info.err) == (5, True), info
    assert (check.status, "SOW-QUE-002" in check.out) == (5, True), check
    assert path.read_bytes() == before, "it is not replaced"


def expect_refusals(cli: Cli, *commands: str) -> None:
    for command in commands:
        result = cli("queue", command, "work")
        assert (result.status, result.out, "SOW-QUE-002" in result.err) == (5, "", True), (command, result)


def alter_key(raw: bytearray) -> None:
    raw[raw.index(b"stateSOWQUEUE") + 3] ^= 16


def alter_root(raw: bytearray) -> None:
    """The database of the state has the root of another one."""
    for at in range(2 * PAGE, len(raw), PAGE):
        mine, other = raw.find(b"meta", at, at + PAGE), raw.find(b"holders", at, at + PAGE)
        if min(mine, other) > 0:
            mine, other = mine + len(b"meta"), other + len(b"holders")
            raw[mine : mine + TREE.size] = raw[other : other + TREE.size]


def empty_database(raw: bytearray) -> None:
    """The database of the state has no page."""
    for at in range(2 * PAGE, len(raw), PAGE):
        mine = raw.find(b"meta", at, at + PAGE)
        if mine > 0:
            clear_tree(raw, mine + len(b"meta"))


def empty_file(raw: bytearray) -> None:
    """The tree of databases has no page."""
    for meta in (0, PAGE):
        clear_tree(raw, meta + MAIN_TREE)


def clear_tree(raw: bytearray, at: int) -> None:
    first, kind, _, *counts, _ = TREE.unpack_from(raw, at)
    TREE.pack_into(raw, at, first, kind, 0, *counts, NO_PAGE)


@pytest.mark.parametrize("damage", [alter_key, alter_root, empty_database, empty_file])
def test_a_file_that_lost_its_state_is_not_new(cli: Cli, leased: Path, damage: Callable[[bytearray], None]) -> None:
    raw = bytearray(leased.read_bytes())
    damage(raw)
    assert raw != leased.read_bytes()
    leased.write_bytes(raw)
    expect_damage(cli, leased)


@pytest.mark.parametrize("left", ["meta", "pages", "ready", "alarms", "held", "holders"])
def test_any_other_row_shows_that_the_state_is_missing(cli: Cli, leased: Path, left: str) -> None:
    names = "meta", "pages", "ready", "alarms", "held", "names", "deferred", "due", "holders", "barriers", "dead"
    with lmdb.open(str(leased), subdir=False, lock=False, max_dbs=len(names)) as env:
        databases = {name: env.open_db(name.encode(), create=False) for name in names}
        with env.begin(write=True) as txn:
            txn.put(b"told", bytes(8), db=databases["meta"])
            txn.delete(b"state", db=databases["meta"])
            for name in set(names) - {left}:
                txn.drop(databases[name], delete=False)
    expect_damage(cli, leased)


@pytest.mark.parametrize("bit", [0, 1, 5, 8, 17, 30, 31, 32, 37, 48, 63])
def test_a_holder_whose_number_is_damaged_is_an_error(cli: Cli, leased: Path, bit: int) -> None:
    raw = bytearray(leased.read_bytes())
    # The key is the number, big-endian; the row begins with a checksum, the kind of the array and that of the name.
    name = raw.index(b"command-line")
    start = name - 1 - 1 - 4 - 8
    assert raw[start : start + 4] == bytes(4), "numbers are u32"
    raw[start + 7 - bit // 8] ^= 1 << bit % 8
    leased.write_bytes(raw)
    expect_refusals(cli, "peek", "lease")
    check = cli("check")
    assert (check.status, "SOW-QUE-0" in check.out) == (5, True), check
