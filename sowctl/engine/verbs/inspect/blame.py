"""blame: who set each field of a record to what it is, and when: the last entry that changed it.

The entries of a key are gone through in the order of their txids, as the journal has them: deltas are merged there. A
field that an entry repeats unchanged keeps its origin; a deletion, or a record that is inserted anew, starts over. What
differs between two entries :mod:`sowctl.values.differences` says.
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
"""Members and objects of a message, at all depths together, whose origins are kept. As many in two versions take 7 s
of CPU as ndjson, 13 as csv, most of it to be shown, and 460 MB."""
_MEMBER_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"(?:\s*+(:))?|(\{)', re.DOTALL)
"""A text, with the colon behind it where it names a member, or the begin of an object."""

GoneReason = str
"""Why there is no record: ``deleted`` or ``expired``."""


class FieldOrigin(Struct, frozen=True):
    """A field that holds no further fields, its value, and the version that set it.

    ``earlier``: that version or one before it, which is not known any more.
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
    """One record. ``text`` named it. ``versions`` are how many are known; none: nothing is known of the key.

    ``gone``: the record is not there at the instant, and why; ``last`` is its last version.
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
    """The origins of all fields of the records that ``texts`` name, now or as of ``at`` (microseconds UTC).

    The journal answers where one records the topic, else the versions that it retains. Raises UsageError
    ``SOW-QRY-022`` where there is neither, ``SOW-QRY-023`` for what is derived from topics, InputError ``SOW-QRY-025``
    for a version with more than ``max_members`` members and objects, and what reading raises.
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
    """The fields of the last of ``versions``, which are those of one key, oldest first."""
    tree: Any = None
    origins: dict[FieldPath, tuple[VersionRecord, bool]] = {}
    before: VersionRecord | None = None
    for version in versions:
        if version.deleted:
            tree, origins, before = None, {}, version
            continue
        after = parse_view(view(version.payload))
        if before is None or before.deleted or version.inserted:
            # What stood before the first version that is known may have had these values, unless it says itself that
            # there was nothing.
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
    """Refuse versions with more than ``limit`` members and objects. Raises InputError ``SOW-QRY-025``."""
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
    """Return whether a JSON text has more than ``limit`` members and objects, at any depth. They are counted, and
    not made.
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
