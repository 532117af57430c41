"""The retention rule against the worked timelines of ``behaviour`` 2.2 and against a model that keeps everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.topics.retention import Retention, Version, append_version, find_version_at, prune_versions

MINUTE = 60_000_000


def grow(writes: list[tuple[int, str]], rule: Retention) -> list[Version]:
    versions: list[Version] = []
    for txid, (time, payload) in enumerate(writes, start=1):
        versions = append_version(versions, Version(time, txid, payload.encode(), tombstone=payload == ""), rule)
    return versions


def names(versions: list[Version]) -> str:
    return "".join(v.value.decode() or "-" for v in versions)


def test_timeline_a_retains_at_the_granularity() -> None:  # C75
    rule = Retention(60 * MINUTE, 10 * MINUTE)
    writes = [(0, "a"), (4 * MINUTE, "b"), (8 * MINUTE, "c"), (12 * MINUTE, "d"), (25 * MINUTE, "e")]
    assert [names(grow(writes[:n], rule)) for n in range(1, 6)] == ["a", "ab", "ac", "ad", "ade"]
    final = grow(writes, rule)
    asked = {0: "a", 3: "a", 9: "a", 11: "a", 12: "d", 24: "d", 25: "e"}
    assert {m: find_version_at(final, m * MINUTE).value.decode() for m in asked} == asked  # type: ignore[union-attr]
    assert find_version_at(grow(writes[:3], rule), 9 * MINUTE).value == b"c"  # type: ignore[union-attr]
    assert final[0].lossy and not final[1].lossy


def test_granularity_zero_keeps_every_update() -> None:  # C76
    rule = Retention(60 * MINUTE, 0)
    versions = grow([(0, "a"), (4 * MINUTE, "b"), (8 * MINUTE, "c"), (12 * MINUTE, "d")], rule)
    assert find_version_at(versions, 9 * MINUTE).value == b"c"  # type: ignore[union-attr]


def test_timeline_b_keeps_deletes_and_what_follows_them() -> None:  # C77
    second = 1_000_000
    rule = Retention(60 * MINUTE, MINUTE)
    versions = grow([(0, "A"), (20 * second, "B"), (30 * second, ""), (300 * second, "C")], rule)

    def at(seconds: int) -> bytes | None:
        found = find_version_at(versions, seconds * second)
        return None if found is None else found.value

    assert [at(s) for s in (-60, 10, 25, 30, 240, 300)] == [None, b"A", b"A", None, None, b"C"]


def test_timeline_c_prunes_by_the_time_of_being_superseded() -> None:
    rule = Retention(60 * MINUTE, 0)
    versions = grow([(480 * MINUTE, "1"), (570 * MINUTE, "2")], rule)
    assert names(prune_versions(versions, 630 * MINUTE, rule.window)) == "12"
    assert names(prune_versions(versions, 631 * MINUTE, rule.window)) == "2"


def test_an_old_tombstone_vanishes() -> None:
    rule = Retention(MINUTE, 0)
    versions = grow([(0, "a"), (1, "")], rule)
    assert prune_versions(versions, 1 + MINUTE, MINUTE) != []
    assert prune_versions(versions, 2 + MINUTE, MINUTE) == []


STEPS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["x", "y", ""])), min_size=1, max_size=25)


@given(STEPS, st.integers(1, 60), st.integers(0, 20), st.integers(0, 30))
def test_pruning_early_changes_no_answer(
    steps: list[tuple[int, str]], window: int, granularity: int, late: int
) -> None:
    rule = Retention(window, granularity)
    time, lazy, eager = 0, [], []  # type: ignore[var-annotated]
    for txid, (delay, payload) in enumerate(steps, start=1):
        eager = prune_versions(eager, time + min(delay, late), window)
        time += delay
        update = Version(time, txid, payload.encode(), tombstone=payload == "")
        lazy, eager = append_version(lazy, update, rule), append_version(eager, update, rule)
    for at in range(time - window, time + 1):
        assert find_version_at(lazy, at) == find_version_at(eager, at)


@given(STEPS, st.integers(1, 60))
def test_granularity_zero_answers_as_if_nothing_was_dropped(steps: list[tuple[int, str]], window: int) -> None:
    rule, time, versions, everything = Retention(window, 0), 0, [], []  # type: ignore[var-annotated]
    for txid, (delay, payload) in enumerate(steps, start=1):
        time += delay
        update = Version(time, txid, payload.encode(), tombstone=payload == "")
        versions = append_version(versions, update, rule)
        everything.append(update)
    for at in range(time - window, time + 1):
        assert find_version_at(versions, at) == find_version_at(everything, at)
