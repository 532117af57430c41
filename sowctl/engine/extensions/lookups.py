"""VALUE_LOOKUP: a field of another topic's record, found by the values of its fields (``sowctl-plugins(7)``).

A table is declared by an option of its module, ``name;count;type;topic;returnField;lookupField...``. It is the topic as
a reader sees it at the clock of the run: read when the first message of a batch asks, and kept while the topic stays as
it is. Where several records have the values, the one that was published last counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.errors import ConfigError, MissingError, SowError
from sowctl.expressions.functions.signature import Function, declare_function
from sowctl.store.codec import extract_payloads, read_stamps
from sowctl.store.limits import STORE_LIMITS
from sowctl.structs import DescribedStruct
from sowctl.values.paths import Path, parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.expressions.environment import Environment

LookupTexts = tuple[bytes | None, ...]


class TableDeclaration(DescribedStruct, frozen=True):
    """A table: the topic, the field that is given, the fields that are compared."""

    topic: TopicConfig
    returned: Path
    fields: tuple[Path, ...]


class _LookupTable:
    """The contents of one table; ``at`` is the run that they were last seen to be true for."""

    def __init__(self, instance: Instance, declared: TableDeclaration) -> None:
        self._instance = instance
        self._declared = declared
        self._found: dict[LookupTexts, bytes | None] = {}
        self._position: tuple[int, int | None] | None = None
        self._at: Environment | None = None

    def find_text(self, environment: Environment, texts: LookupTexts) -> bytes | None:
        """The text that is found, None for NULL."""
        # An environment stands for one run over a batch: within it, all look-ups see one state of the table.
        if self._at is not environment:
            self._refresh(environment.read_clock())
            self._at = environment
        return self._found.get(texts)

    def _refresh(self, now: int) -> None:
        from sowctl.engine.sources.current import open_current_source

        topic = self._declared.topic
        # A topic that this session writes is read through its writer: its store must not be opened twice, and its
        # memtable has what was published before in this run.
        writer = self._instance.opened(topic)
        if writer is not None:
            self._load_batches(writer.last_txid, now, writer.scan(STORE_LIMITS.read_batch_records, now))
            return
        try:
            with closing(open_current_source(self._instance, topic, now=now)) as source:
                self._load_batches(source.last_txid, now, source.read_batches(STORE_LIMITS.read_batch_records))
        except MissingError:
            self._found, self._position = {}, None

    def _load_batches(self, last_txid: int, now: int, batches: Iterable[tuple[list[bytes], list[bytes]]]) -> None:
        """Read the topic unless it is as it was."""
        # The state follows from the last txid, and where records expire from the clock as well: equal positions need no
        # reading.
        position = last_txid, now if self._declared.topic.expiration.kind != "disabled" else None
        if position != self._position:
            self._found, self._position = self._read_batches(batches), position

    def _read_batches(self, batches: Iterable[tuple[list[bytes], list[bytes]]]) -> dict[LookupTexts, bytes | None]:
        paths = (*self._declared.fields, self._declared.returned)
        texts_of = self._instance.find_message_type(self._declared.topic.message_type).build_key_extractor(paths)
        newest: dict[LookupTexts, tuple[int, bytes | None]] = {}
        for _, values in batches:
            rows, _ = texts_of(extract_payloads(values))
            for value, row in zip(values, rows, strict=True):
                txid = read_stamps(value)[0]
                known = newest.get(row[:-1])
                # Several records may have these field values: the one that was written last counts, whatever the order
                # of keys.
                if known is None or known[0] < txid:
                    newest[row[:-1]] = txid, row[-1]
        return {texts: found for texts, (_, found) in newest.items()}


def build_value_lookup(instance: Instance, options: list[str]) -> Function:
    """The function over the tables that the options declare. Raises ConfigError ``SOW-ENG-062`` for a bad one."""
    tables = {}
    for text in options:
        name, declared = _parse_declaration(instance, text)
        tables[name.encode()] = _LookupTable(instance, declared), len(declared.fields)

    def look(environment: Environment, name: bytes | None, *values: bytes | None) -> bytes | None:
        table, count = tables.get(name or b"", (None, 0))
        # NULL equals nothing, so it finds nothing.
        if table is None or len(values) != count or None in values:
            return None
        return table.find_text(environment, values)

    return declare_function(
        "VALUE_LOOKUP",
        look,
        "text text ...",
        "text",
        "the field of another topic's record, as defined by a Lookup option",
        strict=False,
        deterministic=False,
        gets="environment",
        lookup=True,
    )


def _parse_declaration(instance: Instance, text: str) -> tuple[str, TableDeclaration]:
    parts = [part.strip() for part in text.split(";")]
    if len(parts) < 6:
        raise _build_declaration_error(text, "the format is name;count;type;topic;returnField;lookupField...")
    name, count, kind, topic, *fields = parts
    if count != str(len(fields) - 1):
        raise _build_declaration_error(
            text, f"it declares {count} lookup {'field' if count == '1' else 'fields'}, but has {len(fields) - 1}"
        )
    found = [entry for entry in instance.topics if entry.ref == (topic, kind)]
    if not found:
        raise _build_declaration_error(text, f"topic {topic!r} of type {kind} does not exist")
    try:
        paths = [parse_path(field) for field in fields]
    except SowError as error:
        raise _build_declaration_error(text, error.message) from error
    return name, TableDeclaration(found[0], paths[0], tuple(paths[1:]))


def _build_declaration_error(text: str, why: str) -> ConfigError:
    return ConfigError("SOW-ENG-062", f"invalid Lookup {text!r}: {why}")
