"""replace: makes the records of a topic equal to an input (``publish --replace-all``).

The input is published to an empty copy of the topic (:mod:`sowctl.engine.writing.input_state`). Then the two states are
compared in key order under the locks of the topic, and the differences, upserts and deletions, are written as one group
of the journal. Memory holds batches of bounded size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.fold.apply import apply_to_transaction
from sowctl.engine.fold.blocks import collect_texts, encode_values
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.removal import remove_expired_batch
from sowctl.engine.fold.spill import Spool
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import KeyChange, PublishReport, TopicCounts
from sowctl.engine.search.keytext import build_key_formatter
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.logical_topics import narrow_source
from sowctl.engine.sources.opener import open_empty_source
from sowctl.engine.sources.state_pairs import RecordPair, pair_states
from sowctl.engine.topics.positions import NO_STORE_CODE, add_replay_hint
from sowctl.engine.topics.targets import find_publish_topic
from sowctl.engine.writing.input_state import InputState, open_input_state
from sowctl.engine.writing.outcome import (
    compute_entry_flags,
    describe_collision,
    describe_too_old,
    format_clock_warning,
    is_ahead_of_clock,
)
from sowctl.engine.writing.publishers import Publisher
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import InputError, MissingError, RefusedError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.identity.keyspace import split_words
from sowctl.interrupts import without_interrupts
from sowctl.journal.entries import EntryBatch
from sowctl.store.codec import decode_record, has_same_content, read_check
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.meta import NO_LINEAGE, AppliedPosition
from sowctl.values.times import parse_instant

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.writing.topicwriter import StoreWriter
    from sowctl.store.write import WriteTxn

Load = Callable[["Instance", PublishOptions], PublishReport]
"""Publishes the input to the topic, in the given instance and with the given options."""


class ReplaceLimits(Struct):
    """Batch sizes of a replacement; tests set smaller ones."""

    part_records: int = 4096
    """Changes that are spooled, journalled and applied together: a multiple of a journal block."""
    part_bytes: int = 4 << 20
    listed_changes: int = 10
    """Maximum number of changes listed in the report of a dry run."""


REPLACE_LIMITS = ReplaceLimits()


def replace_records(
    instance: Instance,
    name: str,
    load: Load,
    options: PublishOptions,
    *,
    message_type: str | None = None,
    on_durable: Callable[[PublishReport], None] = lambda _: None,
    monotonic: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Replace the records of a topic, or of a logical topic, by those that ``load`` would publish to it if it were
    empty.

    Records that differ only in txid and time are not written. Changed and new records and the deletions of all others
    are one group with one time, that of the clock or ``options.timestamp``: after a crash all of it is in effect, or
    none. A dry run counts the changes and lists the first ones. ``on_durable`` is called with the report when all
    changes are on disk, before they are applied to the store.

    Raises UsageError ``SOW-PUB-032`` for incompatible options, InputError (exit 3) at the first rejected message,
    RefusedError ``SOW-PUB-033`` for an input without records unless ``options.force``; then nothing is written.
    """
    started = monotonic()
    _refuse_options(options)
    topic = find_publish_topic(instance, name, message_type)
    apart = replace(
        options,
        dry_run=False,
        skip_unchanged=False,
        force=False,
        on_error="stop",
        client=None,
        timestamp=None,
    )
    with open_input_state(instance, topic, lambda copy: load(copy, apart)) as given:
        # The counts of the input stay in the report; outcomes are counted again.
        read = given.report
        report = PublishReport(
            [TopicCounts(topic.label, topic.message_type)],
            messages=read.messages,
            blank=read.blank,
            dry_run=options.dry_run,
            durable=not options.dry_run,
            end=read.end,
            last_line=read.last_line,
            already_expired=read.already_expired,
            lifetimes_ignored=read.lifetimes_ignored,
        )
        run = _Replacement(instance, topic, given, options, report, on_durable)
        if options.dry_run:
            run.compare()
        else:
            run.write()
        report.seconds = monotonic() - started
        return report


