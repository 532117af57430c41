"""An instance as a program opens it, with access to its topics and queues."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from sowctl.engine.api.arguments import convert_interval, format_keys, format_time_text, parse_instant, require_text
from sowctl.engine.api.keyword_checks import check_keywords, choose_synonym
from sowctl.engine.api.queue import QueueHandle
from sowctl.engine.api.topic import TopicHandle, merge_publish_options, publish_to_topic
from sowctl.engine.instance import Instance
from sowctl.engine.options import PublishOptions, SubscribeOptions
from sowctl.engine.topics.targets import WITHOUT_SOW, find_publish_topic, find_topic
from sowctl.errors import MissingError, convert_memory_errors
from sowctl.remote.place import require_local_path

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.config.model import TopicConfig
    from sowctl.engine.api.arguments import At, Interval, Key, Messages
    from sowctl.engine.api.sql_result import SqlResult
    from sowctl.engine.options import DeltaNull, OnError
    from sowctl.engine.reports import ExportReport, PublishReport
    from sowctl.engine.sources.digest import CombinedDigest
    from sowctl.engine.subscriptions.bookmark_stores.place import SubscriptionPlace
    from sowctl.engine.verbs.check import CheckRun
    from sowctl.engine.verbs.snapshot import SnapshotReport
    from sowctl.engine.verbs.subscribe import Subscription


_MAX_SHOWN_TOPICS = 8
"""Maximum number of topic names in the instance's repr."""


