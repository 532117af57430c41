"""What each message of a batch is to its key: inserted, updated, unchanged, or refused for a key that is another's.

Called by :mod:`sowctl.engine.writing.outcome`, with the stored records of the batch's keys. Ruled by ``sow-store(5)``,
SOW key and Records.
"""

from __future__ import annotations

from itertools import compress, repeat

from sowctl.store.codec import CHECK, HEADER_SIZE, OVERHEAD, PLAIN, has_payload
from sowctl.values.fields import Refusal

STATUSES = ("inserted", "updated", "unchanged")
"""What a message that is written can be to its key; the names are those of the counts in reports."""


def classify(
    keys: list[bytes],
    checks: list[bytes],
    payloads: list[bytes],
    keep: list[int],
    stored: dict[bytes, bytes],
    refused: list[Refusal],
    places: list[int],
) -> list[str]:
    """What every kept message is to its key; refuses keys that collide with another's, which get no status."""
    if len(keep) < len(keys):
        places = [places[index] for index in keep]
        keys, checks, payloads = ([column[index] for index in keep] for column in (keys, checks, payloads))
    befores = list(map(stored.get, keys))
    repeats = _repeats(keys)
    owned = map(bytes.startswith, filter(None, befores), compress(checks, befores), repeat(CHECK.start))
    if not all(owned) or any(checks[place] != checks[earlier] for place, earlier in repeats):
        return _classify_collisions(keys, checks, payloads, befores, refused, places)
    statuses = [
        "inserted"
        if b is None
        else _compared(b, p)
        if not b.startswith(PLAIN)
        else "unchanged"
        if len(b) - len(p) == OVERHEAD and b.startswith(p, HEADER_SIZE)
        else "updated"
        for b, p in zip(befores, payloads, strict=True)
    ]
    for place, earlier in repeats:
        statuses[place] = "unchanged" if payloads[place] == payloads[earlier] else "updated"
    return statuses


def _compared(value: bytes, payload: bytes) -> str:
    """The general comparison, for values with optional parts too."""
    return "unchanged" if has_payload(value, payload) else "updated"


def _repeats(keys: list[bytes]) -> list[tuple[int, int]]:
    """Places of keys that the batch holds before, each with the place of the one before it."""
    last = dict(zip(keys, range(len(keys)), strict=True))
    if len(last) == len(keys):
        return []
    twice = {key for place, key in enumerate(keys) if last[key] != place}
    seen: dict[bytes, int] = {}
    found = []
    for place, key in enumerate(keys):
        if key in twice:
            if key in seen:
                found.append((place, seen[key]))
            seen[key] = place
    return found


def _classify_collisions(
    keys: list[bytes],
    checks: list[bytes],
    payloads: list[bytes],
    befores: list[bytes | None],
    refused: list[Refusal],
    places: list[int],
) -> list[str]:
    """As :func:`classify`, one by one, where some key belongs to a record with other key values."""
    owners: dict[bytes, tuple[bytes, bytes]] = {}
    statuses = []
    for key, check, payload, before, place in zip(keys, checks, payloads, befores, places, strict=True):
        owner = owners.get(key, (before[CHECK], before) if before is not None else None)
        if owner is not None and owner[0] != check:
            refused.append(Refusal(place, *collision(int.from_bytes(key, "big"))))
            continue
        if owner is None:
            statuses.append("inserted")
        elif key in owners:
            statuses.append("unchanged" if owner[1] == payload else "updated")
        else:
            assert before is not None
            statuses.append(_compared(before, payload))
        owners[key] = check, payload
    return statuses


def collision(sow_key: int) -> tuple[str, str]:
    """Code and words for a message whose key is that of a record with other key values."""
    return "SOW-PUB-007", f"its SOW key {sow_key} belongs to a record with other key values"
