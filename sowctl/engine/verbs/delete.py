"""delete: records by filter, by SOW key, or by messages with their keys (``behaviour`` 1.4).

Whatever selected them, the journal gets the keys, in one group per topic: a replay deletes exactly the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.fold.blocks import deletions, tombstone
from sowctl.engine.options import DeleteOptions, PublishOptions
from sowctl.engine.reports import DeleteReport
from sowctl.engine.search.keytext import keys_of
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.search.scan import way_of
from sowctl.engine.sources.logical import chosen, narrowed
from sowctl.engine.sources.opening import open_now
from sowctl.engine.topics.targets import Target, with_records
from sowctl.engine.writing.prepare import Preparer
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import InputError, UsageError
from sowctl.store.codec import CHECK
from sowctl.store.meta import NO_LINEAGE

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.sources.source import Matched
    from sowctl.engine.writing.topicwriter import StoreWriter

SCAN_BATCH = 1000


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
            "a delete takes exactly one of a filter, SOW keys, and data",
            hint="use --filter, --sow-key or --data",
        )
    # An empty variable in a script is more likely than a wish to delete everything.
    if options.filter is not None and not options.filter.strip():
        raise UsageError("SOW-DEL-003", "an empty filter would delete everything", hint="write --filter '1=1' for that")
    topics = []
    for target in with_records(instance, targets):
        if target.topic is None:
            raise UsageError("SOW-DEL-002", "a bare .sow file cannot be changed: deleting needs its configuration")
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
    found: list[tuple[bytes, bytes]] = []
    if options.filter is not None:
        with writer.source(now) as source:
            for keys, values in _matching(instance, source, topic, matcher, report):
                found.extend(zip(keys, values, strict=True))
    else:
        # Keys without a record match nothing, which is no error (behaviour C30).
        stored = writer.stored(_named(topic, options, instance), now)
        found = [(key, stored[key]) for key in sorted(stored)]
        if topic.logical is not None and found:
            keys, values = chosen(topic.logical)(([key for key, _ in found], [value for _, value in found]))
            found = list(zip(keys, values, strict=True))
        report.examined = len(found)
    report.matched = len(found)
    if not found:
        return report
    # Time within a topic never goes back, also for deletions (behaviour 11.41).
    at = max(now, writer.last_time)
    # From the append on the journal has the deletions: the overlay must get all of them, or nothing may be applied.
    with session.noting():
        if writer.journalled:
            first = session.append(deletions(writer.ref, found, at, logical=writer.config.pattern is not None), now)
        else:
            # The store's writer lock is held, so these txids are not given twice.
            first = writer.last_txid + 1
        for offset, (key, value) in enumerate(found):
            writer.overlay.delete(key, tombstone(key, value[CHECK], first + offset, at))
    writer.last_txid, writer.last_time = writer.overlay.last_txid, writer.overlay.last_time
    if not writer.journalled:
        writer.apply(NO_LINEAGE, writer.last_txid)
    report.deleted = len(found)
    return report


def _named(topic: TopicConfig, options: DeleteOptions, instance: Instance) -> list[bytes]:
    """The keys that SOW keys or messages name. Raises InputError ``SOW-DEL-004`` for a message without a key."""
    if options.sow_keys is not None:
        return keys_of(options.sow_keys, topic)
    assert options.data is not None
    if topic.key_mode == "user":
        raise UsageError("SOW-DEL-005", f"topic {topic.name!r} takes no keys from messages", hint="use --sow-key")
    preparer = Preparer(instance, topic, PublishOptions())
    if preparer.keys.chains is not None:
        raise UsageError(
            "SOW-DEL-006", f"topic {topic.name!r} has chains, of which any value would do", hint="use --sow-key"
        )
    # Prepared as for a publish, so that a message deletes exactly the record that it would have written (behaviour
    # C29).
    ready, refused = preparer.prepare(options.data, None)
    if refused:
        raise InputError("SOW-DEL-004", f"message {refused[0].index + 1} names no record: {refused[0].message}")
    return [digest[:8] for digest in ready.digests]
