"""Queues for tests: a lab with a queue over topics, and short names for its operations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sowctl.engine.queues.definition import find_queue
from sowctl.engine.queues.handles import MessageHandle
from sowctl.engine.queues.queue import OpenQueue, QueueMessage, build_handle
from sowctl.engine.queues.reports import Depth, QueueInfo, build_queue_info, compute_depth
from sowctl.engine.topics.queuestates import build_state_path
from sowctl.identity.bookmarks import parse_bookmark
from sowctl.seam import Seam
from tests.support.instances import Lab, config_xml, topic_xml


def queue_xml(*parts: str, name: str = "work", underlying: str | None = "orders", kind: str = "Queue") -> str:
    """One queue; ``parts`` are further child elements as text."""
    source = f"<UnderlyingTopic>{underlying}</UnderlyingTopic>" if underlying is not None else ""
    return f"<{kind}><Name>{name}</Name><MessageType>json</MessageType>{source}{''.join(parts)}</{kind}>"


class QueueLab(Lab):
    """A lab with the topic orders and queues over it. Randomness is real: tokens must differ in forked processes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._random = os.urandom  # type: ignore[assignment]  # any source of bytes

    @contextmanager
    def queue(self, name: str = "work", seam: Seam | None = None, lock_wait: float = 5.0) -> Iterator[OpenQueue]:
        """The queue, opened."""
        instance = self.open(seam, lock_wait)
        with OpenQueue(instance, find_queue(instance, name)) as queue:
            yield queue

    def put(self, *ids: int, topic: str = "orders", **options: object) -> None:
        """Publish messages with these ids."""
        self.publish(topic, *(f'{{"id":{number}}}' for number in ids), **options)

    def put_to(self, name: str, *ids: int) -> None:
        """Publish messages to a queue's name."""
        from sowctl.engine.options import PublishOptions
        from sowctl.engine.verbs.publish import publish_messages
        from sowctl.engine.writing.batches import ListSource

        source = ListSource([f'{{"id":{number}}}'.encode() for number in ids])
        publish_messages(self.open(), name, [("messages", source)], PublishOptions())

    def lease(self, count: int = 1, client: str = "me", name: str = "work") -> list[QueueMessage]:
        with self.queue(name) as queue:
            return queue.lease_for_client(count, client)

    def ack(self, *messages: QueueMessage, client: str = "me") -> list[str]:
        """Acknowledge with the tokens of leases."""
        with self.queue() as queue:
            return list(queue.acknowledge([build_handle(message) for message in messages], client))

    def ack_bookmark(self, bookmark: str, client: str = "me", *, expire: bool = False, name: str = "work") -> str:
        """Acknowledge by a bookmark alone."""
        found = parse_bookmark(bookmark)
        with self.queue(name) as queue:
            return queue.acknowledge([MessageHandle((found.publisher, found.sequence))], client, expire=expire)[0]

    def cancel(
        self, *messages: QueueMessage, delay: float = 0.0, client: str = "me", started: bool = True
    ) -> list[str]:
        with self.queue() as queue:
            handles = [build_handle(message, round(delay * 1e6)) for message in messages]
            return list(queue.cancel(handles, client, started=started))

    def peek(self, name: str = "work") -> list[QueueMessage]:
        with self.queue(name) as queue:
            return queue.peek()

    def pending(self, name: str = "work") -> list[int]:
        """Return the ids of the messages in the queue, in the order of delivery."""
        return [id_of(message) for message in self.peek(name) if message.state != "dead"]

    def states(self, name: str = "work") -> list[tuple[int, str]]:
        return [(id_of(message), message.state) for message in self.peek(name)]

    def depth(self, name: str = "work") -> Depth:
        with self.queue(name) as queue:
            return compute_depth(queue)

    def info(self, name: str = "work") -> QueueInfo:
        with self.queue(name) as queue:
            return build_queue_info(queue)

    def state_file(self, name: str = "work") -> Path:
        instance = self.open()
        return build_state_path(instance, find_queue(instance, name))


def id_of(message: QueueMessage) -> int:
    """The id of a message."""
    import json

    return int(json.loads(message.payload)["id"])


def ids(messages: list[QueueMessage]) -> list[int]:
    """The ids of messages."""
    return [id_of(message) for message in messages]


def lab_xml(*queues: str, topics_xml: str | None = None, logged: tuple[str, ...] = ("orders",)) -> str:
    """A configuration with a topic orders and these queues."""
    return config_xml((topics_xml if topics_xml is not None else topic_xml("orders")) + "".join(queues), logged)
