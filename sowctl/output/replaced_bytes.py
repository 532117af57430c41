"""Bytes that are not UTF-8 in written records: fix and nvfix are text, so U+FFFD replaces them.

The views of records are compared with their messages while an export builds them, so nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch, View, find_exact_view, replaces_bytes
from sowctl.values.display import format_count
from sowctl.values.paths import Path

REPLACED_CODE = "SOW-OUT-014"
REPLACED_HINT = "add --meta to NDJSON, JSON or MessagePack: it keeps the bytes of every message"
_REPLACEMENT_CHARACTER = "\ufffd".encode()


class ReplacementWatch:
    """The batches of a result, while they are read for the first time; then the number of records with replaced bytes.

    If ``options`` choose columns, only replaced bytes in their values count.
    """

    def __init__(self, result: Any, options: OutputOptions) -> None:
        self._result = result
        self._paths = _list_shown_paths(options)
        self._count = 0
        self._first: str | None = None

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._result:
            if not replaces_bytes(batch):
                yield batch
                continue
            watched = _WatchedBatch(batch, self._paths)
            yield watched
            if watched.replaced:
                self._count_records(batch, watched.replaced)

    def iterate_again(self) -> Iterator[Batch]:
        """All batches once more, without counting."""
        again: Iterator[Batch] = self._result.iterate_again()
        return again

    def format_warnings(self) -> tuple[str, ...]:
        """Format the warning about records with replaced bytes."""
        if self._first is None:
            return ()
        words = f"U+FFFD replaces bytes that are not UTF-8 in {format_count(self._count, 'record')}"
        return (f"{words}, the first with {self._first}",)

    def _count_records(self, batch: Batch, replaced: Iterable[bytes]) -> None:
        for record in batch.records:
            if record.payload in replaced:
                self._count += 1
                if self._first is None:
                    self._first = f"SOW key {record.sow_key} in {batch.topic}"


def _list_shown_paths(options: OutputOptions) -> list[Path] | None:
    """Return the paths whose values are printed; None for whole messages."""
    if options.template is not None:
        from sowctl.output.template import parse_template

        columns = parse_template(options.template)[1]
    elif options.columns:
        columns = options.columns
    else:
        return None
    return [column for column in columns if isinstance(column, Path)]


class _WatchedBatch:
    """A batch whose views record payloads in which they replace bytes by U+FFFD, at ``paths`` (None: anywhere)."""

    def __init__(self, batch: Batch, paths: Sequence[Path] | None) -> None:
        self._batch = batch
        self._paths = paths
        self.replaced: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        # Optional attributes of a batch, present or absent, are looked up by name.
        return getattr(self._batch, name)

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def message_type(self) -> str:
        return self._batch.message_type

    @property
    def records(self) -> Any:
        return self._batch.records

    @property
    def payloads(self) -> Any:
        return self._batch.payloads

    @property
    def shown(self) -> Any:
        return self._batch.shown

    @property
    def view(self) -> View:
        return partial(self._watch, self._batch.view)

    @property
    def members_view(self) -> View:
        return partial(self._watch, self._batch.members_view)

    @property
    def exact_view(self) -> View | None:
        view = find_exact_view(self._batch)
        return None if view is None else partial(self._watch, view)

    def _watch(self, view: View, payload: bytes) -> bytes:
        line = view(payload)
        # A message may contain the character itself.
        if (
            _REPLACEMENT_CHARACTER in line
            and line.count(_REPLACEMENT_CHARACTER) > payload.count(_REPLACEMENT_CHARACTER)
            and self._is_shown(line)
        ):
            self.replaced.add(payload)
        return line

    def _is_shown(self, line: bytes) -> bool:
        """Return whether a shown value of a view has U+FFFD."""
        if self._paths is None:
            return True
        from sowctl.output.members import dump_json, find_value, read_exact_members

        members = read_exact_members(line, lambda known: known)
        return any("\ufffd" in dump_json(find_value(members, path)) for path in self._paths)