class RowVerbs:
    """The verbs with which bookmark stores in topics write their rows; verbs are in a higher layer than the stores."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Publish one message; durable on return."""
        TopicHandle(instance, topic).publish([payload])

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Delete the record with the key of a message."""
        TopicHandle(instance, topic).delete(data=[payload])


@convert_memory_errors
class InstanceHandle(Instance, frozen=True):
    """An instance, and access to its topics; :meth:`Instance.open` describes how to open it."""

    lasting: ClassVar[bool] = True

    def __repr__(self) -> str:
        if self.config is None:
            return "<instance without a configuration>"
        names = [entry.name for entry in self.config.sow]
        told = ", ".join(names[:_MAX_SHOWN_TOPICS]) + (
            f" and {len(names) - _MAX_SHOWN_TOPICS} more" if len(names) > _MAX_SHOWN_TOPICS else ""
        )
        return f"<instance {self.config.name!r} of {str(self.config.path)!r}: {told}>"

    def __dir__(self) -> list[str]:
        """Return the names that are meant for programs; others belong to the engine."""
        own = [name for name in vars(InstanceHandle) if not name.startswith("_") and name != "lasting"]
        return sorted([*own, "close", "config"])

    def topic(self, name: str, message_type: str | None = None) -> TopicHandle:
        """Return the verbs of one topic, or of a view, which rejects those that write.

        A topic that only the transaction log names supports publish and subscribe. Raises MissingError (exit 10) and
        UsageError (exit 2, ambiguous).
        """
        try:
            return TopicHandle(self, find_topic(self, name, message_type, derived=True))
        except MissingError as problem:
            if problem.code != WITHOUT_SOW:
                raise
            return TopicHandle(self, find_publish_topic(self, name, message_type))

    @check_keywords
    def publish(
        self,
        topic: str,
        messages: Messages,
        options: PublishOptions | None = None,
        *,
        batch: int | None = None,
        batch_bytes: int = 1 << 20,
        linger: Interval | None = None,
        on_error: OnError = "stop",
        max_errors: int | None = None,
        dry_run: bool = False,
        expiration: Interval | None = None,
        sow_key: str | None = None,
        client: str | None = None,
        sequence: int | None = None,
        timestamp: datetime | str | None = None,
        timestamp_field: str | None = None,
        allow_null_key: bool = False,
        allow_volatile: bool = False,
        delta: bool = False,
        delta_null: DeltaNull = "ignore",
        update_only: bool = False,
        skip_unchanged: bool = False,
        replace_all: bool = False,
        force: bool = False,
    ) -> PublishReport:
        """Publish to a topic by its name, including one that only the transaction log names or that matches a pattern
        of it.

        Otherwise as :meth:`TopicHandle.publish`.
        """
        given = PublishOptions(
            batch=batch,
            batch_bytes=batch_bytes,
            linger=convert_interval("linger", linger),
            on_error=on_error,
            max_errors=max_errors,
            dry_run=dry_run,
            expiration=convert_interval("expiration", expiration),
            sow_key=sow_key,
            client=client,
            sequence=sequence,
            timestamp=format_time_text("timestamp", timestamp),
            timestamp_field=timestamp_field,
            allow_null_key=allow_null_key,
            allow_volatile=allow_volatile,
            delta=delta,
            delta_null=delta_null,
            update_only=update_only,
            skip_unchanged=skip_unchanged,
            replace_all=replace_all,
            force=force,
        )
        return publish_to_topic(self, topic, None, messages, merge_publish_options(options, given))

    def queue(self, name: str, message_type: str | None = None) -> QueueHandle:
        """Return a queue; close it after use, or use it in a ``with`` statement. Raises MissingError (exit 10)."""
        from sowctl.engine.queues.definition import find_queue
        from sowctl.engine.queues.queue import OpenQueue

        return QueueHandle(OpenQueue(self, find_queue(self, name, message_type)))

    @check_keywords
    def subscribe(
        self,
        target: str,
        filter: str | None = None,
        *,
        order_by: str | None = None,
        top_n: int | None = None,
        limit: int | None = None,
        skip_n: int | None = None,
        offset: int | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        select: str | None = None,
        sow: bool = True,
        batch_size: int = 1,
        query_id: str | None = None,
        until_now: bool = False,
        lasting: Interval | None = None,
        most: int | None = None,
        progress_every: Interval | None = None,
        oof: bool = False,
        deletes: bool = False,
        delta: bool = False,
        no_empties: bool = False,
        send_keys: bool = False,
        conflation: str | None = None,
        conflation_key: str | None = None,
        projection: str | None = None,
        grouping: str | None = None,
        bookmark: datetime | str | None = None,
        bookmark_not_found: str | None = None,
        rate: str | None = None,
        rate_max_gap: Interval | None = None,
        events: bool = True,
    ) -> Subscription:
        """Follow a topic, or all topics that match a pattern; see :meth:`TopicHandle.subscribe`."""
        from sowctl.engine.topics.targets import build_new_topic_resolver, resolve_followed_topics
        from sowctl.engine.verbs.subscribe import subscribe_topics

        options = SubscribeOptions(
            filter=require_text("filter", filter),
            order_by=order_by,
            top_n=choose_synonym(("top_n", "limit"), top_n, limit),
            skip_n=choose_synonym(("skip_n", "offset"), skip_n, offset),
            sow_keys=format_keys("sow_keys", sow_keys, "subscribe(sow_keys=[key])"),
            keys=format_keys("keys", keys, "subscribe(keys=[value])"),
            select=select,
            sow=sow,
            batch_size=batch_size,
            query_id=query_id,
            until_now=until_now,
            lasting=convert_interval("lasting", lasting),
            most=most,
            progress_every=convert_interval("progress_every", progress_every),
            oof=oof,
            deletes=deletes,
            delta=delta,
            no_empties=no_empties,
            send_keys=send_keys,
            conflation=conflation,
            conflation_key=conflation_key,
            projection=projection,
            grouping=grouping,
            bookmark=format_time_text("bookmark", bookmark),
            bookmark_not_found=bookmark_not_found,
            rate=rate,
            rate_max_gap=convert_interval("rate_max_gap", rate_max_gap),
            events=events,
        )
        topics = resolve_followed_topics(self, target, replayed=options.bookmark is not None)
        return subscribe_topics(self, topics, options, joining=build_new_topic_resolver(self, target))

    @check_keywords
    def sql(self, statement: str, *, allow_files: bool = False) -> SqlResult:
        """Run a statement of SQL on topics, histories and the journal, with DuckDB (extra ``sql``).

        Tables are those of ``sowctl sql``: topics and views by name, ``"NAME@TIME"``, ``"NAME@history"`` and
        ``journal``. Of several statements, one may return rows. Stores and journals are never changed. ``allow_files``
        lets statements read and write files and attach databases.

        Raises UsageError ``SOW-EXC-020`` for an invalid statement, MissingPackageError ``SOW-EXC-001`` without DuckDB
        or pyarrow.
        """
        from sowctl.engine.api.sql_result import run_sql

        if not isinstance(statement, str):
            raise TypeError(f"statement must be a str, not {type(statement).__name__}")
        return run_sql(self, statement, allow_files=allow_files)

    def place(self, store: str, client: str, sub_id: str, *, every: float = 1.0) -> SubscriptionPlace:
        """Return a subscription's position in a bookmark store: a topic, or a file with the ending ``.bookmarks``.

        Subscribe with its ``recent`` as the bookmark, iterate over its ``events(subscription)``, and ``acknowledge``
        each processed event. The position is stored every ``every`` seconds, and when it is closed.
        """
        from sowctl.engine.subscriptions.bookmark_stores.place import SubscriptionPlace
        from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber
        from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store

        return SubscriptionPlace(open_bookmark_store(self, store, RowVerbs()), Subscriber(client, sub_id), self, every)

    @check_keywords
    def export(
        self,
        path: str | os.PathLike[str],
        target: str | None = None,
        filter: str | None = None,
        *,
        format: str | None = None,
        at: At | None = None,
        meta: bool = False,
        overwrite: bool = False,
        add: bool = False,
    ) -> list[ExportReport]:
        """Write topics to files, as the command ``export`` does.

        ``path`` is a directory, which gets a file ``TOPIC.FORMAT`` for each topic (``format``: default ndjson), a name
        with ``{topic}`` in it, or a database, .sqlite or .duckdb, which gets a table for each. ``target`` is a pattern
        of names; default: all topics, views and queues. ``at``: all as of one instant, as for :meth:`TopicHandle.get`,
        without queues; the other options are those of :meth:`TopicHandle.export`.

        Raises as :meth:`TopicHandle.export`, and UsageError ``SOW-EXC-013`` for several topics and a file for one
        topic.
        """
        from sowctl.engine.api.export_file import ExportOptions, export_targets, select_exported
        from sowctl.engine.options import QueryOptions
        from sowctl.engine.topics.targets import resolve_targets

        targets = resolve_targets(self, ".*" if target is None else target, derived=True)
        options = QueryOptions(
            filter=require_text("filter", filter), at=parse_instant(self, at), by_time=meta, counted=False
        )
        writing = ExportOptions(meta=meta, overwrite=overwrite, add=add)
        targets = select_exported(self, targets, options.at)
        return export_targets(self, targets, os.fspath(path), options, writing, format)

    @check_keywords
    def snapshot(
        self,
        directory: str | os.PathLike[str],
        target: str | None = None,
        *,
        filter: str | None = None,
        at: At | None = None,
        force: bool = False,
    ) -> list[SnapshotReport]:
        """Write the states of topics, all as of one instant, to new store files ``NAME.TYPE.sow`` in ``directory``.

        ``target`` is a pattern of names; default: all topics. A pattern with several matches omits views and other
        derived topics. Raises RefusedError (exit 8) if one of the files exists, unless ``force``.
        """
        from sowctl.engine.topics.targets import Target, resolve_targets
        from sowctl.engine.verbs.snapshot import write_snapshots

        targets = [Target(topic=one) for one in self.topics] if target is None else resolve_targets(self, target)
        when = parse_instant(self, at)
        place = require_local_path(os.fspath(directory))
        return write_snapshots(self, targets, when, place, filter=require_text("filter", filter), force=force)

    @check_keywords
    def digest(self, at: At | None = None, *, payloads: bool = False) -> CombinedDigest:
        """Return the digest of all topics together, and the digest of each, now or as of ``at``.

        ``payloads``: of keys and payloads only, without timestamps, txids, expirations and versions. Views and other
        derived topics are omitted.
        """
        from sowctl.engine.sources.digest import combine_digests, compute_digest
        from sowctl.engine.topics.targets import Target
        from sowctl.engine.views.openers import open_target

        when = parse_instant(self, at)
        return combine_digests(
            [
                (one.label, compute_digest(self, Target(topic=one), when, open_target, payloads=payloads))
                for one in self.topics
            ]
        )

    def check(self) -> CheckRun:
        """Check all stores and the journal: iterate for findings, then read ``status``, ``report``, ``coverage``."""
        from sowctl.engine.verbs.check import check_instance

        return check_instance(self)
