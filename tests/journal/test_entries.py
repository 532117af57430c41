"""Batches of entries: an operation on a whole batch has the same result for each entry as on a batch of that entry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from sowctl.engine.fold.blocks import encode_values
from sowctl.identity.keyspace import join_words, split_words
from sowctl.journal import format as fmt
from sowctl.journal.entries import ENTRY_COLUMNS, EntryBatch, concatenate_batches, interleave_batches
from tests.support.examples import examples

TEXT = st.none() | st.binary(max_size=4)
REFS = [("a", "json"), ("b", "fix"), ("c", "json")]
NAMES = [(7, "me"), (8, "you")]


@st.composite
def batches(draw: st.DrawFn, least: int = 1) -> EntryBatch:
    """A batch with columns of every form: one value for all, lists, concatenated bytes, texts that no entry has."""
    count = draw(st.integers(least, 6))

    def many(strategy: st.SearchStrategy) -> list:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    def column(strategy: st.SearchStrategy) -> object:
        return draw(strategy) if draw(st.booleans()) else many(strategy)

    def words() -> list[bytes] | bytes:
        listed = many(st.binary(min_size=8, max_size=8))
        return listed if draw(st.booleans()) else b"".join(listed)

    refs = draw(st.permutations(REFS))[: draw(st.integers(1, 3))]
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, 2))]
    return EntryBatch(
        topic_refs=refs,
        payloads=many(st.binary(max_size=8)),
        keys=words(),
        checks=words(),
        times=column(st.integers(0, 9)),
        expirations=column(st.integers(0, 9)),
        flags=column(st.sampled_from([0, fmt.INSERTED_FLAG])),
        operations=column(st.sampled_from([fmt.PUBLISH, fmt.DELETE])),
        topic_indexes=column(st.integers(0, len(refs) - 1)),
        publishers=names,
        publisher_indexes=column(st.sampled_from([*range(len(names)), fmt.NO_PUBLISHER])),
        sequences=column(st.integers(0, 9)),
        user_keys=draw(st.none() | st.just(many(TEXT))),
        correlation_ids=draw(st.none() | st.just(many(TEXT))),
        logical_topics=draw(st.none() | st.just(many(TEXT))),
    )


def rows(batch: EntryBatch) -> list[dict[str, object]]:
    """Return the entries one by one, without indexes into lists, in plain Python."""
    batch.check_lengths()
    found = []
    for place in range(len(batch)):
        row: dict[str, object] = {"payload": batch.payloads[place]}
        for column in ENTRY_COLUMNS:
            if column.name == "lengths":
                continue
            values = getattr(batch, column.name)
            if column.code == "8s":
                row[column.name] = join_words(values)[8 * place : 8 * place + 8]
            else:
                row[column.name] = values if values is None or isinstance(values, int) else values[place]
        row["topic_indexes"] = batch.topic_refs[row["topic_indexes"]]  # type: ignore[index]
        who = row["publisher_indexes"]
        row["publisher_indexes"] = None if who == fmt.NO_PUBLISHER else batch.publishers[who]  # type: ignore[index]
        found.append(row)
    return found


def test_a_batch_has_the_columns_of_the_table_and_no_others() -> None:
    names = {column.name for column in ENTRY_COLUMNS} - {"lengths"}
    assert set(EntryBatch.__struct_fields__) == names | {"topic_refs", "publishers", "payloads", "stored", "txids"}


@settings(max_examples=examples(200), deadline=None)
@given(batches(), st.data())
def test_entries_are_taken_and_cut(batch: EntryBatch, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=8))
    assert rows(batch.take(places)) == [rows(batch)[place] for place in places]
    assert len(batch.take([])) == 0
    start = data.draw(st.integers(0, len(batch) - 1))
    stop = data.draw(st.integers(start + 1, len(batch)))
    assert rows(batch.slice(start, stop)) == rows(batch)[start:stop]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(batches(), min_size=1, max_size=4))
def test_batches_are_put_together_and_apart_again(parts: list[EntryBatch]) -> None:
    whole = concatenate_batches(parts)
    assert rows(whole) == [row for part in parts for row in rows(part)]
    start = 0
    for part in parts:
        assert rows(whole.slice(start, start + len(part))) == rows(part)
        start += len(part)
    assert rows(concatenate_batches([whole.slice(place, place + 1) for place in range(len(whole))])) == rows(whole)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(batches(), min_size=1, max_size=4), st.randoms())
def test_batches_interleave_by_place(parts: list[EntryBatch], order: object) -> None:
    places = list(range(sum(map(len, parts))))
    order.shuffle(places)  # type: ignore[attr-defined]
    mine, start = [], 0
    for part in parts:
        mine.append(sorted(places[start : start + len(part)]))
        start += len(part)
    whole, ranks = interleave_batches(parts, mine)
    for part, rank, own in zip(parts, ranks, mine, strict=True):
        assert list(rank) == own
        assert rows(whole.take(rank)) == rows(part)


@settings(max_examples=examples(200), deadline=None)
@given(batches(), st.data())
def test_the_values_of_a_batch_are_those_of_its_entries(batch: EntryBatch, data: st.DataObject) -> None:
    txids = data.draw(st.lists(st.integers(1, 99), min_size=len(batch), max_size=len(batch)))
    single = [encode_values(batch.slice(place, place + 1), [txid])[0] for place, txid in enumerate(txids)]
    assert encode_values(batch, txids) == single


@given(batches())
def test_a_publisher_is_that_of_all_entries(batch: EntryBatch) -> None:
    assert batch.set_publisher(None, 3) is batch
    named = rows(batch.set_publisher((9, "other"), 3))
    changed = [row | {"publisher_indexes": (9, "other"), "sequences": 3} for row in rows(batch)]
    assert named == changed


@given(batches(), st.data())
def test_a_deletion_is_key_check_word_time_and_logical_topic(batch: EntryBatch, data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    less = {"payload": b"", "expirations": 0, "user_keys": None, "correlation_ids": None}
    wanted = [
        row | ({"operations": fmt.DELETE} | less if out else {"operations": fmt.PUBLISH})
        for row, out in zip(rows(batch), gone, strict=True)
    ]
    assert rows(batch.mark_deletions(gone)) == wanted


@given(batches(), st.sampled_from([column.name for column in ENTRY_COLUMNS if column.name != "lengths"]))
def test_columns_of_another_length_are_refused(batch: EntryBatch, name: str) -> None:
    longer = [bytes(8)] * (len(batch) + 1) if name in ("keys", "checks") else [1] * (len(batch) + 1)
    with pytest.raises(ValueError, match="lengths"):
        structs.replace(batch, **{name: longer}).check_lengths()


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=600))
def test_words_are_split_and_joined(words: list[bytes]) -> None:
    raw = b"".join(words)
    assert split_words(raw) == split_words(words) == split_words(memoryview(raw)) == words
    assert join_words(raw) == join_words(words) == join_words(memoryview(raw)) == raw
