"""Rows of CSV and TSV as messages: header, types of columns, and the messages of each block of rows.

Messages of type json are built by columns, because their texts are those of the cells: for 300,000 rows with 9 columns
this takes 0.7 s of processor time, one by one 1.7 s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sowctl.arrow.inputs.columntypes import TypeDetector, convert_structure, fits_type, list_values
from sowctl.arrow.inputs.input_formats import DelimitedOptions, InputColumn, InputFacts
from sowctl.arrow.inputs.rows import (
    TEXT_KINDS,
    Cell,
    DelimitedReader,
    Dialect,
    Row,
    RowBlock,
    RowRefused,
    build_converter,
    cut_cells,
    find_separator,
    make_changes_error,
)
from sowctl.arrow.message_encoder import UNWRITABLE_ERRORS, MessageEncoder
from sowctl.errors import InputError, SowError, UsageError
from sowctl.messages.framing.chunks import Chunk, RefusedFrame
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.framing.input_files import COMPRESSION_TOOLS
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.arrow.inputs.partitions import PartitionValues
    from sowctl.messages.base import MessageType

REFUSED_ROW_CODE = "SOW-EXC-011"
FRONT_COLUMNS = ("topic", "message_type", "sow_key", "timestamp", "expiration", "txid", "bookmark", "correlation_id")
"""The leading columns of CSV and TSV with --meta."""
_CHANGE_COLUMNS = ("change_type", "reason", *FRONT_COLUMNS)
"""The leading columns of export --changes."""
SAMPLE_BYTES = 1 << 20
"""Size of the sample of an unseekable input from which the types of its columns are detected."""
_CONTROLS_PATTERN = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ESCAPED_PATTERN = re.compile(r'["\\\x00-\x1f]')
_NUMBER_NAME_PATTERN = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_SEPARATOR_NAMES = {",": ("comma", "commas"), ";": ("semicolon", "semicolons"), "|": ("bar", "bars")}
_SEPARATOR_NAMES["\t"] = ("tab", "tabs")


class RowTarget:
    """The messages of ``kind`` that the rows of ``topic`` become. ``by_user``: publishers choose its keys; ``keys`` are
    the names of the members that are its key fields, ``key_objects`` of those that contain them; ``requires_keys``:
    rows must have them, because they are not computed."""

    def __init__(
        self,
        kind: MessageType,
        root: str | None,
        *,
        by_user: bool,
        topic: str = "",
        keys: frozenset[str] = frozenset(),
        key_objects: frozenset[str] = frozenset(),
        requires_keys: bool = False,
    ) -> None:
        self.kind = kind
        self.topic = topic
        self.root = root
        self.by_user = by_user
        self.keys = keys
        self.key_objects = key_objects
        self.requires_keys = requires_keys


def iterate_delimited_chunks(
    facts: InputFacts,
    stream: BinaryIO,
    target: RowTarget,
    options: DelimitedOptions,
    reopen: Callable[[], AbstractContextManager[BinaryIO]] | None = None,
    partitions: PartitionValues | None = None,
) -> Iterator[Chunk]:
    """The messages of CSV or TSV; the header is read at once; ``facts`` is completed. ``partitions`` are columns with
    one value in all rows.

    Types are detected from all rows, if ``stream`` is seekable or ``reopen`` opens it again, otherwise from the first
    :data:`SAMPLE_BYTES`. Raises InputError ``SOW-EXC-012`` for a header that names no columns, UsageError
    ``SOW-EXC-010`` for a type of a missing column.
    """
    name = facts.name
    begin = stream.tell() if stream.seekable() else None
    reader = _build_reader(facts, stream, options)
    first = reader.read_first()
    if first is None:
        return
    heading = _Heading(facts, first, reader, options)
    width = len(heading.names)
    fields = _find_fields(name, heading.names, options, target)
    skipped = width - len(fields)
    detector = _build_detector(fields, skipped, target, options, quotes_text=not heading.is_quoted)
    reader.marks_quotes = not heading.is_quoted
    is_sample = False
    if detector.is_decided:
        pass
    elif begin is not None:
        _detect_types(reader.read_blocks(width), detector)
        stream.seek(begin)
        reader = DelimitedReader(name, stream, reader.dialect)
        heading.skip(reader)
    elif reopen is not None:
        with reopen() as again:
            other = DelimitedReader(name, again, reader.dialect)
            other.marks_quotes = reader.marks_quotes
            heading.skip(other)
            _detect_types(other.read_blocks(width), detector)
    else:
        is_sample = True
        _detect_types(reader.read_sample(width, SAMPLE_BYTES), detector)
    # Types are known now; those of a sample do not cover later values, whose quotation marks count, too.
    reader.marks_quotes = is_sample and not heading.is_quoted and not detector.is_decided
    types = detector.list_types()[skipped:]
    facts.columns = [
        InputColumn(one, options.types.get(one, kind), one not in options.types)
        for one, kind in zip(fields, types, strict=True)
    ]
    more = {one: value for one, value in (partitions or {}).items() if one not in fields}
    facts.columns += [
        InputColumn(one, "integer" if isinstance(value, int) else "text", False) for one, value in more.items()
    ]
    constants = [None if value is None else str(value) for value in more.values()]
    encoder = _BlockEncoder(target, facts.columns, quotes_text=not heading.is_quoted)
    for block in reader.read_blocks(width):
        yield _build_block_chunk(block, encoder, skipped, constants, by_user=target.by_user)


def read_columns(name: str, format: str, stream: BinaryIO, options: DelimitedOptions) -> list[str]:
    """The columns of CSV or TSV, without those of metadata; none for an empty input. Raises InputError
    ``SOW-EXC-012`` for a header that names no columns."""
    facts = InputFacts(name, format)
    reader = _build_reader(facts, stream, options)
    first = reader.read_first()
    return [] if first is None else _list_fields(_Heading(facts, first, reader, options).names)


def _build_reader(facts: InputFacts, stream: BinaryIO, options: DelimitedOptions) -> DelimitedReader:
    is_csv = facts.format == "csv"
    nulls = frozenset(("", *options.nulls))
    return DelimitedReader(facts.name, stream, Dialect(options.delimiter or ("," if is_csv else "\t"), is_csv, nulls))


def _list_fields(names: Sequence[str]) -> list[str]:
    """The members that columns become, without leading metadata."""
    skipped = len(FRONT_COLUMNS) if tuple(names[: len(FRONT_COLUMNS)]) == FRONT_COLUMNS else 0
    # A field with the name of metadata, or one that begins with a slash, has an additional leading slash.
    return [one.removeprefix("/") for one in names[skipped:]]


def refuse_unknown_types(name: str, fields: Sequence[str], options: DelimitedOptions) -> None:
    """Raise UsageError ``SOW-EXC-010`` for a type of a column that is not among ``fields``, those of ``name``."""
    unknown = next((one for one in options.types if one not in fields), None)
    if unknown is not None:
        hint = "its columns: " + ", ".join(fields)
        raise UsageError("SOW-EXC-010", f"{name} has no column {unknown!r} for --type", hint=hint)


class _Heading:
    """The names of the columns, and whether all of them are in quotation marks."""

    def __init__(self, facts: InputFacts, first: bytes, reader: DelimitedReader, options: DelimitedOptions) -> None:
        if _CONTROLS_PATTERN.search(first) is not None:
            hint = "the ending of the name says how rows are written: .parquet and .arrow are read, too"
            for magic, form, tool in COMPRESSION_TOOLS:
                if first.startswith(magic):
                    hint = f"this looks like {form}: ... | {tool} | sowctl publish ..."
            raise InputError(
                "SOW-EXC-012",
                "the header has control characters, so the file is probably not text",
                place=facts.name,
                hint=hint,
            )
        if options.delimiter is None:
            _detect_separator(facts.name, first, reader)
        dialect = reader.dialect
        facts.delimiter = dialect.separator
        # With given names, no header is needed.
        self._has_row = facts.headers = options.headers and not options.columns
        try:
            cells = cut_cells(first.decode(), dialect)
        except (UnicodeDecodeError, RowRefused) as problem:
            why = problem if isinstance(problem, RowRefused) else "it is not UTF-8"
            raise InputError("SOW-EXC-012", f"cannot read the header: {why}", place=facts.name) from None
        self.is_quoted = self._has_row and first[:1] == b'"' and dialect.quotes and _is_all_quoted(first, dialect)
        if self._has_row:
            # A member may have the empty name: in CSV that is a quoted empty cell, while TSV has no quotation marks.
            if None in cells and dialect.quotes:
                raise InputError("SOW-EXC-012", "cannot read the header: a column has no name", place=facts.name)
            self.names = [cell or "" for cell in cells]
            return
        if options.columns and len(options.columns) != len(cells):
            words = (
                f"--columns names {format_count(len(options.columns), 'column')}, but the first row has {len(cells)}"
            )
            raise UsageError("SOW-EXC-010", f"{facts.name}: {words}")
        self.names = list(options.columns) or [f"column{number}" for number in range(1, len(cells) + 1)]
        reader.return_first(first)

    def skip(self, reader: DelimitedReader) -> None:
        """Skip the header, if there is one."""
        first = reader.read_first()
        if not self._has_row and first is not None:
            reader.return_first(first)


def _is_all_quoted(heading: bytes, dialect: Dialect) -> bool:
    parts = re.sub(r'"(?:[^"]++|"")*+"', "", heading.decode())
    return not parts.replace(dialect.separator, "").strip()


def _detect_separator(name: str, heading: bytes, reader: DelimitedReader) -> None:
    """Detect the separator of the header. Raises InputError ``SOW-EXC-012`` if it has two."""
    dialect = reader.dialect
    found = find_separator(heading, dialect.separator)
    if found is None:
        return
    other, most, own = found
    if not own and dialect.quotes:
        reader.dialect = Dialect(other, dialect.quotes, dialect.nulls)
        return
    one, many = _SEPARATOR_NAMES[dialect.separator]
    words = f"the heading has {most} {_SEPARATOR_NAMES[other][most > 1]} and {own or 'no'} {one if own == 1 else many}"
    shown = {"\t": "tab"}
    hint = (
        f"--delimiter '{shown.get(other, other)}' if these separate the columns, "
        f"--delimiter '{shown.get(dialect.separator, dialect.separator)}' if not"
    )
    raise InputError("SOW-EXC-012", words, place=name, hint=hint)


def _find_fields(name: str, names: Sequence[str], options: DelimitedOptions, target: RowTarget) -> list[str]:
    """The members that the columns become, without leading metadata, after checking all options against them."""
    if tuple(names[: len(_CHANGE_COLUMNS)]) == _CHANGE_COLUMNS:
        raise make_changes_error(name)
    fields = _list_fields(names)
    twice = next((one for one, count in Counter(fields).items() if count > 1), None)
    if twice is not None:
        raise InputError("SOW-EXC-012", f"duplicate column {twice!r} in the header", place=name)
    odd = next((kind for kind in options.types.values() if kind not in TEXT_KINDS), None)
    if odd is not None:
        raise UsageError("SOW-EXC-010", f"{odd!r} is no type", hint=f"types: {', '.join(TEXT_KINDS)}")
    if not options.shares_types:
        refuse_unknown_types(name, fields, options)
    is_data = any(map(_NUMBER_NAME_PATTERN.fullmatch, fields))
    has_names = not options.headers or options.columns or not target.requires_keys
    if is_data and not has_names and target.keys.isdisjoint(fields):
        words = "the first row has numbers and no key field, so it does not name the columns"
        raise InputError("SOW-EXC-012", words, place=name, hint="name the columns: --columns NAME,NAME,...")
    return fields


def _build_detector(
    fields: Sequence[str], skipped: int, target: RowTarget, options: DelimitedOptions, *, quotes_text: bool
) -> TypeDetector:
    # In flat messages a text that looks like a list may be one value: the file does not distinguish them.
    plain = (
        *(("integer", "number", "boolean") if target.kind.typed else ()),
        *(("json",) if target.kind.nested else ()),
    )
    allowed: list[Sequence[str]] = [()] * skipped
    for one in fields:
        if options.all_text or one in options.types:
            allowed.append(())
        elif one in target.keys - target.key_objects:
            # The key of a number depends on its spelling in the format, unless it is an integer.
            allowed.append(("integer",) if target.kind.typed else ())
        else:
            allowed.append(plain)
    return TypeDetector(allowed, quotes_text=quotes_text)


def _detect_types(blocks: Iterable[RowBlock], detector: TypeDetector) -> None:
    for block in blocks:
        detector.add_block(block)
        if detector.is_decided:
            return


class _BlockEncoder:
    """Builds the messages of blocks of rows. ``quotes_text``: as for :class:`TypeDetector`."""

    def __init__(self, target: RowTarget, columns: Sequence[InputColumn], *, quotes_text: bool) -> None:
        self._columns = columns
        self._quotes_text = quotes_text
        self._encoder = MessageEncoder(target.kind, [one.name for one in columns], target.root)
        self._by_columns = target.kind.json_text
        form = self._encoder.form
        self._cells = [
            partial(convert_structure, form=form, typed=target.kind.typed, nested=target.kind.nested)
            if one.type == "json" and not target.kind.json_text
            else build_converter(one.type, form)
            for one in columns
        ]
        self._names = [f",{msgspec.json.encode(one.name).decode()}:" for one in columns]
        self._marked: Mapping[int, frozenset[int]] = {}
        """In the block, the rows whose quotation marks show that they are texts, by column."""
        self._has_json = any(one.type == "json" for one in columns)

    def encode_rows(
        self, columns: Sequence[Sequence[Cell]], lines: Sequence[int], quoted: Mapping[int, Sequence[int]]
    ) -> list[bytes | Exception]:
        """The message of each row, or the reason why there is none; ``quoted`` has the quoted rows by column."""
        if not lines:
            return []
        # Only for a detected type other than JSON the quotation marks show that a value is a text.
        self._marked = {
            index: frozenset(rows)
            for index, rows in quoted.items()
            if self._quotes_text and self._columns[index].detected and self._columns[index].type not in ("text", "json")
        }
        refused: dict[int, Exception] = {}
        if self._by_columns:
            return self._encode_texts(columns, lines, refused)
        values = [self._convert_column(index, cells, lines, refused) for index, cells in enumerate(columns)]
        found: list[bytes | Exception] = []
        for row in range(len(lines)):
            if row in refused:
                found.append(refused[row])
                continue
            members = {
                one.name: column[row]
                for one, column, cells in zip(self._columns, values, columns, strict=True)
                if cells[row] is not None
            }
            try:
                found.append(self._encoder.encode(members))
            except (*UNWRITABLE_ERRORS, KeyError) as problem:
                found.append(problem)
        return found

    def _convert_column(
        self, index: int, cells: Sequence[Cell], lines: Sequence[int], refused: dict[int, Exception]
    ) -> Sequence[Any]:
        """The values of the cells of a column, in the forms of the format."""
        column, convert = self._columns[index], self._cells[index]
        if column.type == "text":
            return cells
        marked = self._marked.get(index, ())
        values: list[Any] = []
        for row, cell in enumerate(cells):
            value: Any = None
            if cell is not None:
                if column.detected and (row in marked or not self._fits(column, cell)):
                    column.exceptions += 1
                    column.first_exception = column.first_exception or lines[row]
                    value = cell
                else:
                    try:
                        value = convert(cell)
                    except ValueError as problem:
                        refused.setdefault(row, _build_cell_error(column, cell, problem))
            values.append(value)
        return values

    @staticmethod
    def _fits(column: InputColumn, cell: str) -> bool:
        """Whether a cell has the detected type of its column; a later one may not, and stays text."""
        return fits_type(column.type, (cell,)) or (column.type == "number" and fits_type("integer", (cell,)))

    def _encode_texts(
        self, columns: Sequence[Sequence[Cell]], lines: Sequence[int], refused: dict[int, Exception]
    ) -> list[bytes | Exception]:
        parts = [self._build_texts(index, cells, lines, refused) for index, cells in enumerate(columns)]
        rows = [text[1:] for text in map("".join, zip(*parts, strict=True))]
        if self._has_json or refused:
            return [refused.get(row) or b"{%b}" % text.encode() for row, text in enumerate(rows)]
        # No text contains a line feed: in JSON it is escaped.
        return [*("{" + "}\n{".join(rows) + "}").encode().split(b"\n")]

    def _build_texts(
        self, index: int, cells: Sequence[Cell], lines: Sequence[int], refused: dict[int, Exception]
    ) -> Sequence[str]:
        """For each cell of a column its member, preceded by a comma; empty for a null."""
        column, name = self._columns[index], self._names[index]
        values = list_values(cells)
        if column.type == "text":
            if _ESCAPED_PATTERN.search("".join(values)) is None:
                if values is cells:
                    return [f'{name}"{cell}"' for cell in cells]
                return ["" if cell is None else f'{name}"{cell}"' for cell in cells]
            encode = msgspec.json.encode
            return ["" if cell is None else name + encode(cell).decode() for cell in cells]
        if not values or (index not in self._marked and fits_type(column.type, values)):
            if values is cells:
                return [name + cell for cell in values]
            return ["" if cell is None else name + cell for cell in cells]
        encode = msgspec.json.encode
        found = self._convert_column(index, cells, lines, refused)
        return ["" if cell is None else name + encode(one).decode() for cell, one in zip(cells, found, strict=True)]


def _build_cell_error(column: InputColumn, cell: str, problem: Exception) -> ValueError:
    shown = cell if len(cell) <= 40 else cell[:40] + "..."
    return ValueError(f"column {column.name}: {shown!r} {problem}")


def _build_block_chunk(
    block: RowBlock, encoder: _BlockEncoder, skipped: int, constants: Sequence[Cell], *, by_user: bool
) -> Chunk:
    columns = [*block.columns[skipped:], *([cell] * len(block.lines) for cell in constants)]
    quoted = {index - skipped: rows for index, rows in block.quoted.items() if index >= skipped}
    found = encoder.encode_rows(columns, block.lines, quoted)
    refused = [_refuse_row(one) for one in block.refused]
    payloads = [one for one in found if isinstance(one, bytes)]
    lines = block.lines
    kept: Sequence[int] = range(len(found))
    if len(payloads) < len(found):
        kept = [row for row, one in enumerate(found) if isinstance(one, bytes)]
        lines = [block.lines[row] for row in kept]
        refused += [
            build_refused_frame(block.lines[row], one, block.texts[row].encode())
            for row, one in enumerate(found)
            if not isinstance(one, bytes)
        ]
        refused.sort(key=lambda frame: frame.offset)
    envelopes = _build_envelopes(block, kept, by_user=by_user) if skipped else None
    return Chunk(payloads, lambda: (lines, lines), block.end, refused, envelopes=envelopes)


def _build_envelopes(block: RowBlock, rows: Sequence[int], *, by_user: bool) -> list[Envelope] | None:
    """The envelopes of some rows with columns of metadata; None where these have nothing for a message."""
    keys = block.columns[FRONT_COLUMNS.index("sow_key")]
    correlations = block.columns[FRONT_COLUMNS.index("correlation_id")]
    if not by_user and not any(correlations):
        return None
    return [Envelope(sow_key=keys[row] if by_user else None, correlation_id=correlations[row]) for row in rows]


def _refuse_row(row: Row) -> RefusedFrame:
    return build_refused_frame(row.line, ValueError(row.problem), row.raw)


def build_refused_frame(line: int, problem: Exception, raw: bytes | None, offset: int | None = None) -> RefusedFrame:
    """The refusal of a row without a message; without an ``offset`` the line is used instead."""
    words = problem.message if isinstance(problem, SowError) else str(problem)
    return RefusedFrame(
        line,
        line if offset is None else offset,
        REFUSED_ROW_CODE,
        f"the row cannot be converted to a message: {words}",
        raw,
    )
