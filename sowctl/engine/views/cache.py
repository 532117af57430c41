"""The cache of a view: its path and its meta record (``sow-view(5)``).

A cache is a store of the view's messages with further tables. All its data is derived. If it is missing, damaged, or
written by another version of the program, it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from sowctl.config.model import TopicConfig
from sowctl.directories import FILE_MODE
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.sources.current import CurrentSource, Rebuild, open_current_source
from sowctl.engine.views.instant import find_entry, list_topic_refs, run_at_instant
from sowctl.errors import DamageError, LockedError, MissingError, RefusedError, SowError, StorageError, VersionError

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.definition import Query
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn
    from sowctl.values.topicref import TopicRef

CACHE_VERSION = 3
"""Version of the tables and column files; a cache of another version is rebuilt."""
UNUSABLE_ERRORS = (DamageError, VersionError, MissingError, RefusedError)
"""Errors of opening a derived store after which it is rebuilt."""
UNWRITABLE_ERRORS = (StorageError, LockedError, RefusedError, OSError)
"""Errors that mean that a derived store cannot be written."""
STATE_TABLE, CHANGES_TABLE = "view:state", "view:changes"
_KEY = b"state"
_MAX_NAME_CHARACTERS = 120
"""Maximum length of a file name; a longer name is replaced by its digest."""


def open_if_current(
    moment: ViewInstant,
    topic: TopicConfig,
    is_current: Callable[[CurrentSource], bool],
    *,
    can_be_made: bool = True,
) -> CurrentSource | None:
    """Open the derived store of a topic. Return None if it does not exist, is unusable, or not ``is_current``.

    If it ``can_be_made`` again, it is rebuilt when reading detects damage.
    """
    assert topic.file is not None
    if not topic.file.exists():
        return None
    try:
        source = open_current_source(moment.instance, topic, now=moment.now)
    except UNUSABLE_ERRORS:
        return None
    try:
        if is_current(source):
            source.rebuild = _make_rebuild(moment, topic, source) if can_be_made else None
            return source
    except BaseException:
        source.close()
        raise
    source.close()
    return None


def _make_rebuild(moment: ViewInstant, topic: TopicConfig, source: CurrentSource) -> Rebuild:
    """Return the function that rebuilds a cache whose damage is found while it is read."""
    entry, instance, opener = topic.derived, moment.instance, moment.opener
    assert entry is not None
    before = source.meta.digest, source.meta.records

    def rebuild(problem: DamageError) -> CurrentSource | None:
        notify_rebuild(instance, entry, problem)
        states = entry.kind == "View"
        # fresh, because the damaged cache would be considered current again.
        found = run_at_instant(
            instance, entry, None, opener, lambda again: opener(again, entry), fresh=True, states=states
        )
        other = found.stored_source
        # If the topics have changed since, the records already read belong to another state.
        if isinstance(other, CurrentSource) and (other.meta.digest, other.meta.records) == before:
            return other
        found.close()
        return None

    return rebuild


def notify_rebuild(instance: Instance, entry: OtherEntry, problem: DamageError) -> None:
    """Report that a cache is rebuilt because it is damaged."""
    what = "view" if entry.kind == "View" else "conflated topic"
    instance.notify_once(
        f"damage of {entry.name}", f"rebuilding the cache of the {what} {entry.name}: {problem.message}"
    )


class SourcePosition(Struct, frozen=True):
    """Position of one source in a cache: message type, name; lineage and state of its store, last txid.

    ``behind``: the last txid in the journal that the store had not applied, 0 if it had applied all.
    """

    type: str
    name: str
    lineage: str = ""
    store: str = ""
    last_txid: int = 0
    behind: int = 0

    @property
    def state(self) -> tuple[str, str, int]:
        """The values that identify a state of the source."""
        return self.lineage, self.store, self.behind


class CacheState(Struct, frozen=True):
    """The state of a cache. Times in microseconds since 1970 UTC, costs in seconds of processor time.

    ``definition``: digest of everything except records that the messages depend on; ``positions``: of the sources, in
    their order; ``clock``: time for which expiration was evaluated; ``expires``: when the next record expires, 0 for
    never; ``columns``: identities of the column files of the sources, empty without columns; ``full``: cost of the last
    full computation, at ``made``; ``change``: cost of the last refresh, at ``refreshed``, with ``changed``: its number
    of changed records, and ``groups``: its number of computed groups.
    """

    version: int
    definition: str
    positions: tuple[SourcePosition, ...]
    clock: int
    expires: int = 0
    columns: tuple[str, ...] = ()
    full: float = 0.0
    change: float = 0.0
    changed: int = 0
    groups: int = 0
    made: int = 0
    refreshed: int = 0


def find_cache_path(instance: Instance, entry: OtherEntry) -> Path | None:
    """Return the path of a view's cache, in a directory next to the store of the first topic that the view reads.

    Return None if none of its topics has a store.
    """
    for ref in list_topic_refs(instance, entry):
        topic = find_entry(instance, ref)
        if isinstance(topic, TopicConfig) and topic.file is not None:
            real = topic.file.resolve()
            return real.with_name(f"{real.name}-views") / _file_name(entry)
    return None


def find_cache_mode(instance: Instance, entry: OtherEntry) -> int:
    """Return the permissions of a view's cache: those common to the stores of all topics that the view reads."""
    mode = FILE_MODE
    for ref in list_topic_refs(instance, entry):
        topic = find_entry(instance, ref)
        if isinstance(topic, TopicConfig) and topic.file is not None and topic.file.exists():
            mode &= topic.file.stat().st_mode
    # Otherwise a user without access to a store could read its records in the cache. The owner must be able to write.
    return mode | 0o600


