"""Each bit of the structures that LMDB follows in a store, flipped: commands give the right answer or status 5 with a
code.

Page headers, pointers to nodes, node headers, keys of branches, descriptions of sub-databases, lists of free pages,
both meta pages, and truncated files. No command ends by a signal, hangs, or prints other data with status 0. The
short form tests every n-th bit, ``--deep`` many more.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import json
import os
import random
import shutil
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.main import main
from sowctl.open_files import close_kept_files
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    BRANCH_FLAG,
    META_END,
    META_TAIL_AT,
    NO_PAGE,
    NODE_LAYOUT,
    PAGE_LAYOUT,
    SUB_TREE_FLAG,
    TREE_LAYOUT,
)
from sowctl.store.lmdbfile.meta_page import parse_meta_page
from tests.support.damage import flipped
from tests.support.instances import config_xml, topic_xml

PAGE = 4096
SECONDS = 60
"""Seconds after which a command counts as hanging."""
REPORTED = (5, 9)
Answer = list[Any]
"""Exit status, standard output and standard error of a command."""


def call(*words: str, stdin: bytes = b"", at: str = "2026-01-05T09:00:00Z") -> Answer:
    out, err = io.BytesIO(), io.BytesIO()
    status = main(words, environ={"SOWCTL_NOW": at}, stdin=io.BytesIO(stdin), stdout=out, stderr=err)
    return [status, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace")]


def messages(ids: Sequence[int], tag: int, size: int) -> bytes:
    return b"".join(json.dumps({"id": number, "t": tag, "p": "x" * size}).encode() + b"\n" for number in ids)


def make(place: Path, count: int, size: int, rounds: int) -> None:
    """A topic without a journal, written and deleted from in several transactions."""
    place.mkdir()
    (place / "sowctl.xml").write_text(config_xml(topic_xml("plain", file="sow/plain.sow"), ()))
    os.chdir(place)
    chance = random.Random(3)
    assert call("publish", "plain", stdin=messages(range(count), 0, size))[0] == 0
    for tag in range(1, rounds):
        some = sorted(chance.sample(range(count), max(2, count // 5)))
        assert call("publish", "plain", stdin=messages(some, tag, size + tag))[0] == 0
        gone = ",".join(map(str, chance.sample(range(count), max(1, count // 20))))
        assert call("delete", "plain", "--filter", f"/id IN ({gone})", "--yes")[0] == 0


READS = (
    ("get", "plain", "3"),
    ("get", "plain", "99999999"),
    ("query", "plain"),
    ("query", "plain", "/t = 1"),
    ("hash", "plain"),
)
WRITES: dict[str, tuple[tuple[str, ...], bytes]] = {
    "publish": (("publish", "plain"), messages([1, 3, 5, 900_001, 900_003], 77, 60)),
    "publish many": (("publish", "plain"), messages(range(0, 400, 2), 78, 200)),
    "delete": (("delete", "plain", "--filter", "/id IN (2,3,4,5)", "--yes"), b""),
    "delete most": (("delete", "plain", "--filter", "/id > 4", "--yes"), b""),
    "expire": (("expire", "plain"), b""),
    "compact": (("store", "compact", "plain", "--always"), b""),
    "repair": (("store", "repair", "plain", "--yes"), b""),
}


def state() -> Answer:
    """Status and all records."""
    status, out, err = call("query", "plain")
    return [status, sorted(out.splitlines()), err]


def in_child(work: Callable[[], Answer]) -> Answer:
    """The result of ``work`` in a forked child, or the signal that ended it, as a negative status."""
    inlet, outlet = os.pipe()
    pid = os.fork()
    if pid == 0:
        gc.freeze()
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # A command that hangs is ended by the signal.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            told = json.dumps(work())
        except BaseException as problem:  # an exception that no command should raise
            told = json.dumps([70, "", repr(problem)])
        with os.fdopen(outlet, "w") as stream:
            stream.write(told)
            stream.flush()
            os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as stream:
        told = stream.read()
    ending = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(told) if ending == 0 else [ending, "", ""]


class Copies:
    """Copies of an instance, each with its store replaced by the bytes of a damaged one."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.data = (base / "sow/plain.sow").read_bytes()

    def ask(self, data: bytes, *jobs: Callable[[], Answer]) -> list[Answer]:
        """The answers of some jobs, each in a child, one after the other in one copy."""
        work = self.base.with_name("work")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.base, work)
        (work / "sow/plain.sow").write_bytes(data)
        os.chdir(work)
        return [in_child(job) for job in jobs]


