"""delete: deletes records by filter, by SOW key, or by messages with their keys (``behaviour`` 1.4).

In any case the journal gets the keys, in one group per topic, so a replay deletes exactly the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.fold.apply import apply_to_transaction
from sowctl.engine.fold.blocks import build_deletions, encode_tombstones
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.removal import remove_expired_batch
from sowctl.engine.fold.spill import Spool
from sowctl.engine.options import DeleteOptions, PublishOptions
from sowctl.engine.reports import DeleteReport
from sowctl.engine.search.keytext import read_key_options
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.search.scan import open_access
from sowctl.engine.sources.logical_topics import build_logical_filter, narrow_source
from sowctl.engine.sources.opener import open_empty_source, open_present_source
from sowctl.engine.topics.positions import NO_STORE_CODE, add_replay_hint
from sowctl.engine.topics.targets import Target, select_readable_targets
from sowctl.engine.writing.prepare import Preparer
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import InputError, MissingError, UsageError
from sowctl.identity.keys import digest_key
from sowctl.identity.keyspace import split_words
from sowctl.store.codec import read_checks, read_logical_topic
from sowctl.store.meta import NO_LINEAGE, AppliedPosition

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.sources.source import MatchedPairs
    from sowctl.engine.writing.topicwriter import StoreWriter
    from sowctl.store.write import WriteTxn


class DeleteLimits(Struct):
    """Batch sizes of a delete; tests set smaller ones."""

    scan_batch_records: int = 1000
    """Records per read."""
    part_records: int = 16 << 10
    """Records deleted per batch: a multiple of a journal block, and the amount a memtable receives between two checks
    of its size."""


DELETE_LIMITS = DeleteLimits()


def delete_records(instance: Instance, targets: Sequence[Target], options: DeleteOptions) -> list[DeleteReport]:
    """Delete the records that the single selector of ``options`` names from every target; a missing key is no error
    (C30).

    Of several targets, those without any record yet are skipped.

    Raises UsageError ``SOW-DEL-001`` unless exactly one selector is given (C31), ``SOW-DEL-002`` for a bare file,
    ``SOW-DEL-007`` for a filter that compares nothing, and what stores and journals raise.
    """
    named = options.sow_keys if options.sow_keys is not None else options.keys
    chosen = [s for s in (options.filter, named, options.data) if s is not None]
    if len(chosen) != 1:
        raise UsageError(
            "SOW-DEL-001",
            "a delete requires exactly one of a filter, keys, and data",
            hint="use --filter, --key, --sow-key or --data",
        )
    # An empty variable in a script is more likely than the intention to delete everything.
    if options.filter is not None and not options.filter.strip():
        raise UsageError(
            "SOW-DEL-003", "an empty filter would delete everything", hint="to delete all records, use --filter '1=1'"
        )
    if options.filter is not None:
        _refuse_value(options.filter)
    topics = []
    for target in select_readable_targets(instance, targets):
        if target.topic is None:
            raise UsageError("SOW-DEL-002", "a .sow file without a configuration cannot be changed")
        topics.append(target.topic)
    kinds = [instance.find_message_type(topic.message_type) for topic in topics]
    environment = build_environment(instance) if options.filter is not None else None
    functions = load_functions(instance) if options.filter is not None else None
    matchers = [
        Matcher(options.filter, kind, topic.name, environment, functions=functions)
        for kind, topic in zip(kinds, topics, strict=True)
    ]
    # Without locks and without opening for writing: a dry run changes nothing.
    if options.dry_run:
        return [
            _count_matching(instance, topic, matcher, options) for topic, matcher in zip(topics, matchers, strict=True)
        ]
    with WriteSession(instance) as session:
        reports = []
        for topic, matcher in zip(topics, matchers, strict=True):
            writer = session.open_store(topic)
            # One topic at a time: no lock is held while another topic's records are compared.
            with session.hold_batch_locks([writer], merge_first=True):
                reports.append(_delete_matching(session, writer, topic, matcher, options))
                session.flush_forced()
        return reports


def _refuse_value(text: str) -> None:
    """Reject a filter that is only a value, such as a key: it would match all records that have it."""
    from sowctl.expressions.syntax import nodes
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.parser import parse_filter

    try:
        node = parse_filter(text)
    except ExpressionError:
        return  # reported with its position when it is compiled
    if isinstance(node, nodes.Literal | nodes.Field | nodes.Arithmetic | nodes.Unary):
        raise UsageError(
            "SOW-DEL-007",
            f"the filter {text.strip()} is a value, not a condition",
            hint="for the record with this key: --key; for all records: --filter '1 = 1'",
        )


def _count_matching(instance: Instance, topic: TopicConfig, matcher: Matcher, options: DeleteOptions) -> DeleteReport:
    report = DeleteReport(topic.label, topic.message_type, dry_run=True)
    try:
        opened = open_present_source(instance, Target(topic=topic))
    except MissingError as error:
        if error.code != NO_STORE_CODE:
            raise
        open_empty_source(instance, topic, error)
        return report
    with closing(opened) as source:
        if options.filter is not None:
            for keys, _ in _iterate_matching(instance, source, topic, matcher, report):
                report.matched += len(keys)
        else:
            keys, _ = narrow_source(source, topic).find_records(_read_named_keys(topic, options, instance))
            report.examined = report.matched = len(keys)
    return report


def _iterate_matching(
    instance: Instance, source: CurrentSource, topic: TopicConfig, matcher: Matcher, report: DeleteReport
) -> Iterator[MatchedPairs]:
    """Yield the matching records, with the access path of a query."""
    # Indexes have no logical topics, so a part of a Pattern topic is scanned.
    way = open_access(instance, source, matcher) if topic.logical is None else None
    if way is not None:
        report.examined += source.count_visible()
        yield from way.read_matching(DELETE_LIMITS.scan_batch_records)
        return
    for keys, values in narrow_source(source, topic).read_batches(DELETE_LIMITS.scan_batch_records):
        report.examined += len(keys)
        places = matcher.find_matches(keys, values)
        yield [keys[place] for place in places], [values[place] for place in places]


def _delete_matching(
    session: WriteSession, writer: StoreWriter, topic: TopicConfig, matcher: Matcher, options: DeleteOptions
) -> DeleteReport:
    """Select and delete under the locks of one batch, so that exactly the compared records are deleted."""
    instance = session.instance
    report = DeleteReport(topic.label, topic.message_type)
    now = instance.now
    with Spool(Path(writer.store.path).parent) as selected:
        # All records are selected before any is deleted: a filter that fails on a record deletes nothing.
        if options.filter is not None:
            with writer.open_source(now) as source:
                _spool_matching(_iterate_matching(instance, source, topic, matcher, report), writer, report, selected)
        else:
            _spool_matching(_iterate_present(instance, writer, topic, options, now), writer, report, selected)
            report.examined = report.matched
        if not report.matched:
            return report
        # Times never decrease within a topic, including deletions (behaviour 11.41).
        at = max(now, writer.last_time)
        if writer.journalled:
            _append_deletions(session, writer, selected, at, now, report.matched)
        else:
            _delete_from_store(writer, selected, at)
    report.deleted = report.matched
    return report


def _iterate_present(
    instance: Instance, writer: StoreWriter, topic: TopicConfig, options: DeleteOptions, now: int
) -> Iterator[MatchedPairs]:
    """Yield the existing records of the named keys, in key order; a missing one is no error (behaviour C30)."""
    named = sorted(set(_read_named_keys(topic, options, instance)))
    for start in range(0, len(named), DELETE_LIMITS.scan_batch_records):
        stored = writer.read_live_values(named[start : start + DELETE_LIMITS.scan_batch_records], now)
        keys = sorted(stored)
        found = keys, [stored[key] for key in keys]
        yield build_logical_filter(topic.logical)(found) if topic.logical is not None else found


def _spool_matching(found: Iterable[MatchedPairs], writer: StoreWriter, report: DeleteReport, selected: Spool) -> None:
    """Spool the parts of the records ``found`` that a deletion needs, ``part_records`` at a time, and count them."""
    keys: list[bytes] = []
    checks: list[bytes] = []
    names: list[bytes | None] = []

    def cut(stop: int) -> None:
        logical = names[:stop] if writer.config.pattern is not None else None
        selected.add((b"".join(keys[:stop]), b"".join(checks[:stop]), logical))
        del keys[:stop], checks[:stop], names[:stop]

    for some, values in found:
        report.matched += len(some)
        keys += some
        checks += read_checks(values)
        if writer.config.pattern is not None:
            names += map(read_logical_topic, values)
        while len(keys) >= DELETE_LIMITS.part_records:
            cut(DELETE_LIMITS.part_records)
    if keys:
        cut(len(keys))


def _append_deletions(
    session: WriteSession, writer: StoreWriter, selected: Spool, at: int, now: int, count: int
) -> None:
    """Append the ``count`` deletions as one group of any size; then apply them to the store in bounded transactions."""
    # Empties the memtable, so that memory holds only some batches of deletions.
    session.flush_forced()
    journal = session.journal
    # From the last append on the journal has the deletions: the store must get all of them, in order, or none.
    with session.guard_memtables():
        # The journal's lock is held, so the group gets consecutive txids from here on.
        txid = journal.last_txid
        client = session.instance.find_recorded_client()
        for number, part in enumerate(selected, 1):
            # Only the last batch may be marked as the end of the group. Until that mark is on disk, readers and
            # recovery treat the whole group as never written.
            keys, checks, names = part
            entries = build_deletions(writer.ref, keys, checks, at, names, client)
            journal.append_group(entries, now, last=number == len(selected))
            done = min(number * DELETE_LIMITS.part_records, count)
            session.instance.watch("deletions to journal", done, count)
        journal.sync()
        # Acknowledged. A crash between two transactions leaves the store at a txid within the group, and the next
        # writer continues from there.
        for part in selected:
            txid = _put_deletions(writer.memtable, part, txid, at)
            if writer.is_memtable_full():
                writer.flush_forced(AppliedPosition(journal.lineage, txid))
    session.flush_forced()


def _delete_from_store(writer: StoreWriter, selected: Spool, at: int) -> None:
    """Delete in one transaction: without a journal, this makes a delete atomic."""
    base, expired_at = writer.last_txid, writer.remove_expired_at

    # Run again if the file has to grow, so it changes nothing outside of itself.
    def run(txn: WriteTxn) -> None:
        # The store's writer lock is held, so these txids are not assigned twice.
        txid = base
        for part in selected:
            memtable = Memtable(history=writer.rule is not None)
            txid = _put_deletions(memtable, part, txid, at)
            apply_to_transaction(txn, memtable, base, writer.rule)
        txn.set_applied_position(NO_LINEAGE, txid)
        txn.raise_last_time(at)
        if expired_at is not None:
            remove_expired_batch(txn, expired_at)

    with add_replay_hint(writer.config):
        writer.store.write(run)
    writer.remove_expired_at = None
    writer.reload()


def _put_deletions(memtable: Memtable, part: tuple[Any, ...], txid: int, at: int) -> int:
    """Put deletions with the txids after ``txid`` into a memtable; return the last txid."""
    keys, checks = split_words(part[0]), split_words(part[1])
    last = txid + len(keys)
    memtable.put_deletions(keys, encode_tombstones(keys, checks, range(txid + 1, last + 1), repeat(at)))
    return last


def _read_named_keys(topic: TopicConfig, options: DeleteOptions, instance: Instance) -> list[bytes]:
    """Return the keys that SOW keys or messages name. Raises InputError ``SOW-DEL-004`` for a message without a key."""
    if (keys := read_key_options(options, Target(topic=topic), None)) is not None:
        return keys
    assert options.data is not None
    if topic.key_mode == "user":
        raise UsageError("SOW-DEL-005", f"keys of topic {topic.name!r} are not in its messages", hint="use --sow-key")
    preparer = Preparer(instance, topic, PublishOptions())
    if preparer.keys.chains is not None:
        raise UsageError(
            "SOW-DEL-006",
            f"topic {topic.name!r} has keys from chains, so messages do not identify records",
            hint="use --sow-key",
        )
    # Prepared as for a publish, so that a message deletes exactly the record that it would have written (behaviour
    # C29).
    ready, refused = preparer.prepare(options.data, None)
    if refused:
        raise InputError("SOW-DEL-004", f"message {refused[0].index + 1} identifies no record: {refused[0].message}")
    return list(map(digest_key, ready.digests))
