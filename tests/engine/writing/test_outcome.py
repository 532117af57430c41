"""Outcomes of messages: effect on the key, time and lifetime, decided over columns of plain values."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.writing.outcome import (
    ExpirationInstant,
    Lifetime,
    Status,
    assign_times,
    compute_entry_flags,
    compute_expiration,
    compute_expirations,
    decide_outcomes,
    find_unchanged,
    is_duplicate,
)
from sowctl.journal.format import INSERTED_FLAG
from sowctl.store import codec
from sowctl.values.times import MAX_MICROS

CHECK = b"12345678"
OTHER = b"87654321"
PAYLOADS = st.sampled_from([b"", b"{}", b"{ }", b"ab", b"\0\0", b"\0\0{}", b"{}\0\0"])
PARTS = st.none() | st.sampled_from([b"", b"{}", b"ab"])
ROWS = st.lists(st.tuples(st.none() | st.tuples(PAYLOADS, PARTS, PARTS), PAYLOADS), max_size=12)


def statuses(
    keys: list[bytes], checks: list[bytes], payloads: list[bytes], befores: list[bytes | None]
) -> list[Status]:
    return decide_outcomes(keys, checks, payloads, befores, find_unchanged(befores, payloads)).statuses


@given(ROWS)
def test_a_record_is_unchanged_when_its_payload_is(
    rows: list[tuple[tuple[bytes, bytes | None, bytes | None] | None, bytes]],
) -> None:
    """With and without optional parts of the record, of any length."""
    keys = [number.to_bytes(8, "big") for number in range(len(rows))]
    befores = [
        None if before is None else codec.encode_record(key, CHECK, 1, 2, 0, 0, before[0], (before[1], before[2], None))
        for key, (before, _) in zip(keys, rows, strict=True)
    ]
    expected = [
        "inserted" if before is None else "unchanged" if before[0] == payload else "updated" for before, payload in rows
    ]
    assert statuses(keys, [CHECK] * len(rows), [payload for _, payload in rows], befores) == expected


def test_a_key_that_comes_again_is_compared_with_the_message_before_it() -> None:
    one, two = bytes(8), b"\1" * 8
    old = codec.encode_record(one, CHECK, 1, 2, 0, 0, b"old")
    befores = [old, None, old, old, None]
    keys, payloads = [one, two, one, one, two], [b"new", b"x", b"new", b"old", b"y"]
    assert statuses(keys, [CHECK] * 5, payloads, befores) == ["updated", "inserted", "unchanged", "updated", "updated"]


@given(ROWS, st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_key_with_another_check_collides(rows: list[tuple[object, bytes]], own: list[bool]) -> None:
    keys = [number.to_bytes(8, "big") for number in range(len(rows))]
    befores = [
        codec.encode_record(key, CHECK if mine else OTHER, 1, 2, 0, 0, b"{}") if before is not None else None
        for key, (before, _), mine in zip(keys, rows, own, strict=False)
    ]
    found = statuses(keys, [CHECK] * len(rows), [payload for _, payload in rows], befores)
    collided = [place for place in range(len(rows)) if rows[place][0] is not None and not own[place]]
    assert [place for place, status in enumerate(found) if status == "collided"] == collided


KEYED = st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([b"{}", b"ab"]), st.booleans())


@given(st.lists(KEYED, max_size=12), st.dictionaries(st.integers(0, 2), st.tuples(st.booleans(), PAYLOADS)))
def test_is_what_one_message_after_the_other_says(
    messages: list[tuple[int, bool, bytes, bool]], records: dict[int, tuple[bool, bytes]]
) -> None:
    """Against a model; a digest of each payload gives the same result as the payload."""
    keys = [number.to_bytes(8, "big") for number, _, _, _ in messages]
    checks = [CHECK if own else OTHER for _, own, _, _ in messages]
    payloads = [payload for _, _, payload, _ in messages]
    deletes = [gone for _, _, _, gone in messages]
    stored = {
        number: codec.encode_record(number.to_bytes(8, "big"), CHECK if own else OTHER, 1, 2, 0, 0, payload)
        for number, (own, payload) in records.items()
    }
    befores = [stored.get(number) for number, _, _, _ in messages]
    model = {number: (CHECK if own else OTHER, payload) for number, (own, payload) in records.items()}
    expected, removed = [], {}
    for index, (number, _, payload, gone) in enumerate(messages):
        record = model.get(number)
        if gone:
            expected.append("missing" if record is None else "deleted")
            if record is not None:
                removed[index] = record[0]
                del model[number]
        elif record is None or record[0] == checks[index]:
            expected.append("inserted" if record is None else "unchanged" if record[1] == payload else "updated")
            model[number] = checks[index], payload
        else:
            expected.append("collided")
    same = find_unchanged(befores, payloads)
    assert decide_outcomes(keys, checks, payloads, befores, same, deletes) == (expected, removed)
    digests = [sha256(payload).digest() for payload in payloads]
    assert decide_outcomes(keys, checks, digests, befores, same, deletes) == (expected, removed)
    if True not in deletes:
        assert decide_outcomes(keys, checks, payloads, befores, same) == (expected, {})
    if not any(befores):
        assert decide_outcomes(keys, checks, payloads, befores, None, deletes) == (expected, removed)


@given(st.lists(st.none() | st.integers(0, 9), max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_time_never_goes_back(own: list[int | None], now: int, last: int) -> None:
    expected, older, latest = [], [], last
    for index, time in enumerate(own):
        if time is not None and time < latest:
            older.append(index)
        latest = max(latest, now if time is None else time)
        expected.append(latest)
    assert assign_times(own, len(own), now, last) == (expected, older)
    assert assign_times(None, 3, now, last) == ([max(now, last)] * 3, [])


@pytest.mark.parametrize(
    ("lifetime", "usual", "expected"),
    [
        (None, None, 0),
        (None, 5, 105),
        (0, 5, 0),
        (7, 5, 107),
        (ExpirationInstant(3), 5, 3),
        (None, MAX_MICROS, 0),
    ],
)
def test_a_lifetime_is_the_message_s_own_or_the_usual_one(lifetime: Lifetime, usual: int | None, expected: int) -> None:
    assert compute_expiration(100, lifetime, usual) == expected
    assert compute_expirations([100, 100], [lifetime, None], usual) == [expected, compute_expiration(100, None, usual)]
    assert compute_expirations([100, 200], None, usual) == [
        compute_expiration(100, None, usual),
        compute_expiration(200, None, usual),
    ]
    assert compute_expirations([100, 100], None, usual) == [compute_expiration(100, None, usual)] * 2
    assert compute_expirations([], None, usual) == []


def test_a_number_up_to_the_highest_is_a_duplicate() -> None:
    assert [is_duplicate(number, 3) for number in (2, 3, 4)] == [True, True, False]


def test_flags_say_which_keys_are_new() -> None:
    assert compute_entry_flags(["inserted", "updated", "unchanged"]) == [INSERTED_FLAG, 0, 0]
