"""The name and the message type of a topic, which identify it in journals, stores and configurations."""

from __future__ import annotations

from typing import NamedTuple


class TopicRef(NamedTuple):
    """The identity of a topic: topics of the same name differ in their message types (behaviour 1.9).

    Equal to the tuple of both, with the same hash, order and representation, so digests of stored state that are
    computed from ``repr`` are the same for either.
    """

    name: str
    message_type: str

    def __repr__(self) -> str:
        return tuple.__repr__(self)
