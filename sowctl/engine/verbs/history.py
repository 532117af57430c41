"""history: the versions of records and when each was replaced: the retained versions of keys, or all their journal
entries."""

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
"""The most important metadata of a version, in order."""
SHORT_CLIENT_FIELDS = ("sow_key", "timestamp", "until", "txid", "client", "operation", "lossy")
"""The same for versions that have a client."""


class VersionBatch(DescribedStruct, frozen=True):
    """Versions of one topic's records. ``shown``: the metadata in envelopes, None for all."""

    topic: str
    message_type: str
    kind: MessageType
    records: Sequence[VersionRecord]
    shown: tuple[str, ...] | None = None

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads of its records, in order."""
        return [record.payload for record in self.records]

    def view(self, payload: bytes) -> bytes:
        """Return a payload as one line of JSON; an empty object for a deletion."""
        return self.kind.view(payload) if payload else b"{}"

    def members_view(self, payload: bytes) -> bytes:
        """Return a JSON object with the members that columns show."""
        return self.kind.members_view(payload) if payload else b"{}"

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


class VersionChange(DescribedStruct, frozen=True):
    """A version compared with the previous one.

    ``kind``: ``added`` without a record before, ``removed`` for a deletion, ``changed``, ``repeated`` for a version
    with the same bytes, ``known`` for the first version in the journals of a record that is older. ``fields``: the
    differences of a changed version; empty if only its bytes differ.
    """

    kind: Literal["added", "changed", "repeated", "removed", "known"]
    version: VersionRecord
    fields: Sequence[FieldChange] = ()


def compare_versions(batch: VersionBatch) -> Iterator[VersionChange]:
    """Yield every version of a batch compared with the previous one of its key."""
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
            # Inserted over another version, which had expired.
            yield VersionChange("added", version)
        elif old.payload == version.payload:
            yield VersionChange("repeated", version)
        else:
            fields = compare_views(view(old.payload), view(version.payload))
            yield VersionChange("changed", version, fields)


KEYS_TOGETHER = 10_000
"""Keys whose versions are read together: with the journal, each batch is a pass over it."""


def iterate_key_versions(
    instance: Instance,
    target: Target,
    texts: Iterable[str],
    *,
    fields: bool = False,
    journal: bool = False,
    note_missing: Callable[[str], None],
) -> Iterator[VersionBatch]:
    """Yield the versions of any number of keys as :func:`read_key_versions`.

    ``note_missing`` is called with each text without a known version.
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
    """Return the versions of the records that ``texts`` name, key by key in the requested order, each oldest first.

    Also returns the texts without a known version. Arguments and errors are those of
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
