"""Columns of a block: bytes and arrays, on machines of either byte order; invalid lengths are refused, not guessed."""

from __future__ import annotations

from array import array

import pytest

from sowctl.journal import columns as codec
from sowctl.journal.blockcodec import (
    CODEC_NONE,
    CODEC_ZSTD,
    MAX_RAW_BYTES,
)
from sowctl.journal.entries import (
    CORRELATION_IDS_FLAG,
    HAS_CORRELATION_ID,
    HAS_LOGICAL_TOPIC,
    HAS_USER_KEY,
    LOGICAL_TOPICS_FLAG,
    USER_KEYS_FLAG,
    EntryBatch,
)
from sowctl.journal.format import NO_PUBLISHER
from sowctl.values.topicref import TopicRef

COUNT = 3
REFS = [TopicRef("a", "json"), TopicRef("b", "json")]
FLAGS = array("H", [HAS_USER_KEY | HAS_LOGICAL_TOPIC, HAS_CORRELATION_ID, HAS_USER_KEY])
TEXTS = (
    [b"one", None, b""],
    [None, b"correlation", None],
    [b"/topic", None, None],
)
ALL = USER_KEYS_FLAG | CORRELATION_IDS_FLAG | LOGICAL_TOPICS_FLAG


def packed(**changed: array[int]) -> bytes:
    """Return the columns of three entries, with all texts; ``changed`` replaces columns."""
    parts = {
        "times": array("q", [5, -6, 7]),
        "expirations": array("q", [0, 1 << 62, 0]),
        "sequences": array("Q", [1, (1 << 64) - 1, 3]),
        "lengths": array("I", [2, 0, 4]),
        "topic_indexes": array("H", [0, 1, 0]),
        "publisher_indexes": array("H", [NO_PUBLISHER, 0, 0]),
        "flags": FLAGS,
    } | changed
    raw = (
        b"k" * 8 * COUNT
        + b"c" * 8 * COUNT
        + b"".join(map(codec.encode_little_endian, parts.values()))
        + bytes([1, 2, 1])
    )
    for texts in TEXTS:
        raw += codec.pack_text_column(texts, len(raw))
    return raw


def unpacked(
    raw: bytes, flags: int = ALL, payloads: int = 6, topic_count: int = 2, publisher_count: int = 1
) -> EntryBatch:
    refs, publishers = REFS[:topic_count], [(7, "me")][:publisher_count]
    return codec.unpack_columns(
        memoryview(raw), range(11, 11 + COUNT), flags, payloads, refs, publishers, lambda: memoryview(b"abcdef")
    )


def check(found: EntryBatch) -> None:
    assert (len(found), found.txids, found.topic_refs, found.publishers) == (3, range(11, 14), REFS, [(7, "me")])
    assert list(found.payloads) == [b"ab", b"", b"cdef"] and found.payloads[1:] == [b"", b"cdef"]
    assert bytes(found.keys) == b"k" * 24 and bytes(found.checks) == b"c" * 24
    assert list(found.times) == [5, -6, 7] and list(found.expirations) == [0, 1 << 62, 0]
    assert list(found.sequences) == [1, (1 << 64) - 1, 3] and list(found.lengths) == [2, 0, 4]
    assert list(found.topic_indexes) == [0, 1, 0] and list(found.publisher_indexes) == [NO_PUBLISHER, 0, 0]
    assert list(found.flags) == list(FLAGS) and list(found.operations) == [1, 2, 1]
    assert [found.user_keys, found.correlation_ids, found.logical_topics] == list(TEXTS)


def test_columns_come_back_as_they_went_in() -> None:
    check(unpacked(packed()))


