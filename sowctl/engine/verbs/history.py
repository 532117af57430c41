"""versions: what records were, and until when: the retained versions of keys, or every journal entry of them.

A topic with History answers from its store (``behaviour`` 2); what lies outside its window is not shown, whether or not
a writer has pruned it yet. Any topic that a journal records answers from there when asked to, with everything that the
journals still hold, also what the granularity has dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sowctl.described import DescribedStruct
from sowctl.engine.fold.blocks import values_of
from sowctl.engine.records import StoredRecord
from sowctl.engine.search.keytext import keys_meant, not_a_key
from sowctl.engine.sources.opening import open_now
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.topics.positions import naming_replay, open_log
from sowctl.engine.topics.retention import Version, prune, retention, value_of, version_of
from sowctl.errors import MissingError, UsageError
from sowctl.identity.bookmarks import bookmark_of
from sowctl.journal.format import UNKEYED
from sowctl.store.codec import TOMBSTONE, expiration_of
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.config.model import Expiration, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target
    from sowctl.journal.block import Entry
    from sowctl.messages.base import MessageType
    from sowctl.store.meta import Definition

SHORT = ("sow_key", "timestamp", "until", "txid", "operation", "lossy")
"""The facts of a version that matter most, in this order."""


class VersionRecord(StoredRecord):
    """A version: a stored value, the instant at which it stopped being current (None: it has not), and its entry.

    ``lossy``: between it and the next version there were others, which were not retained; so it may have been replaced
    before ``until``. ``owner``: the publisher id of the instance whose journal the entry is from.
    """

    __slots__ = ("_entry", "_owner", "lossy", "until")

    def __init__(
        self, key: bytes, value: bytes, until: int | None, lossy: bool, entry: Entry | None = None, owner: int = 0
    ) -> None:
        super().__init__(key, value)
        self.until = until
        self.lossy = lossy
        self._entry = entry
        self._owner = owner

    @property
    def deleted(self) -> bool:
        """Whether it is a deletion: then it has no message."""
        return bool(self.value[0] & TOMBSTONE)

    @property
    def has_data(self) -> bool:
        """Whether there is a message to show."""
        return not self.deleted

    @property
    def bookmark(self) -> str | None:
        """Of a journal entry; a version that a store keeps has none."""
        entry = self._entry
        if entry is None:
            return None
        return str(bookmark_of(entry.publisher, entry.sequence, entry.txid, self._owner))

    @property
    def extra(self) -> Mapping[str, Any]:
        """What a record has besides, and the facts of a version."""
        facts: dict[str, Any] = {
            **(super().extra or {}),
            "operation": "delete" if self.deleted else "publish",
            "until": None if self.until is None else format_time(self.until),
            "lossy": self.lossy,
        }
        if self._entry is not None:
            facts |= {"client": self._entry.client, "sequence": self._entry.sequence or None}
        return facts


class VersionBatch(DescribedStruct, frozen=True):
    """Versions of one topic's records. ``shown``: the metadata that envelopes have, None for all."""

    topic: str
    message_type: str
    kind: MessageType
    records: Sequence[VersionRecord]
    shown: tuple[str, ...] | None = None

    @property
    def payloads(self) -> Sequence[bytes]:
        """Those of its records, in their order."""
        return [record.payload for record in self.records]

    def view(self, payload: bytes) -> bytes:
        """One line of JSON for a payload; a deletion has no members."""
        return self.kind.view(payload) if payload else b"{}"

    def members_view(self, payload: bytes) -> bytes:
        """A JSON object with what columns show."""
        return self.kind.members_view(payload) if payload else b"{}"


def versions(
    instance: Instance, target: Target, texts: Sequence[str], *, fields: bool = False, journal: bool = False
) -> tuple[VersionBatch, list[str]]:
    """The versions of the records that ``texts`` name, key after key as asked for, each oldest first.

    A text is tried as a SOW key first and then as the values of the key fields, unless ``fields`` says that it is the
    latter. Also returns the texts for which nothing is known. ``journal``: from the journals, whatever the topic
    retains. Raises UsageError ``SOW-QRY-001`` and others for texts that cannot be keys, ``SOW-QRY-022`` for a topic
    without History, MissingError ``SOW-QRY-021`` where no journal records it, and what reading raises.
    """
    if journal:
        topic, message_type, found, named = _of_journal(instance, target, texts, fields)
    else:
        topic, message_type, found, named = _of_store(instance, target, texts, fields)
    records: list[VersionRecord] = []
    missing = []
    for text, keys in zip(texts, named, strict=True):
        # The likelier meaning of a text comes first; the second counts only where nothing is known of the first.
        chosen = next((found[key] for key in keys if found.get(key)), None)
        if chosen is None:
            missing.append(text)
        else:
            records += chosen
    kind = instance.type_of(message_type)
    return VersionBatch(topic, message_type, kind, records), missing


