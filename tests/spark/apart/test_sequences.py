"""Which checkpoint the batches of a stream belong to, by what the topic has of their publisher."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.errors import RefusedError
from sowctl.remote.place import RemotePath
from sowctl.spark.writing.sequences import MAX_BATCH_ID, StreamBatch


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """One that has planned batches up to 9."""
    (tmp_path / "one" / "offsets").mkdir(parents=True)
    for batch in range(10):
        plan(tmp_path / "one", batch, "planned once")
    return tmp_path / "one"


def plan(checkpoint: Path, batch: int, words: str) -> None:
    """As Spark does it, before it runs the batch."""
    (checkpoint / "offsets" / str(batch)).write_text(f"{batch} {words}")


def of(checkpoint: Path | RemotePath | None, batch: int, query: str = "one") -> StreamBatch:
    return StreamBatch("a", "copier", query, batch, checkpoint)


def refused(batch: StreamBatch, highest: int) -> bool:
    with pytest.raises(RefusedError) as caught:
        batch.is_repeated(highest)
    return caught.value.code == "SOW-SPK-171"


def test_a_batch_may_be_repeated_until_the_next_one_is_published(checkpoint: Path) -> None:
    first = of(checkpoint, 0)
    assert not first.is_repeated(0)
    assert first.is_repeated(first.sequence)
    later = of(checkpoint, 7)
    assert later.sequence > first.sequence and not later.is_repeated(first.sequence)
    assert later.is_repeated(later.sequence)
    assert all(refused(of(checkpoint, batch), later.sequence) for batch in (0, 6))


@pytest.mark.parametrize("batch", [0, 1, 9])
def test_batches_of_another_checkpoint_are_refused(checkpoint: Path, batch: int) -> None:
    assert refused(of(checkpoint, batch, "another"), of(checkpoint, 1).sequence)


@pytest.mark.parametrize("batch", [4, 5, 9])
def test_batches_of_a_copy_of_the_checkpoint_are_refused(checkpoint: Path, batch: int) -> None:
    """One that was made when batch 3 was the last, and goes on by itself."""
    copy = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, copy)
    for number in range(4, 10):
        plan(copy, number, "planned anew")
    last = of(checkpoint, 4).sequence
    assert refused(of(copy, batch), last)
    assert not of(copy, batch).is_repeated(of(checkpoint, 3).sequence)


def test_plans_that_cannot_be_read_count_as_the_same(checkpoint: Path) -> None:
    known, unknown = of(checkpoint, 4), of(None, 4)
    assert unknown.sequence != known.sequence
    assert known.is_repeated(unknown.sequence) and unknown.is_repeated(known.sequence)
    assert not of(None, 5).is_repeated(known.sequence)
    assert of(RemotePath("nosuch", "host", "checkpoint"), 4).sequence == unknown.sequence
    # Spark keeps the plans of some hundred batches.
    (checkpoint / "offsets" / "4").unlink()
    assert not of(checkpoint, 9).is_repeated(known.sequence)


def test_a_stream_goes_on_behind_sequences_without_a_mark(checkpoint: Path) -> None:
    assert all(refused(of(checkpoint, batch), 3) for batch in (0, 2))
    assert not of(checkpoint, 3).is_repeated(3)


def test_numbers_fit_into_a_bigint(checkpoint: Path) -> None:
    assert 0 < of(checkpoint, MAX_BATCH_ID).sequence < 1 << 63
    with pytest.raises(RefusedError):
        _ = of(checkpoint, MAX_BATCH_ID + 1).sequence