def _refuse_options(options: PublishOptions) -> None:
    """Reject incompatible options. Raises UsageError ``SOW-PUB-032``."""
    chosen = {
        "--on-error skip": options.on_error == "skip",
        "--delta": options.delta,
        "--sequence": options.sequence is not None,
        "--timestamp-field": options.timestamp_field is not None,
    }
    if given := [word for word, is_given in chosen.items() if is_given]:
        raise UsageError(
            "SOW-PUB-032",
            f"{given[0]} cannot be combined with --replace-all",
            hint="a replacement takes complete messages, all or nothing, and has one time",
        )


class _Replacement:
    """One replacement: compares the records of the topic with those of the input, and writes the differences."""

    def __init__(
        self,
        instance: Instance,
        topic: TopicConfig,
        given: InputState,
        options: PublishOptions,
        report: PublishReport,
        on_durable: Callable[[PublishReport], None],
    ) -> None:
        self.instance = instance
        self.topic = topic
        self.given = given
        self.options = options
        self.report = report
        self.on_durable = on_durable
        self._counts = report.topics[0]

    def compare(self) -> None:
        """Count the changes without locks and without opening for writing."""
        with closing(_open_present(self.instance, self.topic)) as current:
            kind = self.instance.find_message_type(self.topic.message_type)
            format_keys = build_key_formatter(kind, current.definition)
            for pairs in self._iterate_differences(current):
                self._count(pairs)
                room = REPLACE_LIMITS.listed_changes - len(self.report.first_changes)
                values = [new if new is not None else old for _, old, new in pairs[:room]]
                names = format_keys([key for key, _, _ in pairs[:room]], [one for one in values if one is not None])
                self.report.first_changes += [
                    KeyChange("inserted" if old is None else "deleted" if new is None else "updated", text)
                    for text, (_, old, new) in zip(names, pairs, strict=False)
                ]
        if self.report.published and self.options.timestamp is not None:
            self._warn_clock_ahead(parse_instant(self.options.timestamp, self.instance.clock), self.instance.now)

    def write(self) -> None:
        """Compare and write under the locks of one batch, so that exactly the compared records are replaced."""
        with WriteSession(self.instance) as session:
            writer = session.open_store(self.topic)
            self.report.torn_tails = session.torn
            with (
                session.hold_batch_locks([writer], merge_first=True),
                Spool(Path(writer.store.path).parent) as parts,
            ):
                now = self.instance.now
                at = self._choose_time(writer, now)
                with writer.open_source(now) as source:
                    for pairs in self._iterate_differences(narrow_source(source, self.topic)):
                        self._count(pairs)
                        parts.add((_pack_changes(pairs, logical=self.topic.pattern is not None),))
                if not len(parts):
                    return
                self._warn_clock_ahead(at, now)
                publisher = self._find_publisher(session, writer)
                # From the first append on, the store must get all of it, or none.
                with without_interrupts():
                    if writer.journalled:
                        self._append(session, writer, parts, at, now, publisher)
                    else:
                        self._store(writer, parts, at, publisher)

    def _warn_clock_ahead(self, at: int, now: int) -> None:
        if is_ahead_of_clock(at, now):
            self.instance.notify(format_clock_warning(self.topic.name, at))
            self.report.ahead = at

    def _choose_time(self, writer: StoreWriter, now: int) -> int:
        """Return the time of all changes. Raises InputError ``SOW-PUB-006`` for one before the last time of the
        topic."""
        if self.options.timestamp is None:
            # Times never decrease within a topic (behaviour 11.41).
            return max(now, writer.last_time)
        at = parse_instant(self.options.timestamp, self.instance.clock)
        if at < writer.last_time:
            raise InputError(*describe_too_old(writer.last_time))
        return at

    def _find_publisher(self, session: WriteSession, writer: StoreWriter) -> Publisher | None:
        """Return the named client, whose sequence numbers continue after its highest one, else the recorded client; the
        locks are held."""
        client = self.options.client
        if client is None:
            name = self.instance.find_recorded_client()
            # Only the journal has clients without sequence numbers.
            if name is None or not writer.journalled:
                return None
            return Publisher(name, None, session.find_highest_sequence, numbered=False)
        highest = session.find_highest_sequence(hash_client_name(client), [writer])
        return Publisher(client, highest + 1, lambda _: highest)

    def _iterate_differences(self, current: Source) -> Iterator[list[RecordPair]]:
        """Yield the differences in key order, in batches of bounded size.

        Raises RefusedError ``SOW-PUB-033`` if all records would be deleted, InputError ``SOW-PUB-007`` if records with
        different key values share a key.
        """
        size = STORE_LIMITS.read_batch_records
        with closing(open_current_source(self.given.instance, self.given.topic.whole_topic)) as wanted:
            if not self.options.force and not self.options.dry_run and not wanted.count_visible():
                self._refuse_empty(current)
            pairs: list[RecordPair] = []
            held = 0
            for stretch in pair_states(current.read_batches(size), wanted.read_batches(size), stamps=True):
                self._count_unchanged(stretch.equal)
                for pair in stretch.pairs:
                    if _has_same_content(pair):
                        self._count_unchanged(1)
                        continue
                    pairs.append(pair)
                    held += len(pair[2] or b"")
                    if len(pairs) >= REPLACE_LIMITS.part_records or held >= REPLACE_LIMITS.part_bytes:
                        yield pairs
                        pairs, held = [], 0
            if pairs:
                yield pairs

    def _count_unchanged(self, count: int) -> None:
        self._counts.unchanged += count
        self.report.unchanged += count

    def _refuse_empty(self, current: Source) -> None:
        """Reject an input without records: an empty file is more likely an error than the intention to delete
        everything."""
        if any(keys for keys, _ in current.read_batches(1)):
            raise RefusedError(
                "SOW-PUB-033",
                f"the input has no records, so all records of topic {self.topic.label!r} would be deleted",
                hint="use --force to delete them",
                topic=self.topic.label,
            )

    def _count(self, pairs: Sequence[RecordPair]) -> None:
        inserted = sum(old is None for _, old, _ in pairs)
        deleted = sum(new is None for _, _, new in pairs)
        counts = {"inserted": inserted, "updated": len(pairs) - inserted - deleted, "deleted": deleted}
        self._counts.add_counts(counts)
        self.report.add_counts(counts)
        self.report.published += len(pairs)

    def _append(
        self,
        session: WriteSession,
        writer: StoreWriter,
        parts: Spool,
        at: int,
        now: int,
        publisher: Publisher | None,
    ) -> None:
        """Append all changes as one group of any size; then apply them to the store in bounded transactions."""
        # Empties the memtable, so that memory holds only some batches of changes.
        session.flush_forced()
        journal = session.journal
        with session.guard_memtables():
            txid = journal.last_txid
            self.report.first_txid = txid + 1
            done = 0
            for number, (part,) in enumerate(parts, 1):
                entries = _build_batch(writer, part, at)
                if publisher is not None:
                    publisher.number_batch(len(entries), None)
                    sequences = publisher.list_sequences(range(len(entries)))
                    entries = entries.set_publisher(publisher.identity, sequences)
                # Only the last batch may be marked as the end of the group. Until that mark is on disk, readers and
                # recovery treat the whole group as never written.
                journal.append_group(entries, now, last=number == len(parts))
                self.report.bytes += sum(map(len, entries.payloads))
                done += len(entries)
                self.instance.watch("changes to journal", done, self.report.published)
            journal.sync()
            self.report.last_txid = journal.last_txid
            self.on_durable(self.report)
            # Acknowledged. A crash between two transactions leaves the store at a txid within the group, and the next
            # writer continues from there.
            for (part,) in parts:
                txid = _put_changes(writer.memtable, _build_batch(writer, part, at), txid)
                if writer.is_memtable_full():
                    writer.flush_forced(AppliedPosition(journal.lineage, txid))
        session.flush_forced()

    def _store(self, writer: StoreWriter, parts: Spool, at: int, publisher: Publisher | None) -> None:
        """Apply the changes in one transaction: without a journal, this makes a replacement atomic."""
        base, expired_at, count = writer.last_txid, writer.remove_expired_at, self.report.published
        if publisher is not None:
            publisher.number_batch(count, None)

        # Run again if the file has to grow, so it changes nothing outside of itself.
        def run(txn: WriteTxn) -> None:
            # The store's writer lock is held, so these txids are not assigned twice.
            txid = base
            for (part,) in parts:
                memtable = Memtable(history=writer.rule is not None)
                txid = _put_changes(memtable, _build_batch(writer, part, at), txid)
                apply_to_transaction(txn, memtable, base, writer.rule)
            txn.set_applied_position(NO_LINEAGE, txid)
            txn.raise_last_time(at)
            if publisher is not None:
                txn.set_sequence(publisher.identity[0], max(publisher.list_sequences(range(count))))
            if expired_at is not None:
                remove_expired_batch(txn, expired_at)

        with add_replay_hint(writer.config):
            writer.store.write(run)
        self.report.first_txid, self.report.last_txid = base + 1, base + count
        self.on_durable(self.report)
        writer.remove_expired_at = None
        writer.reload()
        self.report.bytes = sum(len(payload) for (part,) in parts for payload in part["payloads"])


