"""versions: what records were, and until when: the retained versions of keys, or every journal entry of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from sowctl.engine.search.keyhistory import VersionRecord, read_versions
from sowctl.messages.base import find_exact_view
from sowctl.structs import DescribedStruct
from sowctl.values.differences import FieldChange, compare_views

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target
    from sowctl.messages.base import MessageType

SHORT_METADATA_FIELDS = ("sow_key", "timestamp", "until", "txid", "operation", "lossy")
"""The facts of a version that matter most, in this order."""
SHORT_CLIENT_FIELDS = ("sow_key", "timestamp", "until", "txid", "client", "operation", "lossy")
"""Those where a version has a client."""


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

    @property
    def repeatable(self) -> bool:
        """True if a field with one value may be a list of one (:attr:`MessageType.repeatable`)."""
        return self.kind.repeatable

    @property
    def exact_view(self) -> Callable[[bytes], bytes] | None:
        """Makes an object of a payload, with words for NaN and infinities; None where the type has no such numbers."""
        exact = find_exact_view(self.kind)
        return None if exact is None else lambda payload: exact(payload) if payload else self.members_view(payload)


class VersionChange(DescribedStruct, frozen=True):
    """A version beside the one before it.

    ``kind``: ``added`` where there was no record before, ``removed`` for a deletion, ``changed``, ``repeated`` where it
    has the bytes that were there, ``known`` for the first one that the journals still hold of a record that is older.
    ``fields``: what is different in a changed one; nothing where its bytes alone are.
    """

    kind: Literal["added", "changed", "repeated", "removed", "known"]
    version: VersionRecord
    fields: Sequence[FieldChange] = ()


def compare_versions(batch: VersionBatch) -> Iterator[VersionChange]:
    """Every version of a batch compared with the one before it of its key."""
    view = batch.kind.members_view
    before: VersionRecord | None = None
    for version in batch.records:
        old = before if before is not None and before.key == version.key and not before.deleted else None
        before = version
        if version.deleted:
            yield VersionChange("removed", version)
        elif old is None and version.inserted is False:
            yield VersionChange("known", version)
        elif old is None or version.inserted:
            # Inserted over another version: the lifetime of that one was over.
            yield VersionChange("added", version)
        elif old.payload == version.payload:
            yield VersionChange("repeated", version)
        else:
            fields = compare_views(view(old.payload), view(version.payload))
            yield VersionChange("changed", version, fields)


KEYS_TOGETHER = 10_000
"""Keys whose versions are read at once: with the journal, each time is a pass over it."""


def iterate_key_versions(
    instance: Instance,
    target: Target,
    texts: Iterable[str],
    *,
    fields: bool = False,
    journal: bool = False,
    note_missing: Callable[[str], None],
) -> Iterator[VersionBatch]:
    """Yield the versions of keys as :func:`read_key_versions`, of any number of keys.

    ``note_missing`` is told of each text for which nothing is known.
    """
    waiting = iter(texts)
    while some := list(islice(waiting, KEYS_TOGETHER)):
        batch, missing = read_key_versions(instance, target, some, fields=fields, journal=journal)
        for text in missing:
            note_missing(text)
        yield batch


def read_key_versions(
    instance: Instance, target: Target, texts: Sequence[str], *, fields: bool = False, journal: bool = False
) -> tuple[VersionBatch, list[str]]:
    """The versions of the records that ``texts`` name, key after key as asked for, each oldest first.

    Also returns the texts for which nothing is known. Arguments and errors are those of
    :func:`~sowctl.engine.search.keyhistory.read_versions`.
    """
    answer = read_versions(instance, target, texts, fields=fields, journal=journal)
    records: list[VersionRecord] = []
    missing = []
    for text, found in answer.iterate_texts(texts):
        if found:
            records += found
        else:
            missing.append(text)
    return VersionBatch(
        answer.topic, answer.message_type, instance.find_message_type(answer.message_type), records
    ), missing
