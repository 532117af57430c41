"""One topic of an instance as a program works on it: the verbs as methods.

A method calls the function of its verb, as the command line does. Most have the command's name; ``history`` is
:meth:`TopicHandle.versions` here, ``hash`` is :meth:`TopicHandle.digest`, ``query --explain`` is
:meth:`TopicHandle.explain`. Arguments are looked at before a store is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from sowctl.engine.api import keywords as words
from sowctl.engine.api.arguments import build_encoder, encode_payloads, format_keys, parse_instant, require_text
from sowctl.engine.api.result import Result
from sowctl.engine.options import (
    DeleteOptions,
    DiffOptions,
    PublishOptions,
    QueryOptions,
    ReplayOptions,
    SubscribeOptions,
    needs_reindex,
)
from sowctl.engine.topics.targets import Target, make_missing_error
from sowctl.errors import UsageError, convert_memory_errors
from sowctl.values.jsontree import convert_numbers

if TYPE_CHECKING:
    import os

    from sowctl.config.model import TopicConfig
    from sowctl.engine.api.arguments import At, Key, Message
    from sowctl.engine.api.differences import Differences
    from sowctl.engine.instance import Instance
    from sowctl.engine.maintenance.store_repair import StoreRepair
    from sowctl.engine.records import StoredRecord
    from sowctl.engine.reports import (
        CompactReport,
        DeleteReport,
        ExpireReport,
        PublishReport,
        ReindexReport,
        ReplayReport,
        TopicInfo,
    )
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.search.plan import Plan
    from sowctl.engine.sources.digest import Digest
    from sowctl.engine.verbs.check import CheckRun
    from sowctl.engine.verbs.inspect.blame import Blame
    from sowctl.engine.verbs.snapshot import SnapshotReport
    from sowctl.engine.verbs.subscribe import Subscription
    from sowctl.engine.writing.batches import MessageSource
    from sowctl.errors import SowError


@convert_memory_errors
class TopicHandle:
    """One topic of an instance. Every method opens what it needs and closes it again.

    Within the instance's ``with`` statement the store stays open for the next question, which spares a small one half
    of its time; others may write in between.
    """

    def __init__(self, instance: Instance, config: TopicConfig) -> None:
        self.instance = instance
        self.config = config

    def __repr__(self) -> str:
        kind = self.config.derived.kind if self.config.derived is not None else "Topic"
        return f"<{kind} {self.name!r} of type {self.config.message_type}>"

    @property
    def name(self) -> str:
        """The topic's name, or the logical topic's."""
        return self.config.label

    @property
    def target(self) -> Target:
        """The target that is read. Raises MissingError ``SOW-ENG-016`` where only the transaction log names the
        topic.
        """
        if self._is_log_only:
            raise make_missing_error(self.instance, self.config.name, self.config.message_type)
        return Target(topic=self.config)

    @property
    def _is_log_only(self) -> bool:
        return self.config.key_mode == "none" and self.config.derived is None

    @words.add_signature(words.PublishKeywords, PublishOptions)
    def publish(
        self,
        messages: Iterable[Message],
        options: PublishOptions | None = None,
        **keywords: Unpack[words.PublishKeywords],
    ) -> PublishReport:
        """Publish messages: a list of bytes, texts or dicts, or what yields them. Durable when this returns.

        Each row of a data frame or table of pandas, polars or pyarrow becomes a message, as with ``publish --from``.

        A dict becomes a message of the topic's type: sowctl-python(7) says which form its values get. ``keywords`` are
        fields of :class:`~sowctl.engine.options.PublishOptions`, which says what they mean: batch, batch_bytes, linger,
        on_error, max_errors, dry_run, expiration, sow_key, client, sequence, timestamp, timestamp_field,
        allow_null_key, allow_volatile, delta, delta_null, update_only. ``linger`` and ``expiration`` are seconds, a
        timedelta, or a text such as ``5m``; ``timestamp`` is a datetime or a text.

        Raises InputError (exit 3) at a bad message unless ``on_error="skip"``, TypeError for what is no message.
        """
        return publish_to_topic(self.instance, self.name, self.config.message_type, messages, options, keywords)

    @words.add_signature(words.QueryKeywords, QueryOptions)
    def query(self, filter: str | None = None, **keywords: Unpack[words.QueryKeywords]) -> Result:
        """Start a query. Ask the result for its ``records()``, ``to_dicts()``, ``to_arrow()`` or ``count()``.

        ``keywords`` are fields of :class:`~sowctl.engine.options.QueryOptions`, which says what they mean: order_by,
        top_n, skip_n, sow_keys (a list), at (as :meth:`get` takes it), select, batch_size, sort_memory,
        by_time, index_from, projection, grouping, after_key, jobs, counted, fresh, shown, unknown.
        """
        from sowctl.engine.verbs.query import start_query

        options = words.build_query_options(self.instance, filter, keywords)
        return Result(start_query(self.instance, [self.target], options), self.name)

    @words.add_signature(words.SubscribeKeywords, SubscribeOptions)
    def subscribe(self, filter: str | None = None, **keywords: Unpack[words.SubscribeKeywords]) -> Subscription:
        """Follow the topic: iterate for events (``for``, ``async for``), the records of one instant first.

        Use it in a ``with`` or ``async with`` statement; ``cancel()`` ends it, from another thread, too. Publishing to
        the topic is free with any event in hand: the records are read to the end before the first one is given.
        ``keywords`` are fields of :class:`~sowctl.engine.options.SubscribeOptions`, which says what they mean:
        order_by, top_n, skip_n, sow_keys (a list), select, sow, batch_size, query_id, until_now, lasting, most,
        progress_every, oof, delta, no_empties, send_keys, conflation, conflation_key, projection, grouping,
        bookmark, bookmark_not_found, rate, rate_max_gap, events. A datetime as ``bookmark`` is a time of the
        log.
        """
        from sowctl.engine.verbs.subscribe import subscribe_topics

        return subscribe_topics(self.instance, [self.config], words.build_subscribe_options(filter, keywords))

    @words.add_signature(words.QueryKeywords, QueryOptions)
    def explain(self, filter: str | None = None, **keywords: Unpack[words.QueryKeywords]) -> Plan:
        """Return the plan of a query with these options; it counts as asking for its fields. Options as for `query`."""
        from sowctl.engine.verbs.explain import explain_query
        from sowctl.engine.verbs.query import start_query

        options = words.build_query_options(self.instance, filter, keywords)
        return explain_query(lambda: start_query(self.instance, [self.target], options))[0]

    def get(self, *keys: Key, fields: bool = False, at: At | None = None) -> Iterator[StoredRecord]:
        """The records of SOW keys, else of key field texts (with ``fields`` these alone), in the order asked for.

        ``at`` is a datetime (UTC where it names no zone), microseconds since 1970 UTC, or a text as ``--at`` takes it:
        a time, a bookmark, or the txid of an entry.
        """
        from sowctl.engine.verbs.get import get_records

        texts = format_keys("keys", keys, "get(key)")
        batch, _ = get_records(self.instance, self.target, texts, fields=fields, at=parse_instant(self.instance, at))
        return iter(batch.records)

    def versions(self, *keys: Key, fields: bool = False, journal: bool = False) -> Iterator[VersionRecord]:
        """The versions of the records of SOW keys or key field texts, each key's oldest first."""
        from sowctl.engine.verbs.history import read_key_versions

        texts = format_keys("keys", keys, "versions(key)")
        batch, _ = read_key_versions(self.instance, self.target, texts, fields=fields, journal=journal)
        return iter(batch.records)

    def blame(self, *keys: Key, fields: bool = False, at: At | None = None) -> list[Blame]:
        """Of each field of the records of SOW keys or key field texts, the entry that last set it.

        The record is that of now or as of ``at`` (as :meth:`get` takes it); of one that is not there, ``gone`` and
        ``last`` tell why. Raises UsageError for views, and for topics without journal and history, and InputError
        ``SOW-QRY-025`` for a record with more than 500,000 members and objects.
        """
        from sowctl.engine.verbs.inspect.blame import find_origins

        texts = format_keys("keys", keys, "blame(key)")
        found = find_origins(self.instance, self.target, texts, fields=fields, at=parse_instant(self.instance, at))
        # The engine keeps numbers as texts, with all of their digits.
        return [
            replace(one, fields=[replace(origin, value=convert_numbers(origin.value)) for origin in one.fields])
            for one in found
        ]

    @words.add_signature(words.DiffKeywords, DiffOptions)
    def diff(
        self,
        other: TopicHandle | None = None,
        filter: str | None = None,
        *,
        at: At | None = None,
        other_at: At | None = None,
        **keywords: Unpack[words.DiffKeywords],
    ) -> Differences:
        """Compare this topic, now or as of ``at``, with ``other`` (default: this one), now or as of ``other_at``.

        ``other`` may be a topic of another instance. Times are as :meth:`get` takes them. ``keywords`` are fields of
        :class:`~sowctl.engine.options.DiffOptions`, which says what they mean: keys, fields, ignored, on, loose,
        stamps, records.

        Raises UsageError where the two sides are one state, or have no keys in common.
        """
        from sowctl.engine.api.differences import Differences
        from sowctl.engine.verbs.inspect.diff import DiffSide, compare_sides

        second = self if other is None else other
        options = words.build_diff_options(filter, keywords)
        before = DiffSide(
            self.instance, self.target, _format_side_name(self.name, at), parse_instant(self.instance, at)
        )
        after = DiffSide(
            second.instance,
            second.target,
            _format_side_name(second.name, other_at),
            parse_instant(second.instance, other_at),
        )
        if (before.instance, before.target, before.at) == (after.instance, after.target, after.at):
            raise UsageError(
                "SOW-DIF-005",
                "diff() requires something to compare with",
                hint="pass another topic, or a time: diff(at='-1h')",
            )
        return Differences(compare_sides(before, after, options))

    def delete(
        self,
        *,
        filter: str | None = None,
        sow_keys: Collection[Key] | None = None,
        data: Iterable[Message] | None = None,
        dry_run: bool = False,
    ) -> DeleteReport:
        """Delete records by exactly one selector: a filter, a list of SOW keys, or a list of messages with their keys.

        Durable when this returns. Raises TypeError for one text or message instead of a list.
        """
        from sowctl.engine.verbs.delete import delete_records

        options = DeleteOptions(
            require_text("filter", filter),
            format_keys("sow_keys", sow_keys, "delete(sow_keys=[key])") if sow_keys is not None else None,
            encode_payloads(data, self.instance.find_message_type(self.config.message_type))
            if data is not None
            else None,
            dry_run,
        )
        return delete_records(self.instance, [self.target], options)[0]

    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Remove what has expired."""
        from sowctl.engine.verbs.expire import expire_records

        return expire_records(self.instance, [self.config], dry_run=dry_run)[0]

    @words.add_signature(words.ReplayKeywords, ReplayOptions)
    def replay(self, **keywords: Unpack[words.ReplayKeywords]) -> ReplayReport:
        """Bring the store in line with the journals.

        ``keywords`` are fields of :class:`~sowctl.engine.options.ReplayOptions`, which says what they mean: until_txid,
        until_time (as :meth:`get` takes ``at``), into, journal, verify, rebuild, force, dry_run, rekey.
        """
        from sowctl.engine.verbs.replay import replay_topics

        return replay_topics(self.instance, [self.config], words.build_replay_options(self.instance, keywords))[0]

    def snapshot(self, path: str | os.PathLike[str], *, at: At | None = None, force: bool = False) -> SnapshotReport:
        """Write the state, of now or as of ``at`` (as :meth:`get` takes it), into the new store file ``path``.

        Raises RefusedError (exit 8) where there is a file, unless ``force``.
        """
        from sowctl.engine.verbs.snapshot import write_snapshot

        return write_snapshot(self.instance, self.target, parse_instant(self.instance, at), Path(path), force=force)

    def check(self) -> CheckRun:
        """Check the topic's store: iterate for findings, then ask for ``status``, ``report`` and ``coverage``."""
        from sowctl.engine.verbs.check import check_instance

        return check_instance(self.instance, [self.target])

    def reindex(self, *, drop: bool = False) -> ReindexReport:
        """Build the topic's memo indexes anew, or remove them."""
        from sowctl.engine.verbs.reindex import rebuild_indexes

        return rebuild_indexes(self.instance, [self.target], drop=drop)[0]

    def compact(self, *, dry_run: bool = False) -> CompactReport:
        """Put a copy without free pages in the place of the topic's store, while others use it."""
        from sowctl.engine.verbs.upkeep.compact import compact_stores

        for report in compact_stores(self.instance, [self.target], dry_run=dry_run):
            return report
        raise _build_no_store_error(self.config)

    def repair(self, *, earlier: bool = False, dry_run: bool = False) -> StoreRepair:
        """Save what is sound of a damaged store: its ``report``, and ``items()`` for what it lacked."""
        from sowctl.engine.verbs.upkeep.repair import repair_stores

        for done in repair_stores(self.instance, [self.target], earlier=earlier, dry_run=dry_run):
            return done
        raise _build_no_store_error(self.config)

    def digest(self, at: At | None = None) -> Digest:
        """The digest of the state, of now or as of ``at`` (as :meth:`get` takes it)."""
        from sowctl.engine.sources.digest import compute_digest
        from sowctl.engine.views.openers import open_target

        return compute_digest(self.instance, self.target, parse_instant(self.instance, at), open_target)

    def info(self) -> TopicInfo:
        """Sizes, counts and position."""
        from sowctl.engine.verbs.info import list_topic_info

        return list_topic_info(self.instance, [self.target])[0]


