"""journal list and dump: lists the files of the journal, and prints their entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.maintenance.journal_search.entries import (
    EntryRecord,
    JournalEntries,
    build_entry_batch,
    decode_logical_topic,
    require_logical_topic,
)
from sowctl.engine.search.keytext import parse_keys
from sowctl.engine.topics.positions import notify_skipped_tail, open_whole_log
from sowctl.engine.topics.targets import split_target
from sowctl.errors import DamageError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.identity.keys import parse_sow_key
from sowctl.journal.entries import LOGICAL_TOPICS_FLAG
from sowctl.journal.format import UNKEYED_FLAG

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block, FileInfo
    from sowctl.journal.entries import Entry
    from sowctl.remote.place import Place


class EntryFilter(Struct, frozen=True):
    """A filter of journal entries; None accepts all.

    ``topic_names``: any of these, including logical ones, as ``NAME`` or ``[TYPE].[NAME]``; empty accepts all. Times in
    microseconds UTC, bounds inclusive.
    """

    topic_names: tuple[str, ...] = ()
    keys: frozenset[int] | None = None
    client: str | None = None
    from_time: int | None = None
    to_time: int | None = None
    from_txid: int | None = None
    to_txid: int | None = None
    limit: int | None = None


def parse_entry_keys(instance: Instance, texts: Sequence[str], topic_names: Sequence[str] = ()) -> frozenset[int]:
    """Return the keys that texts name: SOW keys, and in topics with keys of publishers, these.

    ``topic_names``: only keys of these topics. Raises UsageError ``SOW-CLI-025`` for a text that cannot be a key.
    """
    chosen = [topic for topic in instance.topics if topic.key_mode == "user"]
    if topic_names:
        asked = [split_target(name)[0] for name in topic_names]
        chosen = [topic for topic in chosen if topic.name in asked]
    found = set()
    for text in texts:
        keys = [key for topic in chosen if topic.pattern is None for key in parse_keys((text,), topic)]
        number = parse_sow_key(text)
        if number is None and not keys:
            hint = "sowctl query TOPIC --meta shows SOW keys"
            raise UsageError("SOW-CLI-025", f"{text!r} is not a SOW key", hint=hint)
        found |= {int.from_bytes(key, "big") for key in (*keys, *((number,) if number is not None else ()))}
    return frozenset(found)


def list_files(instance: Instance, directory: Place | None = None) -> Iterator[FileInfo]:
    """Yield the journal files in order, including the last txid of the active file, if it has one.

    After the last file, ``instance.notify`` reports entries skipped at the end of the journal. Raises MissingError
    (exit 10) without any file, DamageError (exit 5) for gaps and bad headers, and if the end of the journal is damaged
    or lost.
    """
    with open_whole_log(instance, directory) as log:
        *before, last = log.list_files()
        yield from before
        try:
            txid = log.read_last_txid()
        except DamageError:
            # Even if the end is damaged, the file exists, and is listed before the error.
            yield last
            raise
        yield replace(last, last_txid=txid if txid >= last.first_txid else None)
        notify_skipped_tail(instance, log)


def dump_entries(
    instance: Instance, wanted: EntryFilter, *, data: bool = True, directory: Place | None = None
) -> Iterator[JournalEntries]:
    """Yield the entries that match ``wanted``, in txid order.

    ``instance.notify`` reports entries skipped at the end of the log, if reading reaches it. Raises DamageError (exit
    5) if the log is damaged, or lacks entries at its end that stores or the topics file have; MissingError
    ``SOW-ENG-012`` for a topic that does not exist.
    """
    publisher = hash_client_name(wanted.client) if wanted.client is not None else None
    left = wanted.limit
    with open_whole_log(instance, directory) as log:
        topics = [split_target(text) for text in wanted.topic_names]
        for name, message_type in topics:
            require_logical_topic(instance, log, name, message_type)
        after = (wanted.from_txid or 1) - 1
        for block in log.iter_blocks(after=after, until=wanted.to_txid):
            # The header suffices, so such blocks are not decompressed.
            if wanted.from_time is not None and block.header.latest < wanted.from_time:
                continue
            if topics and not any(_may_have_topic(block, name) for name, _ in topics):
                continue
            held: list[EntryRecord] = []
            for entry in block.iter_entries():
                if left is not None and left <= 0:
                    break
                if not _passes_filter(entry, wanted, topics, publisher):
                    continue
                # A batch has one topic, and the order of txids is kept.
                if held and held[-1].entry.topic != entry.topic:
                    yield build_entry_batch(instance, held)
                    held = []
                held.append(EntryRecord(entry, instance.publisher_id, data=data))
                left = None if left is None else left - 1
            if held:
                yield build_entry_batch(instance, held)
            if left is not None and left <= 0:
                return
        notify_skipped_tail(instance, log)


def _may_have_topic(block: Block, topic: str) -> bool:
    """Return whether a block may have entries of a topic, or logical topic, of this name."""
    return bool(block.header.flags & LOGICAL_TOPICS_FLAG) or any(name == topic for name, _ in block.topic_refs)


def _passes_filter(
    entry: Entry, wanted: EntryFilter, topics: Sequence[tuple[str, str | None]], publisher: int | None
) -> bool:
    return (
        (not topics or any(_is_of_topic(entry, name, message_type) for name, message_type in topics))
        and (
            wanted.keys is None or (int.from_bytes(entry.key, "big") in wanted.keys and not entry.flags & UNKEYED_FLAG)
        )
        and (publisher is None or entry.publisher == publisher)
        and (wanted.from_time is None or entry.time >= wanted.from_time)
        and (wanted.to_time is None or entry.time <= wanted.to_time)
        and (wanted.from_txid is None or entry.txid >= wanted.from_txid)
        and (wanted.to_txid is None or entry.txid <= wanted.to_txid)
    )


def _is_of_topic(entry: Entry, name: str, message_type: str | None) -> bool:
    return (entry.topic.name == name or decode_logical_topic(entry) == name) and message_type in (
        None,
        entry.topic.message_type,
    )
