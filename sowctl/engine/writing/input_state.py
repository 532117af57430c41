"""An input as the state of a topic: it is published to an empty copy of the topic in a temporary directory.

Keys, types, Preprocessing and refusals are those of publishing, and memory has at most one batch. ``publish
--replace-all`` writes the differences from this copy, ``diff TOPIC FILE`` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from sowctl.config.model import JournalTopic, TransactionLog
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.options import PublishOptions
from sowctl.engine.writing.prepare import Preparer
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import PublishReport


JOURNAL_BYTES = 1 << 30
"""Size of a journal file of the copy."""
LINGER_SECONDS = 0.1


class InputState(NamedTuple):
    """The instance and the topic that have the records of an input, and the report of publishing it."""

    instance: Instance
    topic: TopicConfig
    report: PublishReport


@contextmanager
def open_input_state(
    instance: Instance, topic: TopicConfig, load: Callable[[Instance], PublishReport]
) -> Iterator[InputState]:
    """Create an empty copy of ``topic`` in a temporary instance, and call ``load`` with that instance to publish to it.

    The copy is removed at the end of the context. It has the keys, the message type, Preprocessing and Enrichment of
    the topic; enrichment sees only the records of the input. Raises UsageError ``SOW-PUB-031`` for a topic without
    records, with keys from chains, or that is not published to, and the errors of ``load``.
    """
    _refuse_unsupported(instance, topic)
    config = instance.config
    assert config is not None
    whole = replace(topic.whole_topic, journalled=True, durability="persistent", history=None, recovery_point="epoch")
    with open_temporary_topic(whole, "input") as copy:
        assert copy.file is not None
        # With a journal, a large input is written like a load into an empty topic: as sorted runs, not key by key.
        log = TransactionLog(
            directory=copy.file.parent / "journal",
            archive_directory=None,
            journal_size=JOURNAL_BYTES,
            flush_interval_us=round(LINGER_SECONDS * 1e6),
            preallocated=0,
            topics=(JournalTopic(copy.name, copy.message_type, copy.place),),
            regex_topics=False,
            direct_io=False,
            inactive_client_ack_expiration_us=None,
            place=copy.place,
        )
        apart = replace(instance, config=replace(config, sow=(copy,), transaction_log=log))
        yield InputState(apart, replace(copy, logical=topic.logical), load(apart))


def _refuse_unsupported(instance: Instance, topic: TopicConfig) -> None:
    why = None
    if topic.derived is not None:
        why = "it is not published to"
    elif topic.key_mode == "none":
        why = "it has no SOW"
    elif Preparer(instance, topic.whole_topic, PublishOptions()).keys.chains is not None:
        why = "it has keys from chains, which depend on all earlier messages"
    if why is not None:
        raise UsageError("SOW-PUB-031", f"an input cannot be the state of {topic.label!r}: {why}")
