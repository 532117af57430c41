"""Versions of keys between stored bytes and the retention rule: used by apply, replay and as-of reads alike."""

from __future__ import annotations

from collections.abc import Iterable

from sowctl.config.model import History
from sowctl.engine.topics.retention import Retention, Version, append
from sowctl.store.codec import LOSSY, TOMBSTONE, stamps, with_flags


def retention(history: History | None) -> Retention | None:
    """The rule of a topic, None where it keeps no history."""
    return None if history is None else Retention(history.window_us, history.granularity_us)


def version_of(value: bytes) -> Version:
    """A stored value as a version."""
    txid, time = stamps(value)
    return Version(time, txid, value, bool(value[0] & TOMBSTONE), bool(value[0] & LOSSY))


def value_of(key: bytes, version: Version) -> bytes:
    """The stored value of a version, with the flags that the rule gave it."""
    flags = (TOMBSTONE if version.tombstone else 0) | (LOSSY if version.lossy else 0)
    return version.value if version.value[0] & (TOMBSTONE | LOSSY) == flags else with_flags(key, version.value, flags)


def extend(versions: list[Version], updates: Iterable[bytes], rule: Retention) -> list[Version]:
    """The versions of a key, oldest first, after ``updates`` (stored values in txid order)."""
    for update in updates:
        versions = append(versions, version_of(update), rule)
    return versions
