"""An input as the state of a topic: published to an empty copy of it in a temporary directory.

Keys, types, Preprocessing and refusals are those of publishing, and memory holds no more than a batch. ``publish
--replace-all`` writes what such a copy differs in, ``diff TOPIC FILE`` prints it.
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
"""Size of a file of the journal of a copy."""
LINGER_SECONDS = 0.1


class InputState(NamedTuple):
    """The instance and the topic that have the records of an input, and what was published to them."""

    instance: Instance
    topic: TopicConfig
    report: PublishReport


@contextmanager
def open_input_state(
    instance: Instance, topic: TopicConfig, load: Callable[[Instance], PublishReport]
) -> Iterator[InputState]:
    """Let ``load`` publish to an empty copy of ``topic`` in the instance that it is given; the copy is removed then.

    The copy has the keys, the message type and the fields of Preprocessing and Enrichment of the topic; enrichment sees
    no records but those of the input. Raises UsageError ``SOW-PUB-031`` for a topic without records or with keys from
    chains, and what ``load`` raises.
    """
    _refuse_unsupported(instance, topic)
    config = instance.config
    assert config is not None
    whole = replace(topic.whole_topic, journalled=True, durability="persistent", history=None, recovery_point="epoch")
    with open_temporary_topic(whole, "input") as copy:
        assert copy.file is not None
        # With a journal, a large input is written as a load into an empty topic is: as sorted runs, not key by key.
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
