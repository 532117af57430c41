"""The unleased messages of a queue as a source for queries and views (``behaviour`` 5.4, 11.70).

The keys of the messages are their numbers in delivery order, so a query without an order prints them in that order.
They are copied to a temporary store; nothing is leased.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.config.derived_entries import Queue
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.queues.queue import OpenQueue
from sowctl.engine.sources.current import CurrentSource, open_file_source
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.positions import build_definition
from sowctl.errors import UsageError
from sowctl.store.builder import build_store
from sowctl.store.codec import encode_record
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.instant import ViewInstant


def open_entry(moment: ViewInstant, entry: OtherEntry) -> Source:
    """Open the queue as of a moment, which has to be the present. Raises UsageError ``SOW-QUE-014`` for the past."""
    assert isinstance(entry, Queue)
    instance = moment.instance
    if moment.at is not None:
        raise UsageError(
            "SOW-QUE-014",
            f"past states of queue {entry.name!r} are unknown: leases are not recorded",
            hint=f"query the underlying topic {entry.underlying!r} at that time",
        )
    assert instance.config is not None
    with ExitStack() as stack:
        then = stack.enter_context(open_temporary_topic(build_derived_topic(instance.config, entry), "queue"))
        assert then.file is not None
        with (
            OpenQueue(instance, entry) as queue,
            # Without a creation time: its digest alone names its state, in the next process, too.
            build_store(then.file, build_definition(instance.config.name, then), seam=instance.seam, now=0) as builder,
        ):
            keys: list[bytes] = []
            values: list[bytes] = []
            for rank, message in enumerate(queue.read_messages(queue.list_messages(unleased=True)), 1):
                key = rank.to_bytes(8, "big")
                topic = message.topic.encode()
                correlation = None if message.correlation_id is None else message.correlation_id.encode()
                stamps = message.txid, message.timestamp, message.expiration
                keys.append(key)
                values.append(encode_record(key, bytes(8), *stamps, 0, message.payload, (None, correlation, topic)))
                if len(keys) == STORE_LIMITS.read_batch_records:
                    builder.append_records(keys, values)
                    keys, values = [], []
            if keys:
                builder.append_records(keys, values)
            builder.flush()
            builder.install(wait=instance.lock_wait)
        base = stack.enter_context(open_file_source(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)
