"""What ``sowctl.open`` gives a program: an instance whose topics have verbs as methods.

A method calls the function of its verb, as the command line does. Most have the command's name; ``history`` is
:meth:`TopicHandle.versions` here, ``hash`` is :meth:`TopicHandle.digest`, ``query --explain`` is
:meth:`TopicHandle.explain`. Without a method are ``key``, ``eval`` and the ``journal`` commands, whose functions stand
in ``engine/verbs``. Nothing in the engine imports this module, because it imports the verbs.

Arguments are looked at before a store is opened: a text where a list of texts belongs would be taken for its letters,
and would match nothing without a word. What is of a wrong type raises TypeError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from sowctl.engine.instance import Instance
from sowctl.engine.options import DeleteOptions, PublishOptions, QueryOptions
from sowctl.engine.topics.targets import Target, find_topic

if TYPE_CHECKING:
    import os
    from contextlib import AbstractContextManager
    from typing import Self

    from sowctl.config.model import TopicConfig
    from sowctl.engine.following.stores.place import Place
    from sowctl.engine.queues.figures import Depth, QueueInfo
    from sowctl.engine.queues.handles import Handle, Outcome
    from sowctl.engine.queues.queue import OpenQueue, QueueMessage
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
    from sowctl.engine.upkeep.repairing import StoreRepair
    from sowctl.engine.verbs.check import CheckRun
    from sowctl.engine.verbs.query import QueryResult
    from sowctl.engine.verbs.snapshot import SnapshotReport
    from sowctl.engine.verbs.subscribe import Subscription
    from sowctl.errors import SowError


class RowVerbs:
    """How bookmark stores in topics write their rows: by the verbs, which stand above the room of the stores."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Publish one message; durable when this returns."""
        TopicHandle(instance, topic).publish([payload])

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Delete the record whose key a message has."""
        TopicHandle(instance, topic).delete(data=[payload])


class InstanceHandle(Instance, frozen=True):
    """An instance, and a way to its topics; :meth:`Instance.open` says how it is opened."""

    lasting: ClassVar[bool] = True

    def topic(self, name: str, message_type: str | None = None) -> TopicHandle:
        """The verbs of one topic, or of a view, which refuses those that write.

        Raises MissingError (exit 10) and UsageError (exit 2, ambiguous).
        """
        return TopicHandle(self, find_topic(self, name, message_type, derived=True))

    def queue(self, name: str, message_type: str | None = None) -> QueueHandle:
        """A queue, to be closed after use or used in a ``with`` statement. Raises MissingError (exit 10)."""
        from sowctl.engine.queues.definition import find_queue
        from sowctl.engine.queues.queue import OpenQueue

        return QueueHandle(OpenQueue(self, find_queue(self, name, message_type)))

    def subscribe(self, target: str, filter: str | None = None, **changes: Any) -> Subscription:
        """Follow a topic, or all topics that a pattern matches; see :meth:`TopicHandle.subscribe`."""
        from sowctl.engine.topics.targets import followed, joining
        from sowctl.engine.verbs.subscribe import SubscribeOptions, subscribe

        options = SubscribeOptions(filter=filter, **changes)
        topics = followed(self, target, replayed=options.bookmark is not None)
        return subscribe(self, topics, options, joining=joining(self, target))

    def place(self, store: str, client: str, sub_id: str, *, every: float = 1.0) -> Place:
        """Where a subscription goes on, in a bookmark store: a topic, or a file with the ending ``.bookmarks``.

        Subscribe with its ``recent`` for a bookmark, iterate over its ``events(subscription)``, and ``acknowledge``
        each event that is processed. It is written every so many seconds, and when it is closed.
        """
        from sowctl.engine.following.stores.opening import open_store
        from sowctl.engine.following.stores.place import Place
        from sowctl.engine.following.stores.protocol import Subscriber

        return Place(open_store(self, store, RowVerbs()), Subscriber(client, sub_id), self, every)

    def check(self) -> CheckRun:
        """Check all stores and the journal: iterate for findings, then ask for ``status``, ``report``, ``coverage``."""
        from sowctl.engine.verbs.check import check

        return check(self)


def _no_store(topic: TopicConfig) -> SowError:
    from sowctl.engine.topics.positions import no_store

    return no_store(topic)


def _keys(what: str, keys: Collection[str | int], call: str) -> tuple[str, ...]:
    """The texts of ``keys``, which are texts or the ints that records have as ``sow_key``.

    Raises TypeError that says how to ``call``.
    """
    if isinstance(keys, str | bytes | bytearray | memoryview) or not isinstance(keys, Collection):
        raise TypeError(f"{what} are a list, not {type(keys).__name__}: {call}")
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise TypeError(f"each of {what} is a text or the int of a SOW key, not {type(key).__name__}")
    return tuple(map(str, keys))


def _payloads(messages: Iterable[bytes]) -> tuple[bytes, ...]:
    """The messages if they are a list of bytes. Raises TypeError as :meth:`TopicHandle.publish` does."""
    from sowctl.engine.writing.batching import Listed

    source = Listed(messages, call="delete(data=[message])")
    taken: list[bytes] = []
    while (chunk := source.poll()) is not None:
        taken += chunk.payloads
    return tuple(taken)


class TopicHandle:
    """One topic of an instance. Every method opens what it needs and closes it again.

    Within the instance's ``with`` statement the store stays open for the next question, which spares a small one half
    of its time; others may write in between.
    """

    def __init__(self, instance: Instance, config: TopicConfig) -> None:
        self.instance = instance
        self.config = config
        self.target = Target(topic=config)

    @property
    def name(self) -> str:
        """The topic's name, or the logical topic's."""
        return self.config.label

    def _at(self, at: int | str | None) -> int | None:
        """An instant in microseconds UTC; of a text what ``--at`` makes of it. Raises TypeError and UsageError."""
        if isinstance(at, str):
            from sowctl.engine.topics.logplaces import read_moment

            return read_moment(at, self.instance.clock).of(self.instance)
        # True would be the first microsecond of 1970.
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            kind = type(at).__name__
            raise TypeError(f"at is microseconds since 1970 (int) or a text such as '2026-01-05T10:00:00Z', not {kind}")
        return at

    def publish(
        self, messages: Iterable[bytes], options: PublishOptions | None = None, **changes: Any
    ) -> PublishReport:
        """Publish payloads, a list of bytes or what yields them. Durable when this returns.

        ``changes`` are fields of :class:`~sowctl.engine.options.PublishOptions`, which says what they mean: batch,
        batch_bytes, linger, on_error, max_errors, dry_run, expiration, sow_key, client, sequence, timestamp,
        timestamp_field, allow_null_key, allow_volatile, delta, delta_null, update_only.

        Raises InputError (exit 3) at a bad message unless ``on_error="skip"``, TypeError for what is no bytes.
        """
        from sowctl.engine.verbs.publish import publish
        from sowctl.engine.writing.batching import Listed

        chosen = replace(options or PublishOptions(), **changes)
        source = Listed(messages, chosen.batch)
        return publish(self.instance, self.name, [("messages", source)], chosen, message_type=self.config.message_type)

    def query(self, filter: str | None = None, **changes: Any) -> QueryResult:
        """Start a query. Iterate the result for batches, or its ``records()``, or ask for its ``count()``.

        ``changes`` are fields of :class:`~sowctl.engine.options.QueryOptions`, which says what they mean: order_by,
        top_n, skip_n, sow_keys (a list), at (as :meth:`get` takes it), select, batch_size, sort_memory,
        by_time, index_from, projection, grouping, after_key, jobs, counted, fresh.
        """
        from sowctl.engine.verbs.query import query

        return query(self.instance, [self.target], self._query_options(filter, changes))

    def subscribe(self, filter: str | None = None, **changes: Any) -> Subscription:
        """Follow the topic: iterate for events (``for``, ``async for``), the records of one instant first.

        Use it in a ``with`` statement; ``cancel()`` ends it, from another thread, too. Publishing to the topic is free
        with any event in hand: the records are read to the end before the first one is given. ``changes`` are fields of
        :class:`~sowctl.engine.options.SubscribeOptions`, which says what they mean: order_by, top_n, skip_n, select,
        sow, batch_size, query_id, until_now, lasting, most, progress_every, oof, delta, no_empties, send_keys,
        conflation, conflation_key, bookmark, bookmark_not_found, rate, rate_max_gap, events.
        """
        from sowctl.engine.verbs.subscribe import SubscribeOptions, subscribe

        return subscribe(self.instance, [self.config], SubscribeOptions(filter=filter, **changes))

    def explain(self, filter: str | None = None, **changes: Any) -> Plan:
        """How a query with these options would be read; it counts as asking for its fields. Options as for `query`."""
        from sowctl.engine.verbs.explain import explain
        from sowctl.engine.verbs.query import query

        options = self._query_options(filter, changes)
        return explain(lambda: query(self.instance, [self.target], options))[0]

    def _query_options(self, filter: str | None, changes: dict[str, Any]) -> QueryOptions:
        options = QueryOptions(filter=filter, **changes)
        keys = options.sow_keys
        if keys is not None:
            keys = _keys("sow_keys", keys, "query(sow_keys=[key])")
        return replace(options, sow_keys=keys, at=self._at(options.at))

    def get(self, *keys: str | int, fields: bool = False, at: int | str | None = None) -> Iterator[StoredRecord]:
        """The records of SOW keys, else of key field texts (with ``fields`` these alone), in the order asked for.

        ``at`` is an instant in microseconds since 1970 UTC, or a text as ``--at`` takes it: a time, a bookmark, or the
        txid of an entry.
        """
        from sowctl.engine.verbs.get import get

        texts = _keys("keys", keys, "get(key)")
        batch, _ = get(self.instance, self.target, texts, fields=fields, at=self._at(at))
        return iter(batch.records)

    def versions(self, *keys: str | int, fields: bool = False, journal: bool = False) -> Iterator[VersionRecord]:
        """The versions of the records of SOW keys or key field texts, each key's oldest first."""
        from sowctl.engine.verbs.history import versions

        texts = _keys("keys", keys, "versions(key)")
        batch, _ = versions(self.instance, self.target, texts, fields=fields, journal=journal)
        return iter(batch.records)

    def delete(
        self,
        *,
        filter: str | None = None,
        sow_keys: Collection[str | int] | None = None,
        data: Iterable[bytes] | None = None,
        dry_run: bool = False,
    ) -> DeleteReport:
        """Delete records by exactly one selector: a filter, a list of SOW keys, or a list of messages with their keys.

        Durable when this returns. Raises TypeError for one text or message instead of a list.
        """
        from sowctl.engine.verbs.delete import delete

        options = DeleteOptions(
            filter,
            _keys("sow_keys", sow_keys, "delete(sow_keys=[key])") if sow_keys is not None else None,
            _payloads(data) if data is not None else None,
            dry_run,
        )
        return delete(self.instance, [self.target], options)[0]

    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Remove what has expired."""
        from sowctl.engine.verbs.expire import expire

        return expire(self.instance, [self.config], dry_run=dry_run)[0]

    def replay(self, **changes: Any) -> ReplayReport:
        """Bring the store in line with the journals.

        ``changes`` are fields of :class:`~sowctl.engine.options.ReplayOptions`, which says what they mean: until_txid,
        until_time, into, journal, verify, rebuild, force, dry_run, rekey.
        """
        from sowctl.engine.options import ReplayOptions
        from sowctl.engine.verbs.replay import replay

        return replay(self.instance, [self.config], ReplayOptions(**changes))[0]

    def snapshot(
        self, path: str | os.PathLike[str], *, at: int | str | None = None, force: bool = False
    ) -> SnapshotReport:
        """Write the state, of now or as of ``at`` (as :meth:`get` takes it), into the new store file ``path``.

        Raises RefusedError (exit 8) where there is a file, unless ``force``.
        """
        from sowctl.engine.verbs.snapshot import snapshot_file

        return snapshot_file(self.instance, self.target, self._at(at), Path(path), force=force)

    def check(self) -> CheckRun:
        """Check the topic's store: iterate for findings, then ask for ``status``, ``report`` and ``coverage``."""
        from sowctl.engine.verbs.check import check

        return check(self.instance, [self.target])

    def reindex(self, *, drop: bool = False) -> ReindexReport:
        """Build the topic's memo indexes anew, or remove them."""
        from sowctl.engine.verbs.reindex import reindex

        return reindex(self.instance, [self.target], drop=drop)[0]

    def compact(self, *, dry_run: bool = False) -> CompactReport:
        """Put a copy without free pages in the place of the topic's store, while others use it."""
        from sowctl.engine.verbs.upkeep.compact import compact

        for report in compact(self.instance, [self.target], dry_run=dry_run):
            return report
        raise _no_store(self.config)

    def repair(self, *, earlier: bool = False, dry_run: bool = False) -> StoreRepair:
        """Save what is sound of a damaged store: its ``report``, and ``items()`` for what it lacked."""
        from sowctl.engine.verbs.upkeep.repair import repair

        for done in repair(self.instance, [self.target], earlier=earlier, dry_run=dry_run):
            return done
        raise _no_store(self.config)

    def digest(self, at: int | str | None = None) -> Digest:
        """The digest of the state, of now or as of ``at`` (as :meth:`get` takes it)."""
        from sowctl.engine.sources.digest import digest
        from sowctl.engine.views.opening import open_target

        return digest(self.instance, self.target, self._at(at), open_target)

    def info(self) -> TopicInfo:
        """Sizes, counts and position."""
        from sowctl.engine.verbs.info import info

        return info(self.instance, [self.target])[0]


