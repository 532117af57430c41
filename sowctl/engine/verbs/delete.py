"""delete: records by filter, by SOW key, or by messages with their keys (``behaviour`` 1.4).

Whatever selected them, the journal gets the keys, in one group per topic: a replay deletes exactly the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.fold.apply import into_store
from sowctl.engine.fold.blocks import Deletions, deletion_group, tombstones
from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.fold.removal import remove_expired
from sowctl.engine.fold.spill import Spool
from sowctl.engine.options import DeleteOptions, PublishOptions
from sowctl.engine.reports import DeleteReport
from sowctl.engine.search.keytext import keys_of
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.search.scan import way_of
from sowctl.engine.sources.logical import chosen, narrowed
from sowctl.engine.sources.opening import open_now
from sowctl.engine.topics.positions import naming_replay
from sowctl.engine.topics.targets import Target, with_records
from sowctl.engine.writing.prepare import Preparer
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import InputError, UsageError
from sowctl.store.codec import KEY_CHECK_SLICE, logical_topic
from sowctl.store.meta import NO_LINEAGE

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.sources.source import Matched
    from sowctl.engine.writing.topicwriter import StoreWriter
    from sowctl.store.write import WriteTxn

SCAN_BATCH = 1000
PART = 16 << 10
"""Records deleted at once: so many whole blocks of the journal, and what an overlay gets before it may be applied."""


def delete(instance: Instance, targets: Sequence[Target], options: DeleteOptions) -> list[DeleteReport]:
    """Delete from every target what the one selector of ``options`` names; a key that is not there is no error (C30).

    Of several targets those without any record yet are left out.

    Raises UsageError ``SOW-DEL-001`` unless exactly one selector is given (C31), ``SOW-DEL-002`` for a bare file, and
    what stores and journals raise.
    """
    chosen = [s for s in (options.filter, options.sow_keys, options.data) if s is not None]
    if len(chosen) != 1:
        raise UsageError(
            "SOW-DEL-001",
            "a delete requires exactly one of a filter, SOW keys, and data",
            hint="use --filter, --sow-key or --data",
        )
    # An empty variable in a script is more likely than a wish to delete everything.
    if options.filter is not None and not options.filter.strip():
        raise UsageError(
            "SOW-DEL-003", "an empty filter would delete everything", hint="to delete all records, use --filter '1=1'"
        )
    topics = []
    for target in with_records(instance, targets):
        if target.topic is None:
            raise UsageError("SOW-DEL-002", "a .sow file without a configuration cannot be changed")
        topics.append(target.topic)
    kinds = [instance.type_of(topic.message_type) for topic in topics]
    environment = environment_of(instance) if options.filter is not None else None
    functions = functions_of(instance) if options.filter is not None else None
    matchers = [
        Matcher(options.filter, kind, topic.name, environment, functions=functions)
        for kind, topic in zip(kinds, topics, strict=True)
    ]
    # Without locks and without opening for writing: a dry run leaves no trace.
    if options.dry_run:
        return [_look(instance, topic, matcher, options) for topic, matcher in zip(topics, matchers, strict=True)]
    with WriteSession(instance) as session:
        reports = []
        for topic, matcher in zip(topics, matchers, strict=True):
            writer = session.store(topic)
            # One topic at a time: no lock is held while another topic's records are compared.
            with session.batch([writer]):
                reports.append(_delete(session, writer, topic, matcher, options))
                session.apply(force=True)
        return reports


def _look(instance: Instance, topic: TopicConfig, matcher: Matcher, options: DeleteOptions) -> DeleteReport:
    report = DeleteReport(topic.label, topic.message_type, dry_run=True)
    with closing(open_now(instance, Target(topic=topic))) as source:
        if options.filter is not None:
            for keys, _ in _matching(instance, source, topic, matcher, report):
                report.matched += len(keys)
        else:
            keys, _ = narrowed(source, topic).lookup(_named(topic, options, instance))
            report.examined = report.matched = len(keys)
    return report


def _matching(
    instance: Instance, source: CurrentSource, topic: TopicConfig, matcher: Matcher, report: DeleteReport
) -> Iterator[Matched]:
    """The records that the filter selects, by the way that a query would take."""
    # Indexes know no logical topics, so a part of a Pattern topic is read whole.
    way = way_of(instance, source, matcher) if topic.logical is None else None
    if way is not None:
        report.examined += source.visible_records()
        yield from way.matching(SCAN_BATCH)
        return
    for keys, values in narrowed(source, topic).batches(SCAN_BATCH):
        report.examined += len(keys)
        places = matcher.places(keys, values)
        yield [keys[place] for place in places], [values[place] for place in places]


def _delete(
    session: WriteSession, writer: StoreWriter, topic: TopicConfig, matcher: Matcher, options: DeleteOptions
) -> DeleteReport:
    """Select and delete under the locks of one batch, so that what was compared is what is deleted."""
    instance = session.instance
    report = DeleteReport(topic.label, topic.message_type)
    now = instance.now
    with Spool(Path(writer.store.path).parent) as selected:
        # Everything is selected before anything is deleted: a filter that fails on some record has deleted nothing.
        if options.filter is not None:
            with writer.source(now) as source:
                _keep(_matching(instance, source, topic, matcher, report), writer, report, selected)
        else:
            _keep(_present(instance, writer, topic, options, now), writer, report, selected)
            report.examined = report.matched
        if not report.matched:
            return report
        # Time within a topic never goes back, also for deletions (behaviour 11.41).
        at = max(now, writer.last_time)
        if writer.journalled:
            _into_journal(session, writer, selected, at, now, report.matched)
        else:
            _into_store(writer, selected, at)
    report.deleted = report.matched
    return report


def _present(
    instance: Instance, writer: StoreWriter, topic: TopicConfig, options: DeleteOptions, now: int
) -> Iterator[Matched]:
    """The records of the keys that are named, in key order; one without a record is no error (behaviour C30)."""
    named = sorted(set(_named(topic, options, instance)))
    for start in range(0, len(named), SCAN_BATCH):
        stored = writer.stored(named[start : start + SCAN_BATCH], now)
        keys = sorted(stored)
        found = keys, [stored[key] for key in keys]
        yield chosen(topic.logical)(found) if topic.logical is not None else found


def _keep(found: Iterable[Matched], writer: StoreWriter, report: DeleteReport, selected: Spool) -> None:
    """Keep of the records ``found`` what their deletion takes, in parts of :data:`PART` of them, and count them."""
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
        checks += [value[KEY_CHECK_SLICE] for value in values]
        if writer.config.pattern is not None:
            names += map(logical_topic, values)
        while len(keys) >= PART:
            cut(PART)
    if keys:
        cut(len(keys))


def _into_journal(session: WriteSession, writer: StoreWriter, selected: Spool, at: int, now: int, count: int) -> None:
    """The ``count`` deletions as one group, however large; then the store follows in transactions of bounded size."""
    # The overlay is empty then, so memory holds no more than some parts of what is deleted.
    session.apply(force=True)
    journal = session.journal
    # From the last append on the journal has the deletions: the store must get all of them, in order, or none.
    with session.noting():
        # The journal's lock is held, so the group gets the txids from here on without a gap.
        txid = journal.last_txid
        for number, part in enumerate(selected, 1):
            # Only the last part may be marked as the end of the group. Until that mark is on disk, readers and recovery
            # take the whole group for one that was never written.
            group = deletion_group(writer.ref, Deletions(*part), at)
            journal.append(group, now, last=number == len(selected))
            done = min(number * PART, count)
            session.instance.watch("deletions to journal", done, count)
        journal.sync()
        # Acknowledged. A crash between two transactions leaves the store at a txid within the group, and the next
        # writer goes on from there.
        for part in selected:
            txid = _into_overlay(writer.overlay, Deletions(*part), txid, at)
            if writer.is_full():
                writer.apply(journal.lineage, txid)
    session.apply(force=True)


def _into_store(writer: StoreWriter, selected: Spool, at: int) -> None:
    """One transaction: without a journal, that is what makes a delete all or nothing."""
    base, expired_at = writer.last_txid, writer.remove_expired_at

    # It is run once more where the file has to grow, so it changes nothing outside of itself.
    def run(txn: WriteTxn) -> None:
        # The store's writer lock is held, so these txids are not given twice.
        txid = base
        for part in selected:
            overlay = Overlay(history=writer.rule is not None)
            txid = _into_overlay(overlay, Deletions(*part), txid, at)
            into_store(txn, overlay, base, writer.rule)
        txn.set_applied(NO_LINEAGE, txid)
        txn.raise_last_time(at)
        if expired_at is not None:
            remove_expired(txn, expired_at)

    with naming_replay(writer.config):
        writer.store.write(run)
    writer.remove_expired_at = None
    writer.reload()


def _into_overlay(overlay: Overlay, part: Deletions, txid: int, at: int) -> int:
    """Put deletions, which have the txids behind ``txid``, into an overlay; returns the last one's txid."""
    keys, checks = part.split()
    last = txid + len(keys)
    overlay.delete(keys, tombstones(keys, checks, range(txid + 1, last + 1), repeat(at)))
    return last


def _named(topic: TopicConfig, options: DeleteOptions, instance: Instance) -> list[bytes]:
    """The keys that SOW keys or messages name. Raises InputError ``SOW-DEL-004`` for a message without a key."""
    if options.sow_keys is not None:
        return keys_of(options.sow_keys, topic)
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
    return [digest[:8] for digest in ready.digests]