def test_a_machine_of_the_other_byte_order_turns_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a little-endian machine the code for big-endian ones swaps the bytes: applied twice it changes nothing."""
    straight = packed()
    monkeypatch.setattr(codec, "_IS_LITTLE_ENDIAN", False)
    turned = packed()
    assert turned != straight and len(turned) == len(straight)
    check(unpacked(turned))


@pytest.mark.parametrize(
    ("raw", "given", "words"),
    [
        (packed()[: codec.ENTRY_SIZE * COUNT - 1], {}, "cut short"),
        (packed(), {"payloads": 7}, "do not add up"),
        (packed(), {"topic_count": 1}, "topic"),
        (packed(), {"publisher_count": 0}, "publisher"),
        (packed(publisher_indexes=array("H", [NO_PUBLISHER, 1, 0])), {}, "publisher"),
        (packed(flags=array("H", [HAS_LOGICAL_TOPIC, HAS_CORRELATION_ID, HAS_USER_KEY])), {}, "without its flag"),
        (packed() + b"\0", {}, "bytes after"),
        (packed(), {"flags": USER_KEYS_FLAG}, "bytes after"),
        (packed()[:-8], {}, "text column"),
        (packed()[: codec.ENTRY_SIZE * COUNT + 8], {}, "text column"),
    ],
)
def test_columns_that_do_not_fit_are_refused(raw: bytes, given: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        unpacked(raw, **given)


def test_what_is_not_stated_is_not_unpacked() -> None:
    raw = b"text " * 1000
    stored = memoryview(codec.compress_part(CODEC_ZSTD, raw))
    assert bytes(codec.decompress_part(CODEC_ZSTD, stored, len(raw))) == raw
    assert codec.compress_part(CODEC_NONE, raw) is raw
    for kind, content, size in (
        (CODEC_NONE, memoryview(raw), 1),
        (CODEC_ZSTD, stored, len(raw) - 1),
        (CODEC_ZSTD, stored, MAX_RAW_BYTES + 1),
        (CODEC_ZSTD, memoryview(b"no frame"), 8),
        (CODEC_ZSTD, stored[:-3], len(raw)),
        (7, stored, len(raw)),
    ):
        with pytest.raises(ValueError):
            codec.decompress_part(kind, content, size)


def test_numpy_sees_the_same_numbers() -> None:
    pytest.importorskip("numpy")
    plain = unpacked(packed())
    from sowctl.journal.arrays import EntryArrays

    arrays = EntryArrays(plain)
    for name in (
        "times",
        "expirations",
        "sequences",
        "lengths",
        "topic_indexes",
        "publisher_indexes",
        "flags",
        "operations",
    ):
        assert getattr(arrays, name).tolist() == list(getattr(plain, name)), name
    assert arrays.keys.tolist() == [int.from_bytes(b"k" * 8, "big")] * COUNT
    assert (arrays.user_keys, arrays.correlation_ids, arrays.logical_topics) == TEXTS
    assert arrays.times is arrays.times
    with pytest.raises(AttributeError):
        arrays.prices  # noqa: B018 - there is no such column


def _raw_of(keys: list[bytes], operations: bytes) -> memoryview:
    """Return columns in which only the keys and the operations are set."""
    raw = bytearray(codec.ENTRY_SIZE * len(keys))
    raw[: 8 * len(keys)] = b"".join(keys)
    start = (codec.ENTRY_SIZE - 1) * len(keys)  # operations are the last of the fixed columns
    raw[start : start + len(keys)] = operations
    return memoryview(bytes(raw))


def test_whether_columns_may_hold_a_key_and_an_operation_is_told_without_unpacking() -> None:
    keys = [bytes(7) + b"\x01", b"\x01" + bytes(7), b"abcdefgh"]
    raw = _raw_of(keys, b"\x01\x01\x02")
    assert codec.may_match_entries(raw, 3, None, None)
    assert codec.may_match_entries(raw, 3, [b"abcdefgh"], b"\x02")
    assert not codec.may_match_entries(raw, 3, [b"abcdefgh"], b"\x03")
    assert not codec.may_match_entries(raw, 3, [b"hgfedcba"], None)
    # These bytes span the first two keys, and match neither.
    assert not codec.may_match_entries(raw, 3, [b"\x00\x01\x01" + bytes(5)], None)
    many = [bytes((n,)) * 8 for n in range(200)]
    for form in (list, frozenset):
        assert not codec.may_match_entries(raw, 3, form(many[3:90]), None)
        assert codec.may_match_entries(raw, 3, form([*many, b"abcdefgh"]), None)
        assert not codec.may_match_entries(raw, 3, form([b"\x00\x01\x01" + bytes(5)]), None)
    with pytest.raises(ValueError, match="cut short"):
        codec.may_match_entries(raw[:-1], 3, None, None)
