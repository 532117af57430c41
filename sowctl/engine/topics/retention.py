"""The versions of a key that History keeps (``behaviour`` 2.2): a pure rule, evaluated at an entry's own time.

Live writes, catch-up, replay and the fold on Spark all call :func:`extend_versions` with the entries of a key in txid
order, so the versions in a store depend only on the entries, never on when they were applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.model import History
from sowctl.store.codec import LOSSY_FLAG, TOMBSTONE_FLAG, read_stamps, replace_flags
from sowctl.values.times import Micros, find_last_txid


class Retention(Struct, frozen=True):
    """Window and granularity of a topic's history, in microseconds."""

    window: Micros
    granularity: Micros


class Version(Struct, frozen=True):
    """One published state of a key, or its deletion.

    ``lossy``: writes between this version and the next retained one were dropped.
    """

    time: Micros
    txid: int
    value: bytes
    tombstone: bool = False
    lossy: bool = False


def prune_versions(versions: Sequence[Version], now: Micros, window: Micros) -> list[Version]:
    """Drop versions that have not been current for longer than ``window``, including a single older tombstone.

    ``versions`` are those of one key, oldest first; the last is the current one.
    """
    # A version was current until its successor: the successor's time shows since when it is not current (behaviour 2.1,
    # rule 4).
    kept = [version for version, successor in pairwise(versions) if now - successor.time <= window]
    current = versions[-1] if versions else None
    # The current version is kept at any age (behaviour 2.1, rule 3); a deletion older than the window is removed with
    # its key (rule 5).
    if current is not None and not (current.tombstone and now - current.time > window):
        kept.append(current)
    return kept


def append_version(versions: Sequence[Version], update: Version, rule: Retention) -> list[Version]:
    """Return the versions of a key after ``update``, oldest first. ``update.time`` is not before the last time."""
    # At the entry's own time, not the clock's: a rebuild years later keeps the same versions as the live write.
    kept = prune_versions(versions, update.time, rule.window)
    if len(kept) >= 2:
        anchor, current = kept[-2], kept[-1]
        # The version before the current one anchors the spacing. If the current one came too soon after it, the update
        # replaces it, and the anchor is marked as lossy (behaviour 2.2, 11.9).
        spaced = rule.granularity == 0 or current.time - anchor.time >= rule.granularity
        # Deletions and the versions after them are kept, so that the absence of a key is known (behaviour 11.8).
        if not (spaced or current.tombstone or anchor.tombstone):
            kept[-2:] = [replace(anchor, lossy=True)]
    kept.append(update)
    return kept


def find_version_at(versions: Sequence[Version], at: Micros) -> Version | None:
    """Return the version that was current at ``at`` (inclusive), or None if the key did not exist then.

    For an :class:`~sowctl.values.times.EntryInstant`, the version after its entry.

    The caller handles an instant before the window itself (``behaviour`` 2.1, rule 6).
    """
    last = find_last_txid(at)
    for version in reversed(versions):
        if version.time <= at if last is None else version.txid <= last:
            return None if version.tombstone else version
    return None


def build_retention(history: History | None) -> Retention | None:
    """Return the rule of a topic, None without a history."""
    return None if history is None else Retention(history.window_us, history.granularity_us)


def decode_version(value: bytes) -> Version:
    """Return a stored value as a version."""
    txid, time = read_stamps(value)
    return Version(time, txid, value, bool(value[0] & TOMBSTONE_FLAG), bool(value[0] & LOSSY_FLAG))


def encode_version(key: bytes, version: Version) -> bytes:
    """Return the stored value of a version, with its flags."""
    flags = (TOMBSTONE_FLAG if version.tombstone else 0) | (LOSSY_FLAG if version.lossy else 0)
    return (
        version.value
        if version.value[0] & (TOMBSTONE_FLAG | LOSSY_FLAG) == flags
        else replace_flags(key, version.value, flags)
    )


def extend_versions(versions: list[Version], updates: Iterable[bytes], rule: Retention) -> list[Version]:
    """Return the versions of a key, oldest first, after ``updates`` (stored values in txid order)."""
    for update in updates:
        versions = append_version(versions, decode_version(update), rule)
    return versions
