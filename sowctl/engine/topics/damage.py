"""What to do about a damaged store: the room that found it does not know the topic, the verbs do (README, 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sowctl.config.model import TopicConfig
from sowctl.errors import DamageError


@contextmanager
def naming_replay(topic: TopicConfig | None) -> Iterator[None]:
    """Give a DamageError of the store of ``topic`` the command that helps as its hint; None: a bare file, as it is."""
    try:
        yield
    except DamageError as error:
        if topic is not None and error.code.startswith("SOW-STO-"):
            error.hint = _advice(topic)
        raise


def _advice(topic: TopicConfig) -> str:
    if topic.journalled:
        return f"sowctl replay {topic.name} rebuilds the store from the journals; the damaged file is kept beside it"
    return "no journal records this topic: restore the file from a copy; sowctl check shows what is damaged"
