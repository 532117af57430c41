"""blame: the entry that last changed each field of a record: its publisher, time and txid.

The entries of a key are processed in txid order, as the journal has them, with deltas merged. A field that an entry
repeats unchanged keeps its origin; a deletion, or a new record, starts over. :mod:`sowctl.values.differences` compares
two entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.search.keyhistory import VersionRecord, read_versions
from sowctl.engine.topics.expiration import is_expired
from sowctl.errors import InputError, UsageError
from sowctl.structs import DescribedStruct
from sowctl.values.differences import FieldPath, compare_trees, format_path, iterate_leaves, parse_view
from sowctl.values.times import find_last_txid

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target


MAX_MEMBERS = 500_000
"""Maximum number of members and objects of a message, at all depths together, for which origins are tracked. As many in
two versions take 7 s of CPU as ndjson, 13 as csv, most of it for output, and 460 MB."""
_MEMBER_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"(?:\s*+(:))?|(\{)', re.DOTALL)
"""A string, with the following colon if it is the name of a member, or the start of an object."""

GoneReason = str
"""Reason for a missing record: ``deleted`` or ``expired``."""


class FieldOrigin(Struct, frozen=True):
    """A leaf field, its value, and the version that set it.

    ``earlier``: that version, or an earlier one that is not known any more.
    """

    path: FieldPath
    value: Any
    version: VersionRecord
    earlier: bool

    @property
    def name(self) -> str:
        """The field as filters write it, such as ``/legs[0]/qty``."""
        return format_path(self.path)


class Blame(DescribedStruct, frozen=True):
    """One record, named by ``text``. ``versions``: the number of known versions; 0 for an unknown key.

    ``gone``: why there is no record at the instant; ``last`` is its last version.
    """

    text: str
    topic: str
    message_type: str
    fields: Sequence[FieldOrigin] = ()
    versions: int = 0
    last: VersionRecord | None = None
    gone: GoneReason | None = None


def find_origins(
    instance: Instance,
    target: Target,
    texts: Sequence[str],
    *,
    fields: bool = False,
    at: int | None = None,
    max_members: int = MAX_MEMBERS,
) -> list[Blame]:
    """Return the origins of all fields of the records that ``texts`` name, now or as of ``at`` (microseconds UTC).

    They come from the journal if one records the topic, else from the versions that the topic retains. Raises
    UsageError ``SOW-QRY-022`` without either, ``SOW-QRY-023`` for a derived topic, InputError ``SOW-QRY-025`` for a
    version with more than ``max_members`` members and objects, and what reading raises.
    """
    topic = target.topic
    if topic is not None and topic.derived is not None:
        raise UsageError(
            "SOW-QRY-023",
            f"{topic.label!r} is a {topic.derived.kind}: no journal entry sets its fields",
            hint="use the record of the source topic",
        )
    journal = topic is not None and topic.journalled
    answer = read_versions(instance, target, texts, fields=fields, journal=journal)
    view = instance.find_message_type(answer.message_type).members_view
    found = []
    for text, known in answer.iterate_texts(texts):
        end = find_last_txid(at)
        versions = [one for one in known if at is None or (one.timestamp <= at if end is None else one.txid <= end)]
        made = Blame(text, answer.topic, answer.message_type, versions=len(versions))
        if versions:
            last = versions[-1]
            gone = _find_gone_reason(topic, last, instance.now if at is None else min(at, instance.now))
            if gone is None:
                _refuse_wide(versions, view, max_members, answer.topic, text)
            origins = () if gone is not None else tuple(compute_origins(versions, view))
            made = Blame(text, answer.topic, answer.message_type, origins, len(versions), last, gone)
        found.append(made)
    return found


def compute_origins(versions: Sequence[VersionRecord], view: Callable[[bytes], bytes]) -> Iterator[FieldOrigin]:
    """Yield the fields of the last of ``versions``, which are those of one key, oldest first."""
    tree: Any = None
    origins: dict[FieldPath, tuple[VersionRecord, bool]] = {}
    before: VersionRecord | None = None
    for version in versions:
        if version.deleted:
            tree, origins, before = None, {}, version
            continue
        after = parse_view(view(version.payload))
        if before is None or before.deleted or version.inserted:
            # An unknown earlier version may have had the same values, unless the first known version is marked as an
            # insert.
            mark = version, before is None and not version.inserted
            origins = dict.fromkeys((path for path, _ in iterate_leaves(after)), mark)
        else:
            touched = {change.path for change in compare_trees(tree, after)}
            mark = version, before.lossy
            origins = {
                path: mark if path not in origins or _is_within(path, touched) else origins[path]
                for path, _ in iterate_leaves(after)
            }
        tree, before = after, version
    if before is not None and not before.deleted:
        for path, value in iterate_leaves(tree):
            yield FieldOrigin(path, value, *origins[path])


def _refuse_wide(
    versions: Sequence[VersionRecord], view: Callable[[bytes], bytes], limit: int, topic: str, text: str
) -> None:
    """Reject versions with more than ``limit`` members and objects. Raises InputError ``SOW-QRY-025``."""
    for version in versions:
        if not version.deleted and _has_more_members(view(version.payload), limit):
            raise InputError(
                "SOW-QRY-025",
                f"record {text} has more than {limit:,} members and objects at txid {version.txid}",
                place=topic,
                hint="use history to see its versions, or diff to compare two states",
                sow_key=version.sow_key,
            )


def _has_more_members(text: bytes, limit: int) -> bool:
    """Return whether a JSON text has more than ``limit`` members and objects, at any depth. They are counted without
    parsing.
    """
    if text.count(b":") + text.count(b"{") <= limit:
        return False
    found = 0
    for token in _MEMBER_PATTERN.finditer(text):
        found += token.lastindex is not None
        if found > limit:
            return True
    return False


def _is_within(path: FieldPath, touched: set[FieldPath]) -> bool:
    return any(path[:length] in touched for length in range(len(path) + 1))


def _find_gone_reason(topic: TopicConfig | None, last: VersionRecord, at: int) -> GoneReason | None:
    if last.deleted:
        return "deleted"
    if topic is not None and is_expired(topic.expiration, last.expiration, at):
        return "expired"
    return None
