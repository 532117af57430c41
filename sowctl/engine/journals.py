"""journal list and dump: what the log's files are, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.positions import open_log
from sowctl.engine.targets import find_publishable
from sowctl.errors import ConfigError, MissingError, UsageError
from sowctl.identity.bookmarks import Bookmark
from sowctl.identity.hashes import client_hash
from sowctl.journal.blockcodec import LOGICAL_TOPICS
from sowctl.journal.format import DELETE, PUBLISH, UNKEYED

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block, Entry, FileInfo
    from sowctl.journal.format import Topic
    from sowctl.messages.base import MessageType

OPERATIONS = {PUBLISH: "publish", DELETE: "delete"}


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries to show; None passes everything. ``topic`` may be a logical one.

    Times in microseconds UTC, bounds inclusive.
    """

    topic: str | None = None
    message_type: str | None = None
    keys: frozenset[int] | None = None
    client: str | None = None
    from_time: int | None = None
    to_time: int | None = None
    from_txid: int | None = None
    to_txid: int | None = None
    limit: int | None = None


class EntryRecord:
    """A journal entry as a record for output."""

    __slots__ = ("_data", "entry")

    def __init__(self, entry: Entry, *, data: bool) -> None:
        self.entry = entry
        self._data = data

    @property
    def payload(self) -> bytes:
        """The message, nothing where it was not asked for."""
        return self.entry.payload if self._data else b""

    @property
    def has_data(self) -> bool:
        """Whether there is a message to show: not for a deletion, and not where it was left out."""
        return self._data and self.entry.operation == PUBLISH

    @property
    def sow_key(self) -> int:
        """The SOW key as a number."""
        return int.from_bytes(self.entry.key, "big")

    @property
    def timestamp(self) -> int:
        """Microseconds UTC."""
        return self.entry.time

    @property
    def expiration(self) -> int:
        """Microseconds UTC, 0 is never."""
        return self.entry.expiration

    @property
    def txid(self) -> int:
        """The entry's txid."""
        return self.entry.txid

    @property
    def bookmark(self) -> str | None:
        """Where the publisher is known, its bookmark."""
        if self.entry.publisher is None:
            return None
        return str(Bookmark(self.entry.publisher, self.entry.sequence))

    @property
    def correlation_id(self) -> str | None:
        """The publisher's correlation id."""
        raw = self.entry.correlation_id
        return None if raw is None else raw.decode("utf-8", "replace")

    @property
    def extra(self) -> dict[str, object]:
        """Operation, client, sequence, the publisher's key, the logical topic; whether there is no key at all."""
        entry = self.entry
        row: dict[str, object] = {"operation": OPERATIONS.get(entry.operation, str(entry.operation))}
        if entry.user_key is not None:
            row["user_key"] = entry.user_key.decode("utf-8", "replace")
        if entry.logical_topic is not None:
            row["topic"] = entry.logical_topic.decode("utf-8", "replace")
        if entry.flags & UNKEYED:
            row["unkeyed"] = True
        if entry.publisher is not None:
            row["client"] = entry.client
            row["sequence"] = entry.sequence
        return row


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries of one topic in a row."""

    topic: str
    message_type: str
    kind: MessageType
    records: list[EntryRecord]

    def view(self, payload: bytes) -> bytes:
        """One line of JSON for a payload; a deletion has none."""
        return self.kind.view(payload) if payload else b"null"

    def members_view(self, payload: bytes) -> bytes:
        """A JSON object with what columns show."""
        view: Callable[[bytes], bytes] = getattr(self.kind, "members_view", self.kind.view)
        return view(payload) if payload else b"null"


def require_topic(
    instance: Instance, journalled: Iterable[Topic], name: str, message_type: str | None = None
) -> TopicConfig | None:
    """The topic of the configuration that ``name`` stands for, None where only the journal knows it.

    ``journalled`` are the topics of the journal. One that is in neither is a mistake and not an empty result: raises
    MissingError ``SOW-ENG-012``. A topic of the configuration may have no entries yet; what the configuration has
    under several types, or as a view, is known too.
    """
    known = [topic for topic, kind in journalled if message_type in (None, kind)]
    if instance.config is not None:
        try:
            return find_publishable(instance, name, message_type)
        except UsageError:
            return None
        except MissingError:
            if name not in known:
                raise
    elif name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "sowctl journal dump shows what there is"
        raise MissingError("SOW-ENG-012", f"there is no topic {name!r} in this journal", hint=hint, topic=name)
    return None


def list_files(instance: Instance, directory: Path | None = None) -> list[FileInfo]:
    """The journal files in order. Raises MissingError (exit 10) without any, DamageError for gaps and bad headers."""
    with open_log(instance, directory=directory) as log:
        return log.files()


def dump(
    instance: Instance, wanted: EntryFilter, *, data: bool = True, directory: Path | None = None
) -> Iterator[EntryBatch]:
    """The entries that ``wanted`` lets through, in txid order. Raises DamageError (exit 5) where the log is damaged."""
    publisher = client_hash(wanted.client) if wanted.client is not None else None
    left = wanted.limit
    with open_log(instance, directory=directory) as log:
        after = (wanted.from_txid or 1) - 1
        for block in log.blocks(after=after, until=wanted.to_txid):
            if wanted.from_time is not None and block.header.latest < wanted.from_time:
                continue
            if wanted.topic is not None and not _may_hold(block, wanted.topic):
                continue
            held: list[EntryRecord] = []
            for entry in block.entries():
                if left is not None and left <= 0:
                    break
                if not _passes(entry, wanted, publisher):
                    continue
                if held and held[-1].entry.topic != entry.topic:
                    yield _batch(instance, held)
                    held = []
                held.append(EntryRecord(entry, data=data))
                left = None if left is None else left - 1
            if held:
                yield _batch(instance, held)
            if left is not None and left <= 0:
                return


def _batch(instance: Instance, records: list[EntryRecord]) -> EntryBatch:
    topic, message_type = records[-1].entry.topic
    try:
        kind = instance.type_of(message_type)
    except ConfigError:
        # A journal outlives its configuration: what nobody knows any more is shown as bytes.
        kind = instance.type_of("binary")
    return EntryBatch(topic, message_type, kind, records)


def _may_hold(block: Block, topic: str) -> bool:
    """Whether a block can have entries of a topic, or logical topic, of this name."""
    return bool(block.header.flags & LOGICAL_TOPICS) or any(name == topic for name, _ in block.topics)


def _logical(entry: Entry) -> str | None:
    return None if entry.logical_topic is None else entry.logical_topic.decode("utf-8", "replace")


def _passes(entry: Entry, wanted: EntryFilter, publisher: int | None) -> bool:
    return (
        (wanted.topic is None or entry.topic[0] == wanted.topic or _logical(entry) == wanted.topic)
        and (wanted.message_type is None or entry.topic[1] == wanted.message_type)
        and (wanted.keys is None or (int.from_bytes(entry.key, "big") in wanted.keys and not entry.flags & UNKEYED))
        and (publisher is None or entry.publisher == publisher)
        and (wanted.from_time is None or entry.time >= wanted.from_time)
        and (wanted.to_time is None or entry.time <= wanted.to_time)
        and (wanted.from_txid is None or entry.txid >= wanted.from_txid)
        and (wanted.to_txid is None or entry.txid <= wanted.to_txid)
    )
