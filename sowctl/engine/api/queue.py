"""A queue for programs: leasing, acknowledging and returning messages."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from sowctl.engine.api.arguments import convert_interval
from sowctl.engine.api.arguments import require_count as read_count
from sowctl.errors import convert_memory_errors

if TYPE_CHECKING:
    from sowctl.engine.api.arguments import Interval
    from sowctl.engine.queues.handles import MessageHandle, Outcome
    from sowctl.engine.queues.queue import OpenQueue, QueueMessage
    from sowctl.engine.queues.reports import Depth, QueueInfo


@convert_memory_errors
class QueueHandle:
    """A queue of an instance. Its files stay open until :meth:`close`; not thread-safe.

    ``client`` is the holder of leases: they last for the queue's LeasePeriod, even if this process ends.
    """

    def __init__(self, queue: OpenQueue, client: str = "python") -> None:
        self._queue = queue
        self.client = client

    def __dir__(self) -> list[str]:
        """Return the names that are meant for programs."""
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    def __repr__(self) -> str:
        return f"<queue {self.name!r}, client {self.client!r}>"

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
        """Lease messages: ``with queue.lease(10) as messages``; acknowledged at the end of the block, returned if it
        raises.

        The end of the block raises NegativeError ``SOW-QUE-015`` if a lease expired before. Raises TypeError, and
        UsageError ``SOW-CLI-006`` for an invalid count.
        """
        return self._queue.hold_leases(read_count("count", count, 1), self.client)

    def peek(self, count: int | None = 10, *, state: str | None = None) -> list[QueueMessage]:
        """Return the first messages in delivery order, with None all; nothing is leased.

        ``state``: only those that are ready, leased, delayed, blocked or dead.
        """
        return self._queue.peek(None if count is None else read_count("count", count, 0), state=state)

    def acknowledge(self, *messages: QueueMessage) -> list[Outcome]:
        """Acknowledge messages explicitly, leased ones by their tokens; return ``done`` or why not, for each."""
        return self._queue.acknowledge([self._find_handle(message) for message in messages], self.client)

    def cancel(self, *messages: QueueMessage, delay: Interval = 0.0) -> list[Outcome]:
        """Return leased messages to the queue, to be delivered again after ``delay``. Raises as for other intervals."""
        delay = convert_interval("delay", delay) or 0
        handles = [replace(self._find_handle(message), delay_us=round(delay * 1e6)) for message in messages]
        return self._queue.cancel(handles, self.client)

    def renew(self, *messages: QueueMessage) -> list[Outcome]:
        """Extend leases by another LeasePeriod."""
        return self._queue.renew([self._find_handle(message) for message in messages], self.client)

    def expire(self, *messages: QueueMessage) -> list[Outcome]:
        """Drop messages unprocessed."""
        return self._queue.acknowledge([self._find_handle(message) for message in messages], self.client, expire=True)

    def requeue(self, *messages: QueueMessage) -> list[Outcome]:
        """Deliver dead messages again, with their counters at 0, and delayed ones immediately."""
        return self._queue.requeue([message.name for message in messages])

    def purge(self) -> int:
        """Drop all messages that are not leased; return their number."""
        return self._queue.purge()

    def depth(self) -> Depth:
        """Return the numbers of messages by state."""
        from sowctl.engine.queues.reports import compute_depth

        return compute_depth(self._queue)

    def info(self) -> QueueInfo:
        """Return the queue's messages, its counters so far, and its consumers."""
        from sowctl.engine.queues.reports import build_queue_info

        return build_queue_info(self._queue)

    def _find_handle(self, message: QueueMessage) -> MessageHandle:
        from sowctl.engine.queues.queue import build_handle

        named = build_handle(message)
        return named if message.token else replace(named, token=None)