def find_structure(data: bytes) -> Iterator[int]:
    """The offsets of all bytes that LMDB follows, except those of the main trees' leaves that are records."""
    metas = [parse_meta_page(data[at : at + META_END], at // PAGE) for at in (0, PAGE)]
    newest = max((page for page in metas if not isinstance(page, str)), key=lambda page: page.txnid)
    for at in (0, PAGE):
        yield from range(at, at + META_END)
    roots = [(newest.free.root, True), (newest.main.root, False)]
    while roots:
        number, is_free = roots.pop()
        base = number * PAGE
        flags, lower = PAGE_LAYOUT.unpack_from(data, base)[2:4]
        yield from range(base, base + lower)
        for (place,) in struct.iter_unpack("=H", data[base + PAGE_LAYOUT.size : base + lower]):
            at = base + place
            low, high, more, key_size = NODE_LAYOUT.unpack_from(data, at)
            body = at + NODE_LAYOUT.size + key_size
            yield from range(at, at + NODE_LAYOUT.size)
            if flags & BRANCH_FLAG:
                yield from range(at + NODE_LAYOUT.size, body)
                roots.append((low | high << 16 | more << 32, is_free))
            elif more & SUB_TREE_FLAG:
                yield from range(body, body + TREE_LAYOUT.size)
                root = TREE_LAYOUT.unpack_from(data, body)[-1]
                roots += [(root, False)] if root != NO_PAGE else []
            elif more & BIG_DATA_FLAG:
                first = struct.unpack_from("=Q", data, body)[0]
                yield from (*range(body, body + 8), *range(first * PAGE, first * PAGE + PAGE_LAYOUT.size))
            elif is_free:
                yield from range(at + NODE_LAYOUT.size, body + min(low | high << 16, 200))


def list_damages(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """About ``count`` damaged copies, each bit of the structure with equal probability."""
    newer = max((0, PAGE), key=lambda at: struct.unpack_from("=Q", data, at + META_TAIL_AT + 8)[0])
    # Flipped, it looks like a failed write of the page: tests/store/opening/test_meta_pages.py.
    known = 8 * (newer + META_TAIL_AT + 8) + 1
    bits = sorted({8 * place + bit for place in find_structure(data) for bit in range(8)} - {known})
    for bit in random.Random(len(data)).sample(bits, min(count, len(bits))):
        yield f"page {bit // 8 // PAGE}, byte {bit // 8 % PAGE}, bit {bit % 8}", flipped(data, bit)
    for size in (len(data) - 1, len(data) - PAGE, len(data) // 2, 2 * PAGE, PAGE + 100, 16, 0):
        yield f"cut to {size} bytes", data[:size]


def judge(got: Answer, after: Answer, right: tuple[Answer, Answer], before: Answer) -> bool:
    """Whether a command that changes a store, and the records read afterwards, are correct."""
    status, (right_status, right_after) = got[0], (right[0][0], right[1])
    if status not in (right_status, *REPORTED) or after[0] not in (0, *REPORTED):
        return False
    if after[0] != 0:
        return True
    # A command that reports damage has made all changes or none.
    return after[1] == right_after[1] or (status != right_status and after[1] == before[1])


def judge_repair(got: Answer, after: Answer, before: Answer) -> bool:
    """Whether a repair added no records, and reported missing ones."""
    if got[0] < 0 or got[0] == 70 or after[0] not in (0, *REPORTED, 10):
        return False
    is_whole = after[1] == before[1]
    return after[0] != 0 or (set(after[1]) <= set(before[1]) and (is_whole or got[0] != 0))


@pytest.mark.parametrize(("count", "size", "rounds"), [(6, 40, 2), (150, 90, 3), (40, 5000, 4)])
def test_no_bit_of_the_structure_ends_a_command_or_gives_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: bool, count: int, size: int, rounds: int
) -> None:
    """A tree of one level, one of two levels, and one with values in overflow pages; all with free pages."""
    monkeypatch.chdir(tmp_path)
    base = tmp_path / "base"
    make(base, count, size, rounds)
    shutil.copytree(base, tmp_path / "warm")
    os.chdir(tmp_path / "warm")
    # Modules are loaded once here, not in every child.
    for words in READS:
        call(*words)
    for words, stdin in WRITES.values():
        call(*words, stdin=stdin)
    close_kept_files()
    copies = Copies(base)

    def read_all() -> Answer:
        return [call(*words) for words in READS]

    right_reads, before = copies.ask(copies.data, read_all, state)
    assert [one[0] for one in right_reads] == [0, 1, 0, 0, 0]
    right = {}
    for name, (words, stdin) in WRITES.items():
        done, after = copies.ask(copies.data, lambda words=words, stdin=stdin: call(*words, stdin=stdin), state)  # type: ignore[misc]
        assert done[0] == 0
        right[name] = done, after
    bad = []
    reported = 0
    for index, (what, data) in enumerate(list_damages(copies.data, 1500 if deep else 14)):
        (found,) = copies.ask(data, read_all)
        if not isinstance(found[0], list):
            bad.append((what, "reads", found))
            continue
        for words, got, wanted in zip(READS, found, right_reads, strict=True):
            reported += got[0] in REPORTED
            if got[:2] != wanted[:2] and got[0] not in REPORTED:
                bad.append((what, words, got))
        name = list(WRITES)[index % len(WRITES)]
        words, stdin = WRITES[name]
        got, after = copies.ask(data, lambda words=words, stdin=stdin: call(*words, stdin=stdin), state)  # type: ignore[misc]
        is_right = judge_repair(got, after, before) if name == "repair" else judge(got, after, right[name], before)
        if not is_right:
            bad.append((what, name, got, after[0]))
    assert not bad
    assert reported > 20


def test_the_bit_that_brings_an_older_state_back_costs_a_topic_with_a_journal_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction id of the current meta page, reduced by 2: LMDB uses the other page, and the journal has the
    missing changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("plain", file="sow/plain.sow"), ("plain",)))
    store = tmp_path / "sow/plain.sow"
    place = number = 0
    for tag in range(9):
        assert call("publish", "plain", stdin=messages(range(tag, tag + 30), tag, 200))[0] == 0
        close_kept_files()
        data = store.read_bytes()
        number, place = max(
            (struct.unpack_from("=Q", data, at)[0], at) for at in (META_TAIL_AT + 8, PAGE + META_TAIL_AT + 8)
        )
        if tag > 4 and number & 2:
            break
    assert number & 2
    before = state()
    store.write_bytes(flipped(data, 8 * place + 1))
    assert state() == before
    assert call("publish", "plain", stdin=messages([1, 500], 99, 20))[0] == 0
    expected = {json.loads(line)["id"]: json.loads(line) for line in before[1]}
    expected |= {number: {"id": number, "t": 99, "p": "x" * 20} for number in (1, 500)}
    assert {json.loads(line)["id"]: json.loads(line) for line in state()[1]} == expected
    assert call("check", "plain")[0] == 0
    close_kept_files()
