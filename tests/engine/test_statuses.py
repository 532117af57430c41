"""What a message is to its key: the same whether its record has optional parts, and whatever their lengths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.writing.statuses import classify
from sowctl.store import codec
from sowctl.values.fields import Refusal

CHECK = b"12345678"
PAYLOADS = st.sampled_from([b"", b"{}", b"{ }", b"ab", b"\0\0", b"\0\0{}", b"{}\0\0"])
PARTS = st.none() | st.sampled_from([b"", b"{}", b"ab"])
ROWS = st.lists(st.tuples(st.none() | st.tuples(PAYLOADS, PARTS, PARTS), PAYLOADS), max_size=12)


@given(ROWS)
def test_a_record_is_unchanged_when_its_payload_is(
    rows: list[tuple[tuple[bytes, bytes | None, bytes | None] | None, bytes]],
) -> None:
    keys = [number.to_bytes(8, "big") for number in range(len(rows))]
    stored = {
        key: codec.encode(key, CHECK, 1, 2, 0, 0, before[0], user_key=before[1], correlation_id=before[2])
        for key, (before, _) in zip(keys, rows, strict=True)
        if before is not None
    }
    expected = [
        "inserted" if before is None else "unchanged" if before[0] == payload else "updated" for before, payload in rows
    ]
    payloads = [payload for _, payload in rows]
    places = list(range(len(rows)))
    assert classify(keys, [CHECK] * len(rows), payloads, places, stored, [], places) == expected


def test_a_key_that_comes_again_is_compared_with_the_message_before_it() -> None:
    one, two = bytes(8), b"\1" * 8
    stored = {one: codec.encode(one, CHECK, 1, 2, 0, 0, b"old")}
    keys, payloads = [one, two, one, one, two], [b"new", b"x", b"new", b"old", b"y"]
    found = classify(keys, [CHECK] * 5, payloads, list(range(5)), stored, [], list(range(5)))
    assert found == ["updated", "inserted", "unchanged", "updated", "updated"]
    found = classify(keys, [CHECK] * 5, payloads, [0, 2, 4], stored, [], list(range(5)))
    assert found == ["updated", "unchanged", "inserted"]


@given(ROWS, st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_key_with_another_check_is_refused(rows: list[tuple[object, bytes]], own: list[bool]) -> None:
    keys = [number.to_bytes(8, "big") for number in range(len(rows))]
    stored = {
        key: codec.encode(key, b"1234567" + b"98"[mine : mine + 1], 1, 2, 0, 0, b"{}")
        for key, (before, _), mine in zip(keys, rows, own, strict=False)
        if before is not None
    }
    refused: list[Refusal] = []
    places = list(range(len(rows)))
    found = classify(keys, [CHECK] * len(rows), [payload for _, payload in rows], places, stored, refused, places)
    collided = [place for place in places if rows[place][0] is not None and not own[place]]
    assert [one.index for one in refused] == collided
    assert len(found) == len(rows) - len(collided)
