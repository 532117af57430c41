"""Two processes filter a large store with the result of one; a failure of the second process stays invisible."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sowctl.checksum import crc32
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search import scan
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.source import Pairs, Source, StoredSource
from sowctl.errors import DamageError, InputError, RefusedError
from sowctl.identity.keys import encode_sow_key
from sowctl.identity.keyspace import compute_part_bounds, find_part
from sowctl.store.integrity import Marks
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.stores import tamper

COUNT = 3000
WORDS = ("red", "green", 'a"b', "a\\b", "ünï", "a/b", "7", "", "\x7f")


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Treat stores of ten records as large; the list gets the ids of the second processes.

    Threads left by other tests (of a Spark session) do not matter: the second process uses none of their state.
    """
    started: list[int] = []

    def fork(original: Callable[[], int] = os.fork) -> int:
        child = original()
        started.append(child)
        return child

    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 10)
    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    return started


def fill(lab: Lab, topic: str = "t") -> list[str]:
    payloads = [message(id=n, v=n % 7, s=WORDS[n % len(WORDS)]) for n in range(COUNT)]
    lab.publish(topic, *payloads)
    return payloads


@pytest.mark.parametrize("order", [None, "/v DESC, /id"])
def test_two_find_what_one_finds(
    lab: Lab, forks: list[int], order: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    in_two = lab.open().topic("t").query("/v > 3", order_by=order)
    found = [record.payload for record in in_two.records()]
    assert len(forks) == 1
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 1 << 40)
    alone = lab.open().topic("t").query("/v > 3", order_by=order)
    assert [record.payload for record in alone.records()] == found
    assert in_two.statistics == alone.statistics
    assert in_two.statistics[0].examined == COUNT
    assert len(forks) == 1


def _mixed(number: int, at: int) -> object:
    """Return texts that read as numbers, and at one position a value that makes the order numeric."""
    return ({}, 9, True, "x")[at] if number == 17 * at + 3 else str(number * 37 % 101)