_Answer = tuple[str, str, dict[bytes, list[VersionRecord]], list[list[bytes]]]
"""Topic, message type, the versions per key, and the keys that each text may mean."""


def _of_store(instance: Instance, target: Target, texts: Sequence[str], fields: bool) -> _Answer:
    topic = target.topic
    if topic is not None and topic.history is None:
        raise UsageError(
            "SOW-QRY-022",
            f"topic {topic.name!r} keeps no history",
            hint="--journal shows what the journals hold" if topic.journalled else "query shows its present records",
            topic=topic.name,
        )
    rule = retention(topic.history) if topic is not None else None
    with closing(open_now(instance, target)) as source, naming_replay(topic):
        named = _named(texts, target, source.definition, fields)
        view = VersionsSource(source, topic, instance.now)
        found = {}
        for key in {key for keys in named for key in keys}:
            kept = view.timeline(key)
            if rule is not None:
                # Whether a writer has pruned yet must not show: the answer depends on the entries and the clock alone.
                kept = prune(kept, instance.now, rule.window)
            found[key] = _retained(key, kept)
        return source.topic, source.message_type, found, named


def _named(texts: Sequence[str], target: Target, definition: Definition | None, fields: bool) -> list[list[bytes]]:
    """The keys that each text may mean. Raises UsageError ``SOW-QRY-001`` for one that no record can have."""
    meant = keys_meant(texts, target, definition, fields=fields)
    for text, keys in zip(texts, meant, strict=True):
        if not keys:
            raise not_a_key(text)
    return meant


def _retained(key: bytes, kept: Sequence[Version]) -> list[VersionRecord]:
    return [
        VersionRecord(key, value_of(key, version), following.time if following is not None else None, version.lossy)
        for version, following in pairwise([*kept, None])
        if version is not None
    ]


def _of_journal(instance: Instance, target: Target, texts: Sequence[str], fields: bool) -> _Answer:
    topic = target.topic
    if topic is None or not topic.journalled:
        name = topic.name if topic is not None else str(target.path)
        keeps = topic is None or topic.history is not None
        hint = "leave --journal out" if keeps else "it keeps no history either: query shows its present records"
        raise MissingError("SOW-QRY-021", f"no journal records {name!r}", hint=hint)
    named = _named(texts, target, None, fields)
    wanted = {key for keys in named for key in keys}
    ref = topic.name, topic.message_type
    entries: dict[bytes, list[tuple[bytes, Entry]]] = {}
    with open_log(instance, whole=True) as log:
        # Either all entries are shown, or it is said that older ones are gone.
        log.need_all()
        if not log.covers(ref):
            instance.notify(
                f"topic {topic.name!r}: older journals are gone; what is left begins at {log.first_txid} "
                f"(looked in {log.searched})"
            )
        for block in log.blocks(topic=ref):
            # A search through the block's key column, also across two keys: a block that is taken in vain is looked at
            # exactly below.
            raw = bytes(block.columns().keys)
            if not any(key in raw for key in wanted):
                continue
            keys, values = values_of(block, ref, unkeyed=True)
            rows = zip(keys, values, (one for one in block.entries() if one.topic == ref), strict=True)
            for key, value, entry in rows:
                if key in wanted and not entry.flags & UNKEYED and _is_meant(topic, entry):
                    entries.setdefault(key, []).append((value, entry))
    found = {key: list(_logged(key, rows, instance, topic.expiration)) for key, rows in entries.items()}
    return topic.name, topic.message_type, found, named


def _is_meant(topic: TopicConfig, entry: Entry) -> bool:
    if topic.logical is None:
        return True
    return entry.logical_topic is not None and topic.logical.takes(entry.logical_topic.decode("utf-8", "replace"))


def _logged(
    key: bytes, rows: Sequence[tuple[bytes, Entry]], instance: Instance, rule: Expiration
) -> Iterator[VersionRecord]:
    """The entries of a key as versions; one that expired was current until its stamp."""
    now, owner = instance.now, instance.publisher
    for place, (value, entry) in enumerate(rows):
        until = version_of(rows[place + 1][0]).time if place + 1 < len(rows) else None
        stamp = expiration_of(value)
        # An expired record was gone at its stamp, although no entry says so (behaviour 11.14).
        if is_expired(rule, stamp, now) and (until is None or stamp < until):
            until = stamp
        yield VersionRecord(key, value, until, False, entry, owner)
