"""Memo files: sections come out as they went in, and a file that is not whole is of no use, never wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sowctl.memo.format import (
    MAX_OPEN_MEMOS,
    BadMemo,
    MemoFile,
    MemoHeader,
    MemoKind,
    close_open_memos,
    encode_file,
    open_memo,
)

HEAD = MemoHeader(MemoKind.STRINGS, 3, (1 << 128) - 5, 2, 7, 1)
SECTIONS = [b"/path", b"", b"123456789", bytes(range(16))]


def written(path: Path, head: MemoHeader = HEAD) -> Path:
    path.write_bytes(b"".join(encode_file(head, SECTIONS)))
    return path


def test_sections_come_back_and_begin_at_multiples_of_eight(tmp_path: Path) -> None:
    file = MemoFile(written(tmp_path / "a.memo"))
    assert file.head == HEAD
    assert [bytes(file.read_section(number)) for number in range(4)] == SECTIONS
    assert [bytes(file.read_unverified_section(number)) for number in range(4)] == SECTIONS
    raw = (tmp_path / "a.memo").read_bytes()
    assert {raw.index(section) % 8 for section in SECTIONS if section} == {0}
    for read in (file.read_section, file.read_unverified_section):
        with pytest.raises(BadMemo, match="is missing"):
            read(4)


@pytest.mark.parametrize(("width", "code"), [(1, "B"), (2, "H"), (4, "I")])
def test_codes_have_the_width_of_the_file(tmp_path: Path, width: int, code: str) -> None:
    file = MemoFile(written(tmp_path / "a.memo", MemoHeader(MemoKind.WORDS, 16 // width, 0, width)))
    assert file.read_codes(3).tolist() == memoryview(bytes(range(16))).cast(code).tolist()  # type: ignore[call-overload]


def test_every_cut_and_every_wrong_byte_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.memo")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises((BadMemo, ValueError)):
            bytes(MemoFile(path).read_section(3))
    padding = 0
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            file = MemoFile(path)
            found = [bytes(file.read_section(number)) for number in range(4)]
        except BadMemo:
            continue
        assert (file.head, found) == (HEAD, SECTIONS), "bytes between sections mean nothing"
        padding += 1
    assert padding < 32


def test_another_format_and_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.memo")
    raw = bytearray(path.read_bytes())
    raw[8] = 2
    (tmp_path / "b.memo").write_bytes(raw)
    with pytest.raises(BadMemo, match="another format"):
        MemoFile(tmp_path / "b.memo")
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(BadMemo, match="little-endian"):
        MemoFile(path)


def test_a_file_is_opened_again_only_when_it_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.memo")
    first = open_memo(path)
    assert open_memo(path) is first
    replacement = written(tmp_path / "new", MemoHeader(MemoKind.WORDS, 1, 0))
    replacement.replace(path)
    assert open_memo(path).head.kind is MemoKind.WORDS
    for number in range(MAX_OPEN_MEMOS):
        open_memo(written(tmp_path / f"{number}.memo"))
    assert first.head == HEAD, "what is in use stays readable"
    close_open_memos()
    with pytest.raises(OSError):
        open_memo(tmp_path / "none.memo")
