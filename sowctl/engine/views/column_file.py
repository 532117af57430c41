"""Column files of view caches: the fields of records that a view reads, as columns (``sow-view(5)``).

A file is a header, sections of bytes, and an index of the sections at the end, so that it is written part by part in
bounded memory. Each section has a checksum and is verified when it is first read. Loads numpy.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from sowctl.checksum import crc32
from sowctl.memo.valuecodec import decode_values, encode_values
from sowctl.seam import Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.ordered_entries import inconsistent_store_error
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Column, Kind, build_column, choose_code_type, pack_numbers
from sowctl.values.textspans import LazyNumbers, TextSpans

MAGIC = b"SOWCOLS\0"
FORMAT_VERSION = 2
_HEADER_LAYOUT = struct.Struct("<8sHHI")
"""Magic, version, 1 (to notice another byte order), CRC-32 of what stands before."""
_TRAILER_LAYOUT = struct.Struct("<QI4s")
"""Bytes of the index, its CRC-32, end mark."""
_END_MARK = b"COLE"
_ARRAY_MARK = b"\xdd"
"""Begins an array in msgpack whose number of items, 4 bytes, follows."""
_ALIGNMENT_BYTES = 8
_ACTION = "write the columns of a view"
_INTEGER_TYPES = {Kind.I64: np.int64, Kind.U64: np.uint64}
"""The types of the kinds of which a file has the numbers in smaller ones."""
NULL_HASH = 0
"""Stands for NULL among the hashes of texts; no text has it."""


class Section(Struct, array_like=True, frozen=True):
    """Bytes of a file: where they begin, how many, their CRC-32, and the type that numpy gives their items.

    Integers have the smallest type that holds all of the section.
    """

    offset: int
    size: int
    crc: int
    type: str


class StoredColumn(Struct, array_like=True, frozen=True):
    """A column by the numbers of its sections, -1 for none.

    ``kind`` is a name of :class:`Kind`, or ``VALUES`` for slot values one by one (``bounds`` and ``text``: msgpack).
    ``bounds`` and ``text``: the words of a dictionary, or the original texts of numbers, empty for those without one;
    of n texts, n + 1 bounds. ``hashes``: of the words, and of NULL behind them. ``typed``: whether the message type
    says that the numbers with texts are numbers.
    """

    kind: str
    data: int = -1
    nulls: int = -1
    ints: int = -1
    bounds: int = -1
    text: int = -1
    hashes: int = -1
    typed: bool = True


class StoredPart(Struct, array_like=True, frozen=True):
    """Records in key order: their number, the first key, the sections of keys, txids and times, and columns."""

    rows: int
    first: int
    keys: int
    txids: int
    times: int
    columns: list[StoredColumn]
    texts: list[StoredColumn]


class StoredRows(Struct, array_like=True, frozen=True):
    """Rows of a view: how many, the record of the first source that each begins with, and its group.

    ``roots``: numbers of the records in the file; -1 where they follow each other from ``first``. ``codes``: places in
    ``groups``, which holds SOW keys of groups.
    """

    rows: int
    first: int
    roots: int
    codes: int
    groups: int


class ColumnIndex(Struct, frozen=True):
    """The index of a file. ``hidden``: the section of the records of the base file that these replace; -1 for none.

    ``name``: the source and the ID for which the file was written; empty for changes, which are in the cache.
    """

    sections: list[Section] = []
    parts: list[StoredPart] = []
    rows: list[StoredRows] = []
    hidden: int = -1
    name: str = ""


class ColumnWriter:
    """Writes a column file by ``write``, section by section; :meth:`finish` writes the index, with ``name``."""

    def __init__(self, write: Callable[[bytes | memoryview], Any], name: str = "") -> None:
        self._write = write
        self._at = 0
        self._index = ColumnIndex([], [], [], name=name)
        self.records = 0
        head = _HEADER_LAYOUT.pack(MAGIC, FORMAT_VERSION, 1, 0)[:-4]
        self._put(head + crc32(head).to_bytes(4, "little"))

    def _put(self, data: bytes | memoryview) -> None:
        self._write(data)
        self._at += len(data)

    def _add_section(self, array: Array) -> int:
        data = np.ascontiguousarray(array)
        raw = data.view(np.uint8).reshape(-1).data if data.size else memoryview(b"")
        self._index.sections.append(Section(self._at, len(raw), crc32(raw), data.dtype.str))
        self._put(raw)
        if len(raw) % _ALIGNMENT_BYTES:
            self._put(bytes(-len(raw) % _ALIGNMENT_BYTES))
        return len(self._index.sections) - 1

    def add_part(self, part: ColumnBatch, hashes: Sequence[Array] | None = None) -> None:
        """Add records, which come after all before them in key order; ``hashes`` of the words of each text."""
        if not len(part.keys):
            return
        if hashes is None:
            hashes = [hash_words(column.words if column.kind is Kind.STRING else ()) for column in part.texts]
        columns = [self._add_column(column) for column in part.columns]
        texts = [self._add_column(column, known) for column, known in zip(part.texts, hashes, strict=True)]
        keys = self._add_section(part.keys.astype(np.uint64))
        txids, times = (self._add_section(_narrow_integers(stamps)) for stamps in (part.txids, part.times))
        self._index.parts.append(StoredPart(len(part.keys), int(part.keys[0]), keys, txids, times, columns, texts))
        self.records += len(part.keys)

    def copy_part(self, other: ColumnFile, part: StoredPart) -> None:
        """Add a part of another file as it is."""

        def copied(number: int) -> int:
            return number if number < 0 else self._add_section(other.read_array(number))

        def column(one: StoredColumn) -> StoredColumn:
            data, nulls, ints = copied(one.data), copied(one.nulls), copied(one.ints)
            bounds, text, hashes = copied(one.bounds), copied(one.text), copied(one.hashes)
            return StoredColumn(one.kind, data, nulls, ints, bounds, text, hashes, one.typed)

        columns, texts = [column(one) for one in part.columns], [column(one) for one in part.texts]
        keys, txids, times = copied(part.keys), copied(part.txids), copied(part.times)
        self._index.parts.append(StoredPart(part.rows, part.first, keys, txids, times, columns, texts))
        self.records += part.rows

    def add_rows(self, roots: Array, codes: Array, groups: Array) -> None:
        """Add rows in the order of their first records; ``codes`` are places in ``groups``."""
        size = len(roots)
        if not size:
            return
        first = int(roots[0])
        # Nearly always each record makes one row.
        follows = int(roots[-1]) - first == size - 1 and bool((np.diff(roots) == 1).all())
        wide = np.uint16 if len(groups) < 1 << 16 else np.uint32
        number = -1 if follows else self._add_section(roots.astype(np.int64))
        self._index.rows.append(
            StoredRows(size, first, number, self._add_section(codes.astype(wide)), self._add_section(groups))
        )

    def finish(self, hidden: Array | None = None) -> None:
        """Write the index."""
        index = self._index
        if hidden is not None and len(hidden):
            index = msgspec.structs.replace(index, hidden=self._add_section(hidden))
        raw = msgspec.json.encode(index)
        self._put(raw)
        self._put(_TRAILER_LAYOUT.pack(len(raw), crc32(raw), _END_MARK))

    def _add_column(self, column: Column, known: Array | None = None) -> StoredColumn:
        column = pack_numbers(column)
        source, hashes = column.source, -1 if known is None else self._add_section(known)
        if source is not None and not isinstance(source, LazyNumbers):
            # Without the mark of an array of one: those of several, end to end, are the items of an array.
            packed = [encode_values((value,))[1:] for value in source]
            bounds, text = self._add_texts(packed)
            return StoredColumn("VALUES", bounds=bounds, text=text)
        if column.kind is Kind.NULL:
            return StoredColumn(Kind.NULL.name, hashes=hashes)
        data = self._add_section(_narrow_integers(column.data))
        bounds = text = -1
        if column.kind is Kind.STRING:
            bounds, text = self._add_texts(column.words)
        elif source is not None:
            bounds, text = self._add_spans(source.texts.pack())
        nulls = -1 if column.nulls is None or column.kind is Kind.STRING else self._add_section(column.nulls)
        ints = -1 if column.ints is None else self._add_section(column.ints)
        return StoredColumn(column.kind.name, data, nulls, ints, bounds, text, hashes, source is None or source.typed)

    def _add_texts(self, texts: Sequence[bytes]) -> tuple[int, int]:
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
        return self._add_section(_narrow_integers(bounds)), self._add_section(np.frombuffer(b"".join(texts), np.uint8))

    def _add_spans(self, spans: TextSpans) -> tuple[int, int]:
        bounds = np.append(spans.begins, len(spans.raw)).astype(np.int64)
        return self._add_section(_narrow_integers(bounds)), self._add_section(np.frombuffer(spans.raw, np.uint8))


def _narrow_integers(array: Array) -> Array:
    """The numbers in the smallest type of Integers that holds all of them; others as they are."""
    if array.dtype.kind not in "iu" or not array.size:
        return array
    kind = np.result_type(np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max())))
    # Some Integers on both sides of 0 are all held by a Double alone, which is none of theirs.
    return array.astype(kind) if kind.kind in "iu" and kind.itemsize < array.dtype.itemsize else array


def detach_column(column: Column) -> Column:
    """The same column without the block of messages that its texts lie in, and without texts that its numbers
    have anyway."""
    column = pack_numbers(column)
    source, dictionary = column.source, column.dictionary
    if isinstance(source, LazyNumbers):
        source = LazyNumbers(source.data, source.texts.pack(), source.nulls, source.ints, source.typed)
        if source.typed and source.has_canonical_texts():
            return column.strip_source()
    elif not isinstance(dictionary, TextSpans):
        return column
    nulls = None if column.kind in (Kind.STRING, Kind.NULL) else column.nulls
    return Column(
        column.kind, column.size, column.array, nulls, ints=column.ints,
        dictionary=column.words if isinstance(dictionary, TextSpans) else dictionary,
        source=source, texts=column.texts, listed=column.listed,
    )  # fmt: skip


def hash_words(words: Sequence[bytes]) -> Array:
    """A hash of each word, and that of NULL behind them. Equal words have equal hashes."""
    found = np.empty(len(words) + 1, np.uint64)
    found[:-1] = np.fromiter(map(xxh3_64_intdigest, words), np.uint64, len(words))
    found[found == NULL_HASH] = 1
    found[-1] = NULL_HASH
    return found


def _open_regular_file(path: Path) -> int:
    """Open a file for reading. Raises OSError: FileNotFoundError if another kind of file is in its place."""
    try:
        # O_NONBLOCK: opening a pipe of this name must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        # A socket cannot be opened.
        if problem.errno != errno.ENXIO:
            raise
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, "not a regular file", str(path))


class ColumnFile:
    """A column file in memory or mapped. Raises DamageError where it is not what was written."""

    def __init__(self, data: Any, place: Path) -> None:
        self._place = place
        self._view = memoryview(data)
        self.size = len(self._view)
        try:
            self.index = self._read_index()
        except (struct.error, msgspec.MsgspecError, ValueError) as problem:
            raise self._damage(str(problem)) from None
        self._arrays: dict[int, Array] = {}
        self.starts: list[int] = []
        """The number of the first record of each part."""
        self.records = 0
        for part in self.index.parts:
            self.starts.append(self.records)
            self.records += part.rows

    @classmethod
    def open(cls, path: Path, name: str) -> ColumnFile:
        """Map the file at ``path``, which was written with ``name``.

        Raises OSError, DamageError; FileNotFoundError also if another kind of file is in its place.
        """
        descriptor = _open_regular_file(path)
        try:
            if os.fstat(descriptor).st_size < _HEADER_LAYOUT.size:
                raise inconsistent_store_error("a file of columns is cut", path)
            # The file is never cut, only replaced: no page goes away under the map.
            file = cls(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), path)
        finally:
            os.close(descriptor)
        # A copy of another file is sound in itself, but holds other records, or an earlier state.
        if file.index.name != name:
            raise file._damage("the file was written under another name")
        return file

    def _damage(self, what: str) -> Exception:
        return inconsistent_store_error(f"columns of the view: {what}", self._place)

    def _read_index(self) -> ColumnIndex:
        magic, version, order, crc = _HEADER_LAYOUT.unpack_from(self._view)
        if (magic, version, order) != (MAGIC, FORMAT_VERSION, 1) or crc != crc32(self._view[: _HEADER_LAYOUT.size - 4]):
            raise ValueError("another format")
        at = self.size - _TRAILER_LAYOUT.size
        size, crc, mark = _TRAILER_LAYOUT.unpack_from(self._view, max(at, 0))
        if mark != _END_MARK or size > at:
            raise ValueError("the end is missing")
        raw = self._view[at - size : at]
        if crc32(raw) != crc:
            raise ValueError("the index is damaged")
        return msgspec.json.decode(raw, type=ColumnIndex)

    def read_array(self, number: int) -> Array:
        """The items of a section; it is verified the first time."""
        found = self._arrays.get(number)
        if found is None:
            section = self.index.sections[number]
            raw = self._view[section.offset : section.offset + section.size]
            if crc32(raw) != section.crc:
                raise self._damage(f"section {number} is damaged")
            found = self._arrays[number] = np.frombuffer(raw, section.type)
        return found

    def read_keys(self, number: int) -> Array:
        """The keys of a part, ascending."""
        return self.read_array(self.index.parts[number].keys)

    def read_part(self, number: int, places: Array | None = None) -> ColumnBatch:
        """The records of a part, or those at some places in it, in their order."""
        part = self.index.parts[number]
        keys, txids, times = map(self.read_array, (part.keys, part.txids, part.times))
        columns, texts = (
            [self._read_column(one, part.rows, places) for one in some] for some in (part.columns, part.texts)
        )
        if places is not None:
            keys, txids, times = keys[places], txids[places], times[places]
        txids, times = txids.astype(np.uint64), times.astype(np.int64)
        return ColumnBatch(columns, len(keys), txids=txids, times=times, keys=keys, texts=texts)

    def read_codes(self, number: int, side: int) -> tuple[Array, Array]:
        """Of the texts of a join key in a part: the code of each record, and the hash of each code."""
        part = self.index.parts[number]
        one = part.texts[side]
        if one.kind == Kind.NULL.name:
            return np.zeros(part.rows, np.uint8), self.read_array(one.hashes)
        if one.kind != Kind.STRING.name:
            raise self._damage("texts of a join key are of another kind")
        return self.read_array(one.data), self.read_array(one.hashes)

    def _read_column(self, one: StoredColumn, rows: int, places: Array | None) -> Column:
        if one.kind == "VALUES":
            spans = self._read_spans(one)
            chosen = spans.raw if places is None else b"".join(spans.take(places))
            size = rows if places is None else len(places)
            return build_column(decode_values(_ARRAY_MARK + size.to_bytes(4, "big") + bytes(chosen)))
        kind = Kind[one.kind]
        if kind is Kind.NULL:
            return Column(kind, rows if places is None else len(places))
        data = self.read_array(one.data)
        if kind is Kind.STRING:
            return _take_texts(data, self._read_spans(one), places)
        nulls, ints = (None if number < 0 else self.read_array(number) for number in (one.nulls, one.ints))
        source = None if one.bounds < 0 else LazyNumbers(data, self._read_spans(one), nulls, ints, one.typed)
        column = Column(kind, rows, data, nulls, ints=ints, source=source, texts=source is not None)
        if places is not None:
            column = column.take(places)
        if kind in _INTEGER_TYPES:
            column.array = column.data.astype(_INTEGER_TYPES[kind])
        return column

    def _read_spans(self, one: StoredColumn) -> TextSpans:
        bounds, text = self.read_array(one.bounds), self.read_array(one.text)
        # A copy, since texts are made of bytes in half the time that a view of bytes takes.
        bounds = bounds.astype(np.int64)
        return TextSpans(text.tobytes(), bounds[:-1], bounds[1:])

    def read_rows(self, rows: StoredRows) -> tuple[Array | None, Array, Array]:
        """Roots (None: they follow each other), codes and groups of some rows."""
        roots = None if rows.roots < 0 else self.read_array(rows.roots)
        return roots, self.read_array(rows.codes), self.read_array(rows.groups)


def _take_texts(data: Array, words: TextSpans, places: Array | None) -> Column:
    """A column of texts, or some of its places; only words that occur are made."""
    if places is None:
        return Column(Kind.STRING, len(data), data, dictionary=words)
    data = data[places]
    known = len(words)
    used = np.zeros(known + 1, np.bool_)
    used[data] = True
    numbers = np.flatnonzero(used[:known])
    # Fewer words cost less wherever columns are put together, which takes a step of Python for each.
    if 2 * len(numbers) > known:
        return Column(Kind.STRING, len(data), data, dictionary=words)
    table = np.full(known + 1, len(numbers), choose_code_type(len(numbers)))
    table[numbers] = np.arange(len(numbers))
    return Column(Kind.STRING, len(data), table[data], dictionary=list(words.take(numbers)))


class OutputFile:
    """A file under construction beside the place that it is to have. Use it in a ``with`` statement.

    Raises StorageError, as all of its methods.
    """

    def __init__(self, path: Path, mode: int, seam: Seam) -> None:
        self._path, self._seam = path, seam
        self._temporary = path.with_name(f"{path.name}.new-{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with translate_errors(path, _ACTION):
            self._stream = os.fdopen(seam.call("file.open", os.open, self._temporary, flags, mode), "wb")
            # The umask may have removed permissions; all users who may refresh the cache must be able to read it.
            os.fchmod(self._stream.fileno(), mode)

    def write(self, data: bytes | memoryview) -> None:
        """Write some bytes."""
        with translate_errors(self._path, _ACTION):
            self._seam.call("file.write", self._stream.write, data)

    def install(self) -> None:
        """Give the file its name. It is not synced: checksums detect a loss by a crash, and the cache is rebuilt."""
        with translate_errors(self._path, _ACTION):
            self._stream.close()
            self._seam.call("file.rename", os.rename, self._temporary, self._path)

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        # What is still to be written is of no use where an error came before.
        with suppress(OSError):
            self._stream.close()
        self._temporary.unlink(missing_ok=True)
