"""queue: message queues by name, and their messages as output records (``behaviour`` 5.4).

:mod:`sowctl.engine.queues` implements queues; this module opens them and converts their messages to records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.queues.definition import find_queue
from sowctl.engine.queues.handles import MessageHandle
from sowctl.engine.queues.queue import OpenQueue, QueueMessage, build_handle
from sowctl.engine.queues.reports import QueueInfo, build_queue_info, compute_depth
from sowctl.engine.topics.queuestates import list_configured_queues
from sowctl.errors import SowError, UsageError
from sowctl.identity.bookmarks import parse_bookmark
from sowctl.messages.base import find_exact_view
from sowctl.structs import DescribedStruct
from sowctl.values.times import format_expiry
from sowctl.values.units import parse_whole_number

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.messages.base import MessageType

LEASED_FIELDS = ("topic", "txid", "timestamp", "bookmark", "token", "lease_until", "deliveries", "cancels", "barrier")
"""Metadata of leased messages, in order."""
PEEKED_FIELDS = (
    "state", "topic", "txid", "timestamp", "expiration", "bookmark", "token", "lease_until", "until", "holder",
    "deliveries", "cancels", "priority", "barrier", "reason", "exit_status", "stderr",
)  # fmt: skip
"""Metadata of peeked messages, in order."""


def open_queue(instance: Instance, name: str, message_type: str | None = None) -> OpenQueue:
    """Open a queue by name; a context manager. Raises as :func:`~sowctl.engine.queues.definition.find_queue`."""
    return OpenQueue(instance, find_queue(instance, name, message_type))


def list_queues(instance: Instance, problems: list[SowError]) -> list[QueueInfo]:
    """Return all queues of the configuration, in its order; errors of unreadable ones are added to ``problems``."""
    found = []
    for config in list_configured_queues(instance):
        try:
            with OpenQueue(instance, config) as queue:
                found.append(build_queue_info(queue))
        except SowError as problem:
            problems.append(problem)
    return found


class QueueRecord:
    """A message of a queue as an output record."""

    __slots__ = ("message",)

    def __init__(self, message: QueueMessage) -> None:
        self.message = message

    @property
    def payload(self) -> bytes:
        """The message."""
        return self.message.payload

    @property
    def has_data(self) -> bool:
        """True: every message of a queue has a payload."""
        return True

    @property
    def sow_key(self) -> int:
        """0: a message of a queue has a bookmark and no key."""
        return 0

    @property
    def timestamp(self) -> int:
        """Time of publication, microseconds UTC."""
        return self.message.timestamp

    @property
    def expiration(self) -> int:
        """Time at which the message expires in the queue, microseconds UTC; 0 is never."""
        return self.message.expiration

    @property
    def txid(self) -> int:
        """The txid of its entry."""
        return self.message.txid

    @property
    def bookmark(self) -> str:
        """The bookmark that names the message in acknowledgements."""
        return self.message.bookmark

    @property
    def correlation_id(self) -> str | None:
        """The publisher's correlation id."""
        return self.message.correlation_id

    @property
    def extra(self) -> dict[str, object]:
        """State, lease and counters."""
        message = self.message
        leased = message.state == "leased"
        return {
            "topic": message.topic,
            "unkeyed": True,
            "state": message.state,
            # As text, like keys: readers that parse numbers as doubles would not return it unchanged.
            "token": str(message.token) if message.token else None,
            "lease_until": format_expiry(message.until or 0) if leased else None,
            "until": format_expiry(message.until or 0) if message.state == "delayed" else None,
            "holder": message.holder or None,
            "deliveries": message.deliveries,
            "cancels": message.cancels,
            "priority": message.priority or None,
            "barrier": True if message.barrier else None,
            "reason": message.reason or None,
            "exit_status": message.exit_status,
            "stderr": message.stderr or None,
        }


class QueueBatch(DescribedStruct, frozen=True):
    """Consecutive messages of one queue."""

    topic: str
    message_type: str
    kind: MessageType
    records: list[QueueRecord]
    shown: tuple[str, ...] | None = None

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads of its records, in order."""
        return [record.payload for record in self.records]

    @property
    def view(self) -> Callable[[bytes], bytes]:
        """The function that renders a payload as one line of JSON."""
        return self.kind.view

    @property
    def members_view(self) -> Callable[[bytes], bytes]:
        """The function that renders a payload as an object with the members that columns show."""
        return self.kind.members_view

    @property
    def repeatable(self) -> bool:
        """True if a field with one value may be a list of one (:attr:`MessageType.repeatable`)."""
        return self.kind.repeatable

    @property
    def exact_view(self) -> Callable[[bytes], bytes] | None:
        """The function that renders a payload as an object, with words for NaN and infinities; None if the type has
        none."""
        return find_exact_view(self.kind)


def build_queue_batch(
    queue: OpenQueue, messages: Iterable[QueueMessage], shown: tuple[str, ...] | None = None
) -> QueueBatch:
    """Return messages as a batch of records; ``shown`` is the metadata in envelopes, None for all."""
    kind = queue.instance.find_message_type(queue.queue.message_type)
    return QueueBatch(queue.queue.name, kind.name, kind, [QueueRecord(one) for one in messages], shown)


def parse_handle(text: str, owner: int) -> MessageHandle:
    """Return the message that a text names: a bookmark or txid, alone or with a token, or the output of ``queue
    lease``.

    ``owner`` is the publisher id of the instance. Raises UsageError ``SOW-QUE-011``.
    """
    word = text.strip()
    bookmark, token = word, ""
    if word.startswith("{"):
        bookmark, token = _format_members(word)
    elif len(parts := word.replace(",", " ").split()) == 2:
        bookmark, token = parts
    number = parse_whole_number(token) if token else None
    if token and number is None:
        raise _build_handle_error(text)
    if (txid := parse_whole_number(bookmark)) is not None:
        return MessageHandle((owner, txid), number)
    try:
        found = parse_bookmark(bookmark)
    except UsageError:
        raise _build_handle_error(text) from None
    return MessageHandle((found.publisher, found.sequence), number)


def _format_members(line: str) -> tuple[str, str]:
    import json

    try:
        row = json.loads(line)
        bookmark, token = row["bookmark"], row.get("token") or ""
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _build_handle_error(line) from None
    if not isinstance(bookmark, str) or not isinstance(token, str | int):
        raise _build_handle_error(line)
    return bookmark, str(token)


def _build_handle_error(text: str) -> UsageError:
    return UsageError(
        "SOW-QUE-011",
        f"{text.strip()[:80]!r} does not identify a message",
        hint="write it like 13948331409633568391|7|, with or without the token of the lease, or "
        "pass a line of queue lease -F ndjson",
    )


__all__ = [
    "LEASED_FIELDS",
    "PEEKED_FIELDS",
    "QueueBatch",
    "QueueRecord",
    "build_handle",
    "build_queue_batch",
    "build_queue_info",
    "compute_depth",
    "list_queues",
    "open_queue",
    "parse_handle",
]