class QueueHandle:
    """A queue of an instance. Its files stay open until :meth:`close`; not for several threads.

    ``client`` is who leases: leases last for the queue's LeasePeriod, whatever becomes of this process.
    """

    def __init__(self, queue: OpenQueue, client: str = "python") -> None:
        self._queue = queue
        self.client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._queue.close()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.queue.name

    def lease(self, count: int = 1) -> AbstractContextManager[list[QueueMessage]]:
        """``with queue.lease(10) as messages``: acknowledged at the end of the block, given back where it raises.

        The end of the block raises NegativeError ``SOW-QUE-015`` where a lease was over before.
        """
        return self._queue.leased(count, self.client)

    def peek(self, count: int | None = 10) -> list[QueueMessage]:
        """The first messages in the order of delivery, all with None; nothing is leased."""
        return self._queue.peek(count)

    def acknowledge(self, *messages: QueueMessage) -> list[Outcome]:
        """Acknowledge messages by hand, those that were leased with their tokens; ``done`` or why not, for each."""
        return self._queue.acknowledge([self._named(message) for message in messages], self.client)

    def cancel(self, *messages: QueueMessage, delay: float = 0.0) -> list[Outcome]:
        """Give leased messages back, to be delivered again after ``delay`` seconds."""
        handles = [replace(self._named(message), delay_us=round(delay * 1e6)) for message in messages]
        return self._queue.cancel(handles, self.client)

    def renew(self, *messages: QueueMessage) -> list[Outcome]:
        """Let leases last for another LeasePeriod."""
        return self._queue.renew([self._named(message) for message in messages], self.client)

    def expire(self, *messages: QueueMessage) -> list[Outcome]:
        """Drop messages unprocessed."""
        return self._queue.acknowledge([self._named(message) for message in messages], self.client, expire=True)

    def requeue(self, *messages: QueueMessage) -> list[Outcome]:
        """Deliver dead messages again, with their counters at 0, and delayed ones at once."""
        return self._queue.requeue([message.name for message in messages])

    def purge(self) -> int:
        """Drop every message that is not leased; how many."""
        return self._queue.purge()

    def depth(self) -> Depth:
        """Messages by their states."""
        from sowctl.engine.queues.figures import depth_of

        return depth_of(self._queue)

    def info(self) -> QueueInfo:
        """What the queue holds, what went through it, who works on it."""
        from sowctl.engine.queues.figures import info_of

        return info_of(self._queue)

    def _named(self, message: QueueMessage) -> Handle:
        from sowctl.engine.queues.queue import handle_of

        named = handle_of(message)
        return named if message.token else replace(named, token=None)
