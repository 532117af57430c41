"""Entries of a journal as output records, and the topics that a name may mean in a journal.

Called by the verbs that print entries: dump, tail, search. A journal outlives its configuration, so both are searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sowctl.engine.topics.targets import find_publish_topic
from sowctl.errors import ConfigError, DamageError, MissingError, UsageError
from sowctl.identity.bookmarks import build_bookmark
from sowctl.journal.entries import LOGICAL_TOPICS_FLAG
from sowctl.journal.format import BEGIN, OPERATIONS, PUBLISH, QUEUE_OPERATIONS, UNKEYED_FLAG
from sowctl.messages.base import find_exact_view
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block
    from sowctl.journal.entries import Entry
    from sowctl.journal.reader import Journal
    from sowctl.messages.base import MessageType
    from sowctl.values.topicref import TopicRef


class EntryRecord:
    """A journal entry as a record for output. ``owner``: the publisher id of the instance whose journal it is."""

    __slots__ = ("_data", "_owner", "entry")

    def __init__(self, entry: Entry, owner: int, *, data: bool) -> None:
        self.entry = entry
        self._owner = owner
        self._data = data

    @property
    def payload(self) -> bytes:
        """The message; empty if it was not requested."""
        return self.entry.payload if self._data else b""

    @property
    def has_data(self) -> bool:
        """True if there is a message to show: not for a deletion, and not if it was not requested."""
        return self._data and self.entry.operation == PUBLISH

    @property
    def sow_key(self) -> int:
        """The SOW key as a number."""
        return int.from_bytes(self.entry.key, "big")

    @property
    def timestamp(self) -> int:
        """Time of the entry in microseconds UTC."""
        return self.entry.time

    @property
    def expiration(self) -> int:
        """Time of expiration in microseconds UTC, 0 for never."""
        return self.entry.expiration

    @property
    def txid(self) -> int:
        """The entry's txid."""
        return self.entry.txid

    @property
    def bookmark(self) -> str:
        """The publisher's bookmark, or the instance's if no publisher numbered the entry (``behaviour`` 11.54)."""
        entry = self.entry
        return str(build_bookmark(entry.publisher, entry.sequence, entry.txid, self._owner))

    @property
    def correlation_id(self) -> str | None:
        """The publisher's correlation id."""
        raw = self.entry.correlation_id
        return None if raw is None else raw.decode("utf-8", "replace")

    @property
    def extra(self) -> dict[str, object]:
        """Operation, client, sequence, the publisher's key, the logical topic; ``unkeyed`` for an entry without a
        key."""
        entry = self.entry
        row: dict[str, object] = {"operation": OPERATIONS.get(entry.operation, str(entry.operation))}
        if entry.user_key is not None:
            row["user_key"] = entry.user_key.decode("utf-8", "replace")
        if entry.logical_topic is not None:
            row["topic"] = entry.logical_topic.decode("utf-8", "replace")
        if entry.operation in QUEUE_OPERATIONS:
            row["unkeyed"] = True
            if entry.operation != BEGIN:
                # The acknowledged message has its own bookmark; that of the entry is the position of the
                # acknowledgement.
                row["message_bookmark"] = f"{int.from_bytes(entry.key, 'big')}|{int.from_bytes(entry.check, 'big')}|"
        elif entry.flags & UNKEYED_FLAG:
            row["unkeyed"] = True
        if entry.publisher is not None:
            row["client"] = entry.client
            row["sequence"] = entry.sequence or None
        return row


