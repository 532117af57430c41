"""Reading versions and the expiry index: what a store keeps beside its records, in order and verified.

Called by :class:`sowctl.store.read.Reader` and a write transaction, for topics with history or expiration; a command
that reads records does without it. Ruled by ``sow-store(5)``, "History", "Expiry" and "How to read".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sowctl.errors import DamageError
from sowctl.store.integrity import refuse_damaged
from sowctl.store.keys import damaged_entries, history_key_of, split_history_key
from sowctl.store.lmdberrors import REBUILD
from sowctl.store.ordered import Batch, Ordered, inconsistent

Version = tuple[int, int, bytes]
"""Time, txid, value."""


def scan(
    history: Ordered, path: Path, counted: int, start: bytes | None, stop: bytes | None, batch: int
) -> Iterator[Batch]:
    """Versions in verified batches; of a scan of all, ``counted`` is how many there must be. Raises DamageError."""
    seen = 0
    for keys, values in history.walk(start, stop, batch):
        verify_versions(keys, values, path)
        seen += len(keys)
        yield keys, values
    if start is None and stop is None and seen != counted:
        raise inconsistent(f"{seen} versions were found, {counted} are counted", path)


def versions(history: Ordered, path: Path, key: bytes) -> list[Version]:
    """The versions of one key, oldest first. Raises DamageError."""
    following = (int.from_bytes(key, "big") + 1).to_bytes(9, "big")
    stop = None if following[0] else following[1:]
    found: list[Version] = []
    for keys, values in history.walk(key, stop, 256):
        verify_versions(keys, values, path)
        found.extend((*split_history_key(one)[1:], value) for one, value in zip(keys, values, strict=True))
    return found


def verify_versions(keys: Sequence[bytes], values: Sequence[bytes], path: Path) -> None:
    """Raise DamageError SOW-STO-001 or SOW-STO-004 unless all versions are sound and filed where they belong."""
    short = [key[:8] for key in keys]
    refuse_damaged(short, values, path)
    if list(map(history_key_of, short, values)) != list(keys):
        raise DamageError("SOW-STO-004", "the key and the value of a version disagree", place=str(path), hint=REBUILD)


def expired(expiry: Ordered, path: Path, now: int) -> Iterator[bytes]:
    """SOW keys of the entries at or before ``now`` (microseconds), oldest first. Raises DamageError SOW-STO-052."""
    stop = max(now + 1, 0).to_bytes(8, "big")
    for keys, values in expiry.walk(None, stop, 1000):
        if damaged_entries(keys, values):
            message = "an entry of the expiry index is damaged: its checksum does not match"
            raise DamageError("SOW-STO-052", message, place=str(path), hint=REBUILD)
        for key in keys:
            yield key[8:]
