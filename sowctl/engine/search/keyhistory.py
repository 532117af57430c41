"""The versions of single keys: those that a store retains, or all their entries in the journals.

Called by the verbs history and blame. For a topic with History, versions are read from its store (``behaviour`` 2);
versions outside its window are not shown, even if no writer has pruned them yet. For any journalled topic, versions
can be read from the journals on request: all entries that the journals still hold, including those dropped by the
granularity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from sowctl.engine.fold.blocks import read_entry_values
from sowctl.engine.records import StoredRecord
from sowctl.engine.search.keytext import make_key_error, resolve_key_texts
from sowctl.engine.sources.opener import open_empty_source, open_present_source
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.topics.positions import NO_STORE_CODE, add_replay_hint, has_log, open_log, open_whole_log
from sowctl.engine.topics.retention import Version, build_retention, decode_version, encode_version, prune_versions
from sowctl.errors import MissingError, SowError, UsageError
from sowctl.identity.bookmarks import build_bookmark
from sowctl.journal.format import INSERTED_FLAG, NO_PUBLISHER, UNKEYED_FLAG
from sowctl.store.codec import KEY_SIZE, TOMBSTONE_FLAG, read_expiration
from sowctl.values.times import format_time, to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.config.model import Expiration, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target
    from sowctl.journal.block import Block
    from sowctl.journal.entries import Entry
    from sowctl.store.meta import Definition


class VersionRecord(StoredRecord):
    """A version: a stored value, the time at which it was replaced (None: it is current), and its journal entry.

    ``lossy``: versions between it and the next one were not retained, so it may have been replaced before ``until``.
    ``owner``: the publisher id of the instance whose journal contains the entry.
    """

    __slots__ = ("_entry", "_owner", "client", "lossy", "until")

    def __init__(
        self, key: bytes, value: bytes, until: int | None, lossy: bool, entry: Entry | None = None, owner: int = 0
    ) -> None:
        super().__init__(key, value)
        self.until = until
        self.lossy = lossy
        self._entry = entry
        self._owner = owner
        self.client = None if entry is None else entry.client
        """The client name of the publisher; None if the journal has no entry or the entry no publisher."""

    @property
    def valid_until(self) -> datetime | None:
        """``until`` as a datetime in UTC; None for the current version."""
        return None if self.until is None else to_datetime(self.until)

    @property
    def deleted(self) -> bool:
        """True for a deletion, which has no message."""
        return bool(self.value[0] & TOMBSTONE_FLAG)

    @property
    def inserted(self) -> bool | None:
        """True if its journal entry inserted the record; None for a version from a store."""
        return None if self._entry is None else bool(self._entry.flags & INSERTED_FLAG)

    @property
    def has_data(self) -> bool:
        """True if it has a message: it is not a deletion."""
        return not self.deleted

    @property
    def bookmark(self) -> str | None:
        """The bookmark of its journal entry; None for a version from a store."""
        entry = self._entry
        if entry is None:
            return None
        return str(build_bookmark(entry.publisher, entry.sequence, entry.txid, self._owner))

    @property
    def extra(self) -> Mapping[str, Any]:
        """The extra facts of a record, and those of a version."""
        facts: dict[str, Any] = {
            **(super().extra or {}),
            "operation": "delete" if self.deleted else "publish",
            "until": None if self.until is None else format_time(self.until),
            "lossy": self.lossy,
        }
        if self._entry is not None:
            facts |= {"client": self.client, "sequence": self._entry.sequence or None}
        elif self.client is not None:
            facts["client"] = self.client
        return facts


class KeyVersions(NamedTuple):
    """The versions of some keys, oldest first, and the possible keys of each text, the likelier first."""

    topic: str
    message_type: str
    found: dict[bytes, list[VersionRecord]]
    named: list[list[bytes]]

    def iterate_texts(self, texts: Sequence[str]) -> Iterator[tuple[str, list[VersionRecord]]]:
        """Yield each text with the versions of its key, an empty list if the key has none."""
        for text, keys in zip(texts, self.named, strict=True):
            # Use the first key, which is the likelier one, unless it has no versions.
            yield text, next((self.found[key] for key in keys if self.found.get(key)), [])


def read_versions(
    instance: Instance, target: Target, texts: Sequence[str], *, fields: bool, journal: bool
) -> KeyVersions:
    """Return the versions of the records that ``texts`` name; ``journal``: from the journals instead of the store.

    A text is tried as a SOW key first and then as the values of the key fields; with ``fields`` only as the latter.
    Raises UsageError ``SOW-QRY-001`` and others for texts that cannot be keys, ``SOW-QRY-022`` for a topic without
    History, MissingError ``SOW-QRY-021`` for a topic without a journal, and the errors of reading.
    """
    return (_read_journal_versions if journal else _read_store_versions)(instance, target, texts, fields)


def _read_store_versions(instance: Instance, target: Target, texts: Sequence[str], fields: bool) -> KeyVersions:
    topic = target.topic
    if topic is not None and topic.history is None:
        raise UsageError(
            "SOW-QRY-022",
            f"topic {topic.name!r} has no History",
            hint="use --journal to read the versions from the journals"
            if topic.journalled
            else "use query for the current records",
            topic=topic.name,
        )
    rule = build_retention(topic.history) if topic is not None else None
    try:
        opened = open_present_source(instance, target)
    except MissingError as error:
        if topic is None or error.code != NO_STORE_CODE:
            raise
        empty = open_empty_source(instance, topic, error)
        named = _resolve_named_keys(texts, target, empty.definition, fields)
        return KeyVersions(empty.topic, empty.message_type, {key: [] for keys in named for key in keys}, named)
    with closing(opened) as source, add_replay_hint(topic):
        named = _resolve_named_keys(texts, target, source.definition, fields)
        view = VersionsSource(source, topic, instance.now)
        found = {}
        for key in {key for keys in named for key in keys}:
            kept = view.read_timeline(key)
            if rule is not None:
                # Prune here, too, so that the result depends only on entries and clock, not on when a writer prunes.
                kept = prune_versions(kept, instance.now, rule.window)
            found[key] = _build_retained_records(key, kept)
        if topic is not None and topic.journalled:
            # A store does not record publishers; if the journal cannot be read, the versions have no client names.
            with suppress(SowError, OSError):
                _find_clients(instance, topic, [record for records in found.values() for record in records])
        return KeyVersions(source.topic, source.message_type, found, named)


def _resolve_named_keys(
    texts: Sequence[str], target: Target, definition: Definition | None, fields: bool
) -> list[list[bytes]]:
    """Return the possible keys of each text. Raises UsageError ``SOW-QRY-001`` for a text that cannot be a key."""
    meant = resolve_key_texts(texts, target, definition, fields=fields)
    for text, keys in zip(texts, meant, strict=True):
        if not keys:
            raise make_key_error(text)
    return meant


def _build_retained_records(key: bytes, kept: Sequence[Version]) -> list[VersionRecord]:
    return [
        VersionRecord(
            key, encode_version(key, version), following.time if following is not None else None, version.lossy
        )
        for version, following in pairwise([*kept, None])
        if version is not None
    ]


def _set_clients(block: Block, records: Sequence[VersionRecord]) -> None:
    """Set the clients of versions whose entries are in a block."""
    columns = block.decode_columns()
    for record in records:
        place = record.txid - block.first_txid
        who = columns.publisher_indexes[place]
        if who != NO_PUBLISHER and bytes(columns.keys[KEY_SIZE * place :][:KEY_SIZE]) == record.key:
            record.client = block.publishers[who][1]


def _find_clients(instance: Instance, topic: TopicConfig, records: Sequence[VersionRecord]) -> None:
    """Set the clients of versions whose entries the journals still hold. Raises the errors of reading journals."""
    wanted = {record.txid: record for record in records}
    if not wanted or not has_log(instance):
        return
    with open_log(instance) as log:
        if not log.refresh_state().publishers:
            return
        txids = sorted(wanted)
        for ref in log.iter_block_refs(after=txids[0] - 1):
            first, last = ref.header.first_txid, ref.header.last_txid
            here = txids[bisect_left(txids, first) : bisect_right(txids, last)]
            if here and ref.read_map().publishers and ref.read_map().has_topic(topic.ref):
                _set_clients(ref.load(), [wanted[txid] for txid in here])
            if last >= txids[-1]:
                return


def _read_journal_versions(instance: Instance, target: Target, texts: Sequence[str], fields: bool) -> KeyVersions:
    topic = target.topic
    if topic is None or not topic.journalled:
        name = topic.name if topic is not None else str(target.path)
        keeps = topic is None or topic.history is not None
        hint = "remove --journal" if keeps else "use query for the current records; the topic has no History either"
        raise MissingError("SOW-QRY-021", f"{name!r} has no journal", hint=hint)
    named = _resolve_named_keys(texts, target, None, fields)
    wanted = {key for keys in named for key in keys}
    ref = topic.ref
    entries: dict[bytes, list[tuple[bytes, Entry]]] = {}
    with open_whole_log(instance) as log:
        # Files removed during the read are an error, and earlier removals are reported: no result is silently partial.
        log.require_files_after()
        if not log.covers_topic(ref):
            instance.notify(
                f"topic {topic.name!r}: older journals were removed; the versions begin at txid "
                f"{log.first_txid} (searched {log.search_locations})"
            )
        for block in log.iter_blocks(topic=ref):
            # A substring search in the key column, which may also match across two keys; the exact comparison follows.
            raw = bytes(block.decode_columns().keys)
            if not any(key in raw for key in wanted):
                continue
            keys, values = read_entry_values(block, ref, unkeyed=True)
            rows = zip(keys, values, (one for one in block.iter_entries() if one.topic == ref), strict=True)
            for key, value, entry in rows:
                if key in wanted and not entry.flags & UNKEYED_FLAG and _is_meant(topic, entry):
                    entries.setdefault(key, []).append((value, entry))
    found = {key: list(_build_journal_records(key, rows, instance, topic.expiration)) for key, rows in entries.items()}
    return KeyVersions(topic.name, topic.message_type, found, named)


def _is_meant(topic: TopicConfig, entry: Entry) -> bool:
    if topic.logical is None:
        return True
    return entry.logical_topic is not None and topic.logical.contains_topic(
        entry.logical_topic.decode("utf-8", "replace")
    )


def _build_journal_records(
    key: bytes, rows: Sequence[tuple[bytes, Entry]], instance: Instance, rule: Expiration
) -> Iterator[VersionRecord]:
    """Yield the entries of a key as versions; an expired version was current until its expiration time."""
    now, owner = instance.now, instance.publisher_id
    for place, (value, entry) in enumerate(rows):
        until = decode_version(rows[place + 1][0]).time if place + 1 < len(rows) else None
        stamp = read_expiration(value)
        # A record ends at its expiration time, although no entry records that (behaviour 11.14).
        if is_expired(rule, stamp, now) and (until is None or stamp < until):
            until = stamp
        yield VersionRecord(key, value, until, False, entry, owner)