def publish_to_topic(
    instance: Instance,
    topic: str,
    message_type: str | None,
    messages: Iterable[Message],
    options: PublishOptions | None,
    keywords: words.PublishKeywords,
) -> PublishReport:
    """Publish messages to the topic of this name, as :meth:`TopicHandle.publish` does."""
    from sowctl.engine.topics.targets import find_publish_topic
    from sowctl.engine.verbs.publish import publish_messages
    from sowctl.engine.writing.batches import ListSource

    chosen = replace(options or PublishOptions(), **words.build_publish_changes(keywords))
    config = find_publish_topic(instance, topic, message_type)
    kind = instance.find_message_type(config.message_type)
    source: MessageSource
    if any(hasattr(messages, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")):
        from sowctl.arrow.message_encoder import find_root
        from sowctl.arrow.table_source import RowTarget, open_frame_source

        source = open_frame_source(
            "rows", messages, RowTarget(kind, find_root(config), by_user=config.key_mode == "user")
        )
    else:
        source = ListSource(messages, chosen.batch, encode=build_encoder(kind))
    report = publish_messages(instance, topic, [("messages", source)], chosen, message_type=message_type)
    loaded = [(row.topic, row.message_type, row.inserted + row.updated) for row in report.topics]
    if not chosen.dry_run and needs_reindex(loaded):
        from sowctl.engine.verbs.reindex import reindex_loaded

        reindex_loaded(instance, loaded)
    return report


def _format_side_name(name: str, at: At | None) -> str:
    """Format the name of a side of a comparison."""
    return name if at is None else f"{name}@{at}"


def _build_no_store_error(topic: TopicConfig) -> SowError:
    from sowctl.engine.topics.positions import make_no_store_error

    return make_no_store_error(topic)