def _open_present(instance: Instance, topic: TopicConfig) -> Source:
    """Open the current records of a topic, or of a logical topic; an empty source if nothing was published to it."""
    try:
        return narrow_source(open_current_source(instance, topic.whole_topic), topic)
    except MissingError as error:
        if error.code != NO_STORE_CODE:
            raise
        return open_empty_source(instance, topic, error)


def _pack_changes(pairs: Sequence[RecordPair], *, logical: bool) -> dict[str, Any]:
    """Return the columns of the changes' entries as plain values, without topic and time; ``logical``: the topic has
    logical topics."""
    keys = [key for key, _, _ in pairs]
    records = [decode_record(key, new or old or b"") for key, old, new in pairs]
    statuses = ["inserted" if old is None else "deleted" if new is None else "updated" for _, old, new in pairs]
    texts = collect_texts(records)
    if not logical:
        del texts["logical_topics"]
    entries = EntryBatch(
        [],
        [record.payload for record in records],
        keys,
        [record.check for record in records],
        0,
        [record.expiration for record in records],
        compute_entry_flags(statuses),
        **texts,
    )
    gone = [status == "deleted" for status in statuses]
    return (entries.mark_deletions(gone) if True in gone else entries).list_columns()


def _build_batch(writer: StoreWriter, columns: dict[str, Any], at: int) -> EntryBatch:
    """Return the entries of changes at the time ``at``."""
    return EntryBatch([writer.ref], **(columns | {"times": at}))


def _put_changes(memtable: Memtable, entries: EntryBatch, txid: int) -> int:
    """Put entries with the txids after ``txid`` into a memtable; return the last txid."""
    last = txid + len(entries)
    memtable.add_entries(split_words(entries.keys), encode_values(entries, range(txid + 1, last + 1)))
    return last


def _has_same_content(pair: RecordPair) -> bool:
    """Return whether a record is unchanged. Raises InputError ``SOW-PUB-007`` for records with different keys."""
    key, old, new = pair
    if old is None or new is None:
        return False
    if has_same_content(old, new):
        return True
    if read_check(old) != read_check(new):
        raise InputError(*describe_collision(int.from_bytes(key, "big")))
    return False