def _file_name(entry: OtherEntry) -> str:
    name = quote(f"{entry.name}.{entry.message_type}", safe=" ")
    return f"{name if len(name) <= _MAX_NAME_CHARACTERS else xxh3_128_hexdigest(name.encode())}.sow"


def definition_digest(instance: Instance, query: Query) -> str:
    """Return a digest of everything except records that a view depends on: texts, types, names, functions."""
    assert instance.config is not None
    types = instance.config.types
    kinds = sorted({query.message_type, *(source.message_type for source in query.sources)})
    parts = [
        CACHE_VERSION,
        query,
        [(kind, types.get(kind)) for kind in kinds],
        instance.config.name,
        instance.config.group,
        instance.config.functions if load_functions(instance) else (),
    ]
    return xxh3_128_hexdigest(repr(parts).encode("utf-8", "surrogateescape"))


def read_position(ref: TopicRef, source: Source) -> SourcePosition:
    """Return the position of an open source."""
    stored = source.stored_source
    if stored is None:
        return SourcePosition(ref.message_type, ref.name)
    meta, memtable = stored.meta, stored.memtable
    behind = memtable.last_txid if memtable is not None and len(memtable) else 0
    return SourcePosition(
        ref.message_type, ref.name, meta.lineage.hex(), f"{meta.state_number:032x}", stored.last_txid, behind
    )


def read_positions(moment: ViewInstant, query: Query) -> tuple[SourcePosition, ...]:
    """Return the positions of a view's sources at a moment, in their order."""
    return tuple(read_position(ref, moment.find_source(ref)) for ref in query.sources)


def read_state(reader: Reader) -> CacheState | None:
    """Read the state of a cache; None if it is missing, unreadable or of another version."""
    try:
        table = reader.open_table(STATE_TABLE)
        raw = None if table is None else table.get(_KEY)
        state = None if raw is None else msgspec.json.decode(raw, type=CacheState)
    except (SowError, msgspec.MsgspecError):
        return None
    return state if state is not None and state.version == CACHE_VERSION else None


def write_state(txn: WriteTxn, state: CacheState) -> None:
    """Write the state of a cache, in the transaction of the changes that it describes."""
    txn.open_table(STATE_TABLE).put([(_KEY, msgspec.json.encode(state))])
