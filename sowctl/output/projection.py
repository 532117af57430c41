"""``--columns`` in formats with types: Parquet, Arrow, SQLite and MessagePack.

Each column has the heading and the value of csv, with the type of the column in the whole table. A path that no record
has becomes a column of nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sowctl.errors import UsageError
from sowctl.output.columns import format_heading
from sowctl.output.members import dump_json, find_value, read_exact_members, read_some_members
from sowctl.output.options import Column, OutputOptions
from sowctl.output.records import Batch, ShownRecord, as_stored_batch, build_metadata, find_exact_view
from sowctl.output.text_columns import find_values
from sowctl.values.paths import Path
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, read_raw_columns


class Projection:
    """The chosen columns. While types are inferred, the column of a path is named by its number, so that no name of a
    field equals that of metadata.

    Raises UsageError ``SOW-OUT-001`` if two columns would have one name.
    """

    def __init__(self, columns: Sequence[Column], *, facts: bool) -> None:
        self.headings = tuple(format_heading(column, facts=facts) for column in columns)
        for place, name in enumerate(self.headings):
            if name in self.headings[:place]:
                raise UsageError(
                    "SOW-OUT-001",
                    f"column {name!r} is named twice, and the output format requires distinct names",
                    hint="name each column once, or use --format csv",
                )
        self.columns = tuple(columns)
        self.inner = tuple(
            str(place) if isinstance(one, Path) else _format_fact_name(one) for place, one in enumerate(columns)
        )
        self.metadata = tuple(column for column in columns if isinstance(column, str))
        self._paths = [column for column in columns if isinstance(column, Path)]
        self._known = {path.steps[0].name for path in self._paths}
        names = [name for name, column in zip(self.inner, columns, strict=True) if isinstance(column, Path)]
        self._fronts = [f'{"," if place else ""}"{name}":'.encode() for place, name in enumerate(names)]

    def build_views(self, batch: Batch) -> list[bytes]:
        """A JSON object for each record, with the values at the paths; null if absent."""
        if not self._paths:
            return [b"{}"] * len(batch.payloads)
        return self._build_views_by_columns(batch) or [self._build_view(batch, record) for record in batch.records]

    def select_metadata(self, record: ShownRecord, known: Mapping[str, Any], batch: Batch) -> dict[str, Any]:
        """The metadata of a record; ``known`` is that of the whole table."""
        row: dict[str, Any] = {}
        for name in self.metadata:
            if name == "data":
                row[name] = record.payload
            elif name == "length":
                row[name] = len(record.payload)
            elif batch.shown is None or name in batch.shown:
                row[_format_fact_name(name)] = known.get(f"_{name}")
        if "_topic" in row:
            row["_topic"] = known.get("_logical_topic") or row["_topic"]
        return row

    def read_values(self, batch: Batch, record: ShownRecord) -> list[Any]:
        """The values of one record, those of paths as :mod:`sowctl.output.members` reads them."""
        members = self._build_members(batch, record) if self._paths else {}
        known = build_metadata(batch, record) if self.metadata else {}
        own = {"data": record.payload, "length": len(record.payload)}
        return [
            find_value(members, one) if isinstance(one, Path) else own[one] if one in own else known.get(one)
            for one in self.columns
        ]

    def _build_views_by_columns(self, batch: Batch) -> list[bytes] | None:
        """The objects of stored records with the same members; None if each record must be read by itself."""
        payloads = batch.payloads
        if (
            as_stored_batch(batch) is None
            or not payloads
            or max(map(len, payloads)) >= LONG_OBJECT_LIMITS.min_object_bytes
        ):
            return None
        lines = list(map(find_exact_view(batch) or batch.members_view, payloads))
        try:
            b"\n".join(lines).decode()
            found = read_raw_columns(lines)
            columns = [None if found is None else find_values(found, path) for path in self._paths]
        except (UnicodeDecodeError, RecursionError):
            return None
        parts: list[Sequence[bytes]] = []
        for front, values in zip(self._fronts, columns, strict=True):
            if values is None:
                return None
            texts: Sequence[Any] = values or [b"null"] * len(lines)
            parts.append([front + bytes(text) for text in texts])
        return [b"{" + b"".join(row) + b"}" for row in zip(*parts, strict=True)]

    def _build_view(self, batch: Batch, record: ShownRecord) -> bytes:
        members = self._build_members(batch, record)
        # An unpaired surrogate has no encoding: it is written as its escape, as in the message.
        texts = (dump_json(find_value(members, path)).encode("utf-8", "backslashreplace") for path in self._paths)
        return b"{" + b"".join(front + text for front, text in zip(self._fronts, texts, strict=True)) + b"}"

    def _build_members(self, batch: Batch, record: ShownRecord) -> dict[str, Any]:
        # A record without a message has no members.
        if not record.has_data:
            return {}
        exact = find_exact_view(batch)
        if exact is not None:
            return read_exact_members(record.payload, exact)
        return read_some_members(record.payload, batch.members_view, self._known)


def build_projection(options: OutputOptions) -> Projection | None:
    """The columns of ``--columns``; None without it."""
    return Projection(options.columns, facts=options.facts) if options.columns else None


def _format_fact_name(name: str) -> str:
    return name if name in ("data", "length") else f"_{name}"