@pytest.mark.parametrize(
    "value",
    [
        lambda number: number * 37 % 101 / 8,
        lambda number: WORDS[number % len(WORDS)] + str(number % 9),
        lambda number: None if number % 3 else number % 5,
        *[partial(_mixed, at=at) for at in range(4)],
    ],
)
def test_the_first_of_all_are_among_the_first_of_the_parts(
    lab: Lab, forks: list[int], value: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish("t", *[message(id=n, v=value(n)) for n in range(COUNT)])
    sent = []
    original = scan.PartProcess.read_results

    def results(self: scan.PartProcess, source: StoredSource, counts: QueryStatistics) -> Iterator[Pairs]:
        for keys, values in original(self, source, counts):
            sent.extend(keys)
            yield keys, values

    monkeypatch.setattr(scan.PartProcess, "read_results", results)
    for order in ("/v", "/none DESC, /v DESC"):
        asked: dict[str, Any] = {"order_by": order, "top_n": 4, "skip_n": 2}
        sent.clear()
        in_parts = lab.open().topic("t").query(jobs=3, **asked)
        found = [record.payload for record in in_parts.records()]
        # A changed interpretation causes a second read of all records.
        assert 0 < len(sent) <= 2 * 6 * 2
        alone = lab.open().topic("t").query(jobs=1, **asked)
        assert found == [record.payload for record in alone.records()]
        assert in_parts.statistics == alone.statistics


def test_a_part_that_cannot_be_narrowed_is_read_by_the_first_process(lab: Lab, forks: list[int]) -> None:
    # Only the last record in key order is a number: its process has already read texts, and gives up.
    numbers = {record.sow_key: record.payload for record in _published(lab)}
    last = json.loads(numbers[max(numbers)])["id"]
    lab.publish("t", message(id=last, v=5))
    found = lab.query("t", order_by="/v DESC", top_n=3, jobs=2)
    assert found == lab.query("t", order_by="/v DESC", top_n=3, jobs=1)
    assert len(forks) == 2


def _published(lab: Lab) -> list[Any]:
    lab.publish("t", *[message(id=n, v=str(n)) for n in range(COUNT)])
    return list(lab.open().topic("t").query(jobs=1).records())


@pytest.mark.parametrize("jobs", [2, 3, 5, 7])
def test_processes_read_the_parts_of_the_key_space(
    lab: Lab, forks: list[int], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    parts: list[tuple[bytes | None, bytes | None]] = []
    read: list[set[bytes]] = []
    original = scan.PartProcess.read_results

    def results(self: scan.PartProcess, source: StoredSource, counts: QueryStatistics) -> Iterator[Pairs]:
        parts.append((self.start, self.stop))
        read.append(set())
        for keys, values in original(self, source, counts):
            read[-1].update(keys)
            yield keys, values

    monkeypatch.setattr(scan.PartProcess, "read_results", results)
    found = lab.open().topic("t").query("/v > 3", jobs=jobs)
    numbers = [record.sow_key for record in found.records()]
    assert len(numbers) == sum(n % 7 > 3 for n in range(COUNT)) and numbers == sorted(set(numbers))
    assert found.statistics[0].examined == COUNT
    assert parts == compute_part_bounds(jobs)[1:]
    owners = [[n for n in numbers if find_part(encode_sow_key(n), jobs) == part] for part in range(1, jobs)]
    assert read == [set(map(encode_sow_key, own)) for own in owners]


def test_what_is_not_applied_yet_is_seen_in_both_halves(lab: Lab, forks: list[int]) -> None:
    fill(lab)
    old = lab.store("t").read_bytes()
    lab.publish("t", *(message(id=n, v=100) for n in range(0, COUNT + 50, 10)))
    lab.open().topic("t").delete(filter="/id < 5")
    lab.store("t").write_bytes(old)
    for leftover in lab.store("t").parent.glob("t.json.sow-*"):
        leftover.unlink()
    # each half has only the entries of its own keys, so no record occurs twice
    found = sorted(json.loads(text)["id"] for text in lab.query("t", "/v = 100"))
    assert found == list(range(10, COUNT + 50, 10))
    assert len(lab.query("t", "/id < 5")) == 0
    assert len(forks) == 2
    lab.open().topic("t").replay()


def test_runs_are_searched_as_they_were_verified(lab: Lab, forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    expected = [text for text in lab.query("t") if json.loads(text)["s"] == "red"]
    ends: list[bool] = []
    original = scan.PartProcess.wait_for_success
    monkeypatch.setattr(
        scan.PartProcess, "wait_for_success", lambda self, source: ends.append(original(self, source)) or ends[-1]
    )
    monkeypatch.delattr(Marks, "join_values")
    assert lab.query("t", "/s = 'red'") == expected
    assert ends == [True]
    monkeypatch.setattr(scan.PartProcess, "_read_part", lambda *_: os._exit(9))
    assert lab.query("t", "/s = 'red'") == expected
    assert ends == [True, False]
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 1 << 40)
    assert lab.query("t", "/s = 'red'") == expected
    assert len(ends) == 2


def test_a_second_process_that_fails_is_not_missed(lab: Lab, forks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab)
    expected = lab.query("t", "/v = 1")
    monkeypatch.setattr(scan.PartProcess, "_read_part", lambda *_: os._exit(9))
    assert lab.query("t", "/v = 1") == expected
    assert len(forks) == 2


def test_a_second_process_that_saw_another_state_does_not_count(
    lab: Lab, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(lab)
    original = scan.open_source

    def open_source(*arguments: object) -> Source:
        if forks and forks[-1]:  # in the first process, which has the id of the second
            lab.clock.tick(1)
            forks.clear()
            lab.publish("t", message(id=1, v=1000), message(id=COUNT + 1, v=1000))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scan, "open_source", open_source)
    result = lab.open().topic("t").query("/v = 1000")
    assert len(list(result.records())) == 2
    assert result.statistics[0].examined == COUNT + 1


def test_errors_are_those_of_one_process(lab: Lab, forks: list[int]) -> None:
    lab.publish("own", *(b"{}" for _ in range(5)), sow_key="a")
    for number in range(40):
        lab.publish("own", b"no JSON" if number == 30 else b"{}", sow_key=f"k{number}")
    with pytest.raises(InputError) as caught:
        lab.query("own", "/a = 'x'")
    assert caught.value.code == "SOW-QRY-004"
    assert forks


def test_damage_is_found_in_either_half(make_lab: Callable[..., Lab], forks: list[int], tmp_path: Path) -> None:
    lab = Lab(tmp_path / "bad", config_xml(topic_xml("t"), ("t",)))
    payloads = fill(lab)
    path = lab.store("t")
    whole = path.read_bytes()
    for payload in (payloads[n].encode() for n in (5, 500, 1500, 2500)):
        place = whole.rindex(payload)
        path.write_bytes(whole[:place] + b"[" + whole[place + 1 :])
        with pytest.raises(DamageError) as caught:
            lab.query("t", "/v = 1")
        assert caught.value.code == "SOW-STO-001"


def test_what_was_read_before_damage_comes_first(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "bad", config_xml(topic_xml("t"), ("t",)))
    fill(lab)
    payloads = lab.query("t")
    path = lab.store("t")
    whole = path.read_bytes()
    place = whole.rindex(payloads[-1].encode())
    path.write_bytes(whole[:place] + b"[" + whole[place + 1 :])
    found = []
    with pytest.raises(DamageError) as caught:
        for record in lab.open().topic("t").query("/s = 'red'").records():
            found.append(record.payload)
    assert caught.value.code == "SOW-STO-001"
    sound = (COUNT - 1) // QUERY_LIMITS.read_batch_records * QUERY_LIMITS.read_batch_records
    assert found == [payload.encode() for payload in payloads[:sound] if '"red"' in payload]
    assert 0 < len(found) < QUERY_LIMITS.decode_batch_records


def test_questions_while_a_result_is_read(lab: Lab, forks: list[int]) -> None:
    """The topic's store is open then: readers share it, and a process that cannot be forked does not matter."""
    fill(lab)
    topic = lab.open().topic("t")
    wanted = [record.payload for record in topic.query("/v > 3").records()]
    seen = []
    for batch in topic.query("/v > 3", batch_size=500):
        (record,) = topic.get(str(batch.records[0].sow_key))
        assert record.payload == batch.payloads[0]
        assert [found.payload for found in topic.query("/v > 3").records()] == wanted
        seen += batch.payloads
    assert seen == wanted
    assert len(forks) > 2
    assert topic.publish([message(id=1, v=9, s="red").encode()]).published == 1, "nobody has it open any more"


def test_writing_while_a_result_is_read_is_refused(lab: Lab) -> None:
    fill(lab)
    topic = lab.open().topic("t")
    result = iter(topic.query("/v > 3", batch_size=500))
    next(result)
    with pytest.raises(RefusedError) as raised:
        topic.publish([message(id=1, v=9, s="red").encode()])
    assert raised.value.code == "SOW-STO-027"
    assert raised.value.place == str(lab.store("t")) and raised.value.hint is not None
    result.close()  # type: ignore[attr-defined]
    assert topic.publish([message(id=1, v=9, s="red").encode()]).published == 1


def test_no_process_is_left_when_the_reader_stops(lab: Lab, forks: list[int]) -> None:
    fill(lab)
    result = lab.open().topic("t").query("/v < 100", batch_size=5)
    next(iter(result))
    result.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(forks[0], os.WNOHANG)


def test_values_that_are_too_short_are_refused_where_they_matter(lab: Lab) -> None:
    """A value with a valid checksum and matching bytes, but without a header."""
    lab.publish("t", message(id=1, s="red"), message(id=2, s="green"))
    topic = lab.open().topic("t")
    (red,) = topic.query("/s = 'red'").records()
    key, rest = int(red.sow_key).to_bytes(8), b'"s":"red"'
    tamper(lab.store("t"), b"records", key, rest + crc32(rest, crc32(key)).to_bytes(4, "little"))
    assert [record.payload for record in topic.query("/s = 'green'", index_from=None).records()]
    for text in ("/s = 'red'", None):
        with pytest.raises(DamageError) as raised:
            list(topic.query(text, index_from=None).records())
        assert raised.value.code == "SOW-STO-001"
    with open_current_source(lab.open(), lab.open().topic("t").config) as source, pytest.raises(DamageError):
        list(source.read_batches(10))
    assert topic.replay(rebuild=True).records == 2