class JournalEntries(DescribedStruct, frozen=True):
    """Consecutive entries of one topic."""

    topic: str
    message_type: str
    kind: MessageType
    records: list[EntryRecord]
    shown: tuple[str, ...] | None = None

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads of its records, in order."""
        return [record.payload for record in self.records]

    def view(self, payload: bytes) -> bytes:
        """Return a payload as one line of JSON; null for a deletion."""
        return self.kind.view(payload) if payload else b"null"

    def members_view(self, payload: bytes) -> bytes:
        """Return a JSON object with the members that columns show."""
        return self.kind.members_view(payload) if payload else b"null"

    @property
    def repeatable(self) -> bool:
        """True if a field with one value may be a list of one (:attr:`MessageType.repeatable`)."""
        return self.kind.repeatable

    @property
    def exact_view(self) -> Callable[[bytes], bytes] | None:
        """The function that renders a payload as an object, with words for NaN and infinities; None if the type has
        none."""
        exact = find_exact_view(self.kind)
        return None if exact is None else lambda payload: exact(payload) if payload else self.members_view(payload)


def require_topic(
    instance: Instance, journalled: Iterable[TopicRef], name: str, message_type: str | None = None
) -> TopicConfig | None:
    """Return the topic of the configuration that ``name`` means, None if only the journal has it.

    ``journalled`` are the topics of the journal. A name in neither is a mistake and not an empty result: raises
    MissingError ``SOW-ENG-012``. A topic of the configuration may have no entries yet; a name that the configuration
    has under several types, or as a view, is known, too.
    """
    known = [topic for topic, kind in journalled if message_type in (None, kind)]
    if instance.config is not None:
        try:
            return find_publish_topic(instance, name, message_type)
        except UsageError:
            return None
        except MissingError:
            if name not in known:
                raise
    elif name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "sowctl journal dump shows the topics"
        raise MissingError("SOW-ENG-012", f"topic {name!r} is not in this journal", hint=hint, topic=name)
    return None


def require_logical_topic(instance: Instance, log: Journal, name: str, message_type: str | None) -> None:
    """Reject a name that :func:`require_topic` does not know and that no entry has as its logical topic."""
    try:
        topic_states = log.read_topic_states()
    except DamageError:
        return  # the topics cannot be listed; reading the entries reports the damage and its place
    try:
        require_topic(instance, topic_states, name, message_type)
    except MissingError:
        # The journal's end state lists physical topics; logical topics are only in the entries.
        for block in log.iter_blocks():
            if block.header.flags & LOGICAL_TOPICS_FLAG and any(
                decode_logical_topic(entry) == name and message_type in (None, entry.topic.message_type)
                for entry in block.iter_entries()
            ):
                return
        raise


def build_entry_batch(instance: Instance, records: list[EntryRecord]) -> JournalEntries:
    topic, message_type = records[-1].entry.topic
    try:
        kind = instance.find_message_type(message_type)
    except ConfigError:
        # A journal outlives its configuration: a type that it no longer defines is shown as bytes.
        kind = instance.find_message_type("binary")
    return JournalEntries(topic, message_type, kind, records)


def iterate_batches(instance: Instance, block: Block, places: Sequence[int], *, data: bool) -> Iterator[JournalEntries]:
    """Yield the entries at some indexes of a block in txid order, one batch per run of a topic."""
    held: list[EntryRecord] = []
    for entry in block.iter_entries_at(places):
        if held and held[-1].entry.topic != entry.topic:
            yield build_entry_batch(instance, held)
            held = []
        held.append(EntryRecord(entry, instance.publisher_id, data=data))
    if held:
        yield build_entry_batch(instance, held)


def resolve_topic_names(
    instance: Instance, log: Journal, topic_names: Sequence[tuple[str, str | None]]
) -> tuple[frozenset[str] | None, str | None]:
    """Return names and message type of the requested topics; None each for all.

    Raises MissingError ``SOW-ENG-012`` for a name that does not exist, UsageError ``SOW-CLI-086`` for several types.
    """
    for name, message_type in topic_names:
        require_logical_topic(instance, log, name, message_type)
    kinds = {message_type for _, message_type in topic_names}
    if len(kinds) > 1:
        raise UsageError(
            "SOW-CLI-086",
            "the topics have different message types",
            hint="search them one by one, or remove the types",
        )
    return (frozenset(name for name, _ in topic_names), kinds.pop()) if topic_names else (None, None)


def decode_logical_topic(entry: Entry) -> str | None:
    return None if entry.logical_topic is None else entry.logical_topic.decode("utf-8", "replace")
