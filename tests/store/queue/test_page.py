"""Pages and rows of a state file: encoded values are decoded again, and a bit flip is found (``sow-queue(5)``)."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.checksum import crc32
from sowctl.errors import DamageError, VersionError
from sowctl.store.queue import values
from sowctl.store.queue.page import BARRIER, DELAYED, DONE, LEASED, READY, Page


def page(*states: int) -> Page:
    made = Page.create_empty()
    made.append_messages(array("Q", range(10, 10 + len(states))), (3, 4096, 9), states=bytes(states))
    return made


@given(
    st.lists(
        st.tuples(
            st.sampled_from((DONE, READY, LEASED, DELAYED, BARRIER)),
            st.integers(0, 65535),
            st.integers(0, (1 << 63) - 1),
            st.integers(0, (1 << 64) - 1),
        ),
        max_size=20,
    )
)
def test_a_page_is_read_back(rows: list[tuple[int, int, int, int]]) -> None:
    made = Page.create_empty()
    made.append_messages(
        array("Q", range(1, len(rows) + 1)),
        (1, 80, 0),
        states=bytes(row[0] for row in rows),
        deliveries=[row[1] for row in rows],
        until=[row[2] for row in rows],
        tokens=[row[3] for row in rows],
        priorities=[row[3] for row in rows],
    )
    made.alarm = 77
    again = Page.decode(made.encode())
    assert again == made


def test_columns_of_zeros_take_no_room() -> None:
    fresh = page(*(READY,) * 256)
    assert len(fresh.encode()) == 20 + 24 + 256 * 9
    fresh.tokens[7] = 1
    assert len(fresh.encode()) == 20 + 24 + 256 * 17


def test_every_wrong_bit_is_found() -> None:
    raw = page(READY, LEASED).encode()
    for place in range(len(raw)):
        broken = bytearray(raw)
        broken[place] ^= 1
        with pytest.raises(ValueError, match="page"):
            Page.decode(bytes(broken))
    for length in range(len(raw)):
        with pytest.raises(ValueError, match="page"):
            Page.decode(raw[:length])


def test_messages_of_several_blocks() -> None:
    made = page(READY, READY)
    made.append_messages(array("Q", (20, 21)), (3, 4096, 9))
    made.append_messages(array("Q", (30,)), (3, 9000, 29))
    assert [made.find_block_place(index).offset for index in range(5)] == [4096, 4096, 4096, 4096, 9000]
    assert len(made.places) == 2
    assert [made.find_index(txid) for txid in (10, 12, 30, 31)] == [0, -1, 4, -1]


@given(st.binary(min_size=16, max_size=80))
def test_a_row_of_another_database_is_no_page(body: bytes) -> None:
    """The checksum is correct, as it is computed in the same way."""
    # The number of blocks, in the fifth and sixth byte, exceeds the space.
    body = body[:4] + b"\4\0" + body[6:]
    with pytest.raises(ValueError, match="not as long"):
        Page.decode(crc32(body).to_bytes(4, "little") + body)


def test_the_next_alarm_is_that_of_pending_messages() -> None:
    made = page(DONE, LEASED, READY, DELAYED)
    made.until[0], made.until[1], made.until[3] = 1, 50, 40
    made.expirations[2] = 45
    assert made.find_next_alarm() == 40
    made.states[3] = DONE
    assert made.find_next_alarm() == 45
    assert page(READY).find_next_alarm() == 0


def test_state_and_rows_are_read_back_and_damage_is_named(tmp_path: Path) -> None:
    state = values.QueueState("a", "json", b"12", "epoch", 5, expired={"gone": 2}, block=(1, 2, 3))
    state.open_minute(120_000_000).acked += 1
    raw = values.encode_state(state)
    assert values.decode_state(raw, "f") == state
    for place in (0, 20, len(raw) - 1):
        broken = bytearray(raw)
        broken[place] ^= 1
        with pytest.raises(DamageError) as caught:
            values.decode_state(bytes(broken), "f")
        assert caught.value.code == "SOW-QUE-002"
    newer = raw[:8] + b"\2" + raw[9:]
    with pytest.raises(VersionError) as later:
        values.decode_state(newer, "f")
    assert later.value.code == "SOW-QUE-003"
    holder = values.Holder("w", True, 7)
    assert values.decode_value(values.encode_value(holder), values.Holder) == holder
    with pytest.raises(ValueError, match="checksum"):
        values.decode_value(b"abcd" + values.encode_value(holder)[4:], values.Holder)


def test_only_the_last_minutes_are_kept() -> None:
    state = values.QueueState("a", "json", b"", "epoch", 0)
    for number in range(30):
        state.open_minute(number * 60_000_000).entered += 1
    assert [row.number for row in state.minutes] == list(range(20, 30))
