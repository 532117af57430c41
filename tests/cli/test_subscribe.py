"""The command subscribe as a process: events that end it, its output until then, and control lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1))
    return lab


@contextmanager
def _running(lab: Lab, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    options = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command = [sys.executable, "-m", "sowctl", "subscribe", "-c", str(lab.config), *words]
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())  # type: ignore[no-any-return]


def _group(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    found = [_line(process)]
    while found[-1]["command"] != "group_end":
        found.append(_line(process))
    return found


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_it(lab: Lab, number: signal.Signals, status: int) -> None:
    with _running(lab, "t") as process:
        assert [event["command"] for event in _group(process)] == ["group_begin", "sow", "group_end"]
        lab.publish("t", message(id=2))
        event = _line(process)
        assert (event["command"], event["data"]) == ("publish", {"id": 2})
        process.send_signal(number)
        assert process.wait(10) == status


def test_a_reader_that_goes_away_ends_it_though_nothing_happens(lab: Lab) -> None:
    with _running(lab, "t") as process:
        _group(process)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(10) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="a device that is always full")
def test_a_full_disk_ends_it(lab: Lab) -> None:
    with open("/dev/full", "wb") as full, _running(lab, "t", stdout=full) as process:  # noqa: PTH123
        assert process.wait(10) == 6


def test_control_lines_replace_it_while_it_runs(lab: Lab) -> None:
    lab.publish("t", message(id=2))
    with _running(lab, "t", "/id = 1", "--oof", "--control") as process:
        assert [event["command"] for event in _group(process)] == ["group_begin", "sow", "group_end"]
        assert process.stdin is not None
        process.stdin.write(b'{"command":"replace","filter":"/id = = 2"}\nnothing\n')
        process.stdin.write(b'{"command":"replace","topic":"nosuch"}\n{"command":"replace",')
        process.stdin.flush()
        time.sleep(0.1)
        process.stdin.write(b'"filter":"/id = 2"}\n')
        process.stdin.flush()
        events = [(event["command"], event.get("data"), event.get("reason")) for event in _group(process)]
        assert events[1:-1] == [("oof", {"id": 1}, "match"), ("sow", {"id": 2}, None)]
        process.stdin.write(b'{"command":"stop"}')
        process.stdin.close()
        assert process.wait(10) == 0
        assert process.stderr is not None
        warnings = process.stderr.read()
        assert b"SOW-FOL-006" in warnings
        assert b"SOW-EXP-" in warnings
        assert b"SOW-ENG-012" in warnings


def test_a_consumer_may_answer_every_line_before_it_reads_the_next(lab: Lab, tmp_path: Path) -> None:
    count = 6_000  # the answers alone exceed the capacity of a pipe
    lab.publish("t", *(message(id=number) for number in range(count)))
    place = ("--store", str(tmp_path / "a.bookmarks"), "--client", "c", "--commit", "--ack")
    told = 0
    with _running(lab, "t", "--no-sow", "--bookmark", "1", "--until-now", *place) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        watch = threading.Timer(30, process.kill)
        watch.start()
        for line in process.stdout:
            event = json.loads(line)
            if event["command"] == "publish":
                told += 1
                process.stdin.write(event["bookmark"].encode() + b"\n")
                process.stdin.flush()
        assert process.wait() == 0
        watch.cancel()
    assert told == count
    with _running(lab, "t", "--no-sow", "--until-now", *place) as process:
        assert process.stdout is not None
        assert [json.loads(line)["command"] for line in process.stdout] == ["completed"]


def test_payloads_alone(lab: Lab) -> None:
    with _running(lab, "t", "--data-only", "--max", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"id":1}\n'
        lab.publish("t", message(id=2))
        assert process.stdout.read() == b'{"id":2}\n'
        assert process.wait(10) == 0


def test_a_query_that_is_followed(lab: Lab) -> None:
    command = [sys.executable, "-m", "sowctl", "-c", str(lab.config), "query", "t", "/id > 0"]
    with subprocess.Popen([*command, "--follow"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"id":1}\n'
        lab.publish("t", message(id=3))
        assert process.stdout.readline() == b'{"id":3}\n'
        process.terminate()
        assert process.wait(10) == 143
    refused = subprocess.run([*command, "--follow", "--count"], capture_output=True, check=False)
    assert refused.returncode == 2
    assert b"SOW-CLI-097" in refused.stderr


def test_an_idle_subscription_takes_hardly_any_time_and_holds_no_transaction(lab: Lab) -> None:
    with _running(lab, "t", "--oof") as process:
        _group(process)
        time.sleep(0.3)

        def ticks() -> int:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        time.sleep(2)
        # 1 % of two seconds; a tick is 10 ms
        assert ticks() - before <= 2
        with lmdb.open(str(lab.store("t")), subdir=False, readonly=True) as environment:
            # one line for each open transaction, below a heading
            assert str(process.pid) not in environment.readers()


def test_sow_keys_are_lists_that_may_be_repeated(lab: Lab) -> None:
    lab.publish("t", message(id=2), message(id=3), message(id=4))
    keys = {json.loads(record.payload)["id"]: str(record.sow_key) for record in lab.records("t")}
    words = ("--sow-key", f"{keys[1]},{keys[2]}", "--sow-key", keys[4], "--data-only", "--until-now")
    for command in ("subscribe", "query"):
        words = words if command == "subscribe" else (*words[:4], "--follow")
        line = [sys.executable, "-m", "sowctl", command, "-c", str(lab.config), "t", *words]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            found = sorted(json.loads(process.stdout.readline())["id"] for _ in range(3))
            if command == "query":
                lab.publish("t", message(id=3, v=1), message(id=2, v=1))
                assert json.loads(process.stdout.readline()) == {"id": 2, "v": 1}
                process.terminate()
            assert found == [1, 2, 4]
    refused = subprocess.run(
        [sys.executable, "-m", "sowctl", "subscribe", "-c", str(lab.config), "t", "--sow-key", "x"],
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 2
    assert b"SOW-QRY-001" in refused.stderr
