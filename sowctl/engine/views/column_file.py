"""Column files of view caches: the fields of records that a view reads, as columns (``sow-view(5)``).

A file consists of a header, sections of bytes, and an index of the sections at the end, so that it can be written part
by part in bounded memory. Each section has a checksum and is verified on first read. Loads numpy.
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
"""Magic, version, 1 (to detect another byte order), CRC-32 of the preceding bytes."""
_TRAILER_LAYOUT = struct.Struct("<QI4s")
"""Size of the index, its CRC-32, end mark."""
_END_MARK = b"COLE"
_ARRAY_MARK = b"\xdd"
"""First byte of a msgpack array with a 4-byte item count."""
_ALIGNMENT_BYTES = 8
_ACTION = "write the columns of a view"
_INTEGER_TYPES = {Kind.I64: np.int64, Kind.U64: np.uint64}
"""In-memory types of the kinds that a file stores in smaller types."""
NULL_HASH = 0
"""The hash of NULL among the hashes of texts; no text has this hash."""


class Section(Struct, array_like=True, frozen=True):
    """Bytes of a file: offset, size, CRC-32, and numpy type of their items.

    Integers have the smallest type that holds all values of the section.
    """

    offset: int
    size: int
    crc: int
    type: str


class StoredColumn(Struct, array_like=True, frozen=True):
    """A column by the numbers of its sections, -1 for none.

    ``kind``: a name of :class:`Kind`, or ``VALUES`` for single slot values (``bounds`` and ``text``: msgpack).
    ``bounds`` and ``text``: the words of a dictionary, or the original texts of numbers, empty for numbers without one;
    n texts have n + 1 bounds. ``hashes``: of the words, followed by that of NULL. ``typed``: whether the message type
    declares that the numbers with texts are numbers.
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
    """Records in key order: count, first key, sections of keys, txids and times, and columns."""

    rows: int
    first: int
    keys: int
    txids: int
    times: int
    columns: list[StoredColumn]
    texts: list[StoredColumn]


class StoredRows(Struct, array_like=True, frozen=True):
    """Rows of a view: their number, the record of the first source with which each begins, and its group.

    ``roots``: numbers of the records in the file; -1 if they are consecutive from ``first``. ``codes``: places in
    ``groups``, which contains SOW keys of groups.
    """

    rows: int
    first: int
    roots: int
    codes: int
    groups: int


class ColumnIndex(Struct, frozen=True):
    """The index of a file.

    ``hidden``: section of the numbers of records in the base file that these replace or remove, -1 for none. ``name``:
    the source and the identity for which the file was written; empty for changes, which are stored in the cache.
    """

    sections: list[Section] = []
    parts: list[StoredPart] = []
    rows: list[StoredRows] = []
    hidden: int = -1
    name: str = ""


class ColumnWriter:
    """Writes a column file through ``write``, section by section; :meth:`finish` writes the index, with ``name``."""

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
        """Add records; their keys must follow all previous ones. ``hashes``: of the words of each text."""
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
        """Copy a part of another file unchanged."""

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
        # Nearly always each record begins exactly one row.
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
            # Strip the mark of an array of one: concatenated, these values are the items of an array.
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
    """Convert integers to the smallest integer type that holds all of them; return other arrays unchanged."""
    if array.dtype.kind not in "iu" or not array.size:
        return array
    kind = np.result_type(np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max())))
    # For some negative and large positive integers the common type is a Double, which is not an integer type.
    return array.astype(kind) if kind.kind in "iu" and kind.itemsize < array.dtype.itemsize else array


def detach_column(column: Column) -> Column:
    """Return the column without references to the block of messages that contains its texts, and without texts equal to
    the canonical texts of its numbers."""
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
    """Return the hash of each word, followed by that of NULL. Equal words have equal hashes."""
    found = np.empty(len(words) + 1, np.uint64)
    found[:-1] = np.fromiter(map(xxh3_64_intdigest, words), np.uint64, len(words))
    found[found == NULL_HASH] = 1
    found[-1] = NULL_HASH
    return found


def _open_regular_file(path: Path) -> int:
    """Open a file for reading. Raises OSError: FileNotFoundError if it is not a regular file."""
    try:
        # O_NONBLOCK: opening a pipe with this name must not block.
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
    """A column file in memory or mapped. Raises DamageError if its content is not as written."""

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

        Raises OSError, DamageError; FileNotFoundError also if it is not a regular file.
        """
        descriptor = _open_regular_file(path)
        try:
            if os.fstat(descriptor).st_size < _HEADER_LAYOUT.size:
                raise inconsistent_store_error("a file of columns is cut", path)
            # The file is never truncated, only replaced, so mapped pages stay valid.
            file = cls(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), path)
        finally:
            os.close(descriptor)
        # A copy of another file passes its checksums, but contains other records or an earlier state.
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
        """Return the items of a section, verified on first read."""
        found = self._arrays.get(number)
        if found is None:
            section = self.index.sections[number]
            raw = self._view[section.offset : section.offset + section.size]
            if crc32(raw) != section.crc:
                raise self._damage(f"section {number} is damaged")
            found = self._arrays[number] = np.frombuffer(raw, section.type)
        return found

    def read_keys(self, number: int) -> Array:
        """Return the keys of a part, ascending."""
        return self.read_array(self.index.parts[number].keys)

    def read_part(self, number: int, places: Array | None = None) -> ColumnBatch:
        """Return the records of a part, or those at ``places`` in it, in their order."""
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
        """Return, for the texts of a join key in a part, the code of each record and the hash of each code."""
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
        # A copy, because slicing bytes into texts takes half the time of slicing a view.
        bounds = bounds.astype(np.int64)
        return TextSpans(text.tobytes(), bounds[:-1], bounds[1:])

    def read_rows(self, rows: StoredRows) -> tuple[Array | None, Array, Array]:
        """Return roots (None: consecutive), codes and groups of some rows."""
        roots = None if rows.roots < 0 else self.read_array(rows.roots)
        return roots, self.read_array(rows.codes), self.read_array(rows.groups)


def _take_texts(data: Array, words: TextSpans, places: Array | None) -> Column:
    """Return a column of texts, or those at ``places``; only words that occur there are created."""
    if places is None:
        return Column(Kind.STRING, len(data), data, dictionary=words)
    data = data[places]
    known = len(words)
    used = np.zeros(known + 1, np.bool_)
    used[data] = True
    numbers = np.flatnonzero(used[:known])
    # Fewer words make concatenation cheaper, which has a cost in Python for each word.
    if 2 * len(numbers) > known:
        return Column(Kind.STRING, len(data), data, dictionary=words)
    table = np.full(known + 1, len(numbers), choose_code_type(len(numbers)))
    table[numbers] = np.arange(len(numbers))
    return Column(Kind.STRING, len(data), table[data], dictionary=list(words.take(numbers)))


class OutputFile:
    """A temporary file in the directory of its final path. Use it in a ``with`` statement.

    The constructor and all methods raise StorageError.
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
        """Append bytes to the file."""
        with translate_errors(self._path, _ACTION):
            self._seam.call("file.write", self._stream.write, data)

    def install(self) -> None:
        """Rename the file to its final path, without a sync: checksums detect a loss by a crash, and the cache is
        rebuilt."""
        with translate_errors(self._path, _ACTION):
            self._stream.close()
            self._seam.call("file.rename", os.rename, self._temporary, self._path)

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        # After an error, buffered data is useless, so an error of writing it is ignored.
        with suppress(OSError):
            self._stream.close()
        self._temporary.unlink(missing_ok=True)
