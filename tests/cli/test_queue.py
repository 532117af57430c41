"""The queue commands, as called by users and by programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.commands.bodies.input_lines import read_lines_by_pause
from tests.cli.conftest import Cli
from tests.support.instances import topic_xml
from tests.support.queues import lab_xml, queue_xml


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    """Five orders and a queue over them."""
    parts = "<LeasePeriod>1h</LeasePeriod>", "<MaxCancels>1</MaxCancels>"
    xml = lab_xml(queue_xml(*parts), topics_xml=topic_xml("orders"), logged=("orders", "failed"))
    (tmp_path / "sowctl.xml").write_text(xml)
    assert cli("publish", "work", stdin=b"".join(b'{"id":%d}\n' % number for number in range(1, 6))).status == 0
    return cli


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_lease_prints_ack_reads(shop: Cli) -> None:
    leased = shop("queue", "lease", "work", "-n", "3")
    assert [row["data"] for row in rows(leased.out)] == [{"id": 1}, {"id": 2}, {"id": 3}]
    first = rows(leased.out)[0]
    assert list(first) == [
        "topic", "txid", "timestamp", "bookmark", "token", "lease_until", "deliveries", "cancels", "data",
    ]  # fmt: skip
    done = shop("queue", "ack", "work", "-", stdin=leased.out.encode())
    assert (done.status, done.err) == (0, "3 acknowledged\n")
    again = shop("queue", "ack", "work", "-", stdin=leased.out.encode())
    assert again.status == 1
    *warnings, summary = again.err.splitlines()
    assert [line.split(": ")[0] for line in warnings] == ["warning"] * 3 and summary.endswith(" 3 stale")
    assert shop("queue", "depth", "work").out == "2\n"


def test_bookmarks_and_tokens_in_their_spellings(shop: Cli) -> None:
    leased = rows(shop("queue", "lease", "work", "-n", "4").out)
    names = [f"{row['bookmark']}" for row in leased]
    tokens = [f"{row['token']}" for row in leased]
    assert shop("queue", "ack", "work", f"{names[0]},{tokens[0]}").status == 0
    assert shop("queue", "ack", "work", "-", stdin=f"{names[1]} {tokens[1]}\n\n{names[2]}\n".encode()).status == 0
    assert shop("queue", "ack", "work", f"{names[3]},12").status == 1
    assert shop("queue", "ack", "work", str(leased[3]["txid"])).err == "1 acknowledged\n"
    for wrong in ("x", "1|2|,x", '{"token": "1"}', "{"):
        result = shop("queue", "ack", "work", wrong)
        assert (result.status, "SOW-QUE-011" in result.err) == (2, True)


def test_cancel_renew_expire_requeue_and_purge(shop: Cli) -> None:
    leased = shop("queue", "lease", "work", "-n", "3").out
    first, second, third = leased.splitlines()
    assert shop("queue", "renew", "work", "-", stdin=leased.encode()).err == "3 renewed\n"
    untouched = shop("queue", "cancel", "work", "-", "--untouched", stdin=first.encode())
    assert (untouched.status, untouched.err) == (0, "1 given back\n")
    died = shop("queue", "cancel", "work", "-", "--delay", "5s", stdin=second.encode())
    assert (died.status, died.err) == (0, "0 given back, 1 dead after MaxCancels\n")
    assert shop("queue", "expire", "work", "-", stdin=third.encode()).err == "1 expired\n"
    states = [row["state"] for row in rows(shop("queue", "peek", "work").out)]
    assert states == ["ready", "ready", "ready", "dead"]
    assert shop("queue", "requeue", "work", "--dead").err == "1 requeued\n"
    assert shop("queue", "purge", "work").status == 8, "nobody can be asked"
    assert shop("queue", "purge", "work", "--yes").err == "4 messages removed\n"
    assert json.loads(shop("queue", "depth", "work", "--json").out)["pending"] == 0


def test_lines_before_one_that_names_nothing_count(shop: Cli) -> None:
    leased = shop("queue", "lease", "work", "-n", "2").out.splitlines()
    result = shop("queue", "ack", "work", "-", stdin="\n".join([leased[0], "what?", leased[1]]).encode())
    assert (result.status, "SOW-QUE-011" in result.err) == (2, True)
    assert shop("queue", "depth", "work").out == "4\n"


@pytest.mark.parametrize(("verb", "left"), [("ack", {"ready": 4}), ("cancel", {"ready": 4, "dead": 1}), ("renew", {})])
def test_a_line_has_its_effect_while_the_writer_waits(
    shop: Cli, tmp_path: Path, verb: str, left: dict[str, int]
) -> None:
    leased = shop("queue", "lease", "work").out.encode()
    command = [sys.executable, "-m", "sowctl", "queue", verb, "work", "-"]
    environment = {**os.environ, "PYTHONPATH": str(Path(sowctl.__file__).parents[1])}

    def seen() -> dict[str, object]:
        row = json.loads(shop("queue", "info", "work", "--format", "json").out)
        (row,) = row if isinstance(row, list) else [row]
        leases = rows(shop("queue", "peek", "work").out)
        return dict(row) | {"until": [one.get("lease_until") for one in leases]}

    before = seen()
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        assert run.stdin is not None
        # It waits for a first line before it does anything, and for a second one after it.
        run.stdin.write(leased)
        run.stdin.flush()
        end = time.monotonic() + 20
        while True:
            now = seen()
            if all(now[name] == count for name, count in left.items()) and now["until"] != before["until"]:
                break
            assert time.monotonic() < end, now
            time.sleep(0.02)
        assert run.poll() is None
        run.stdin.close()
        assert run.wait(20) == 0


def test_lines_come_as_they_were_written() -> None:
    def taken(*parts: bytes, most: int = 3) -> list[list[bytes]]:
        source, sink = os.pipe()
        found = []
        try:
            for part in parts:
                os.write(sink, part)
            os.close(sink)
            found += list(read_lines_by_pause(source, most, 20))
        finally:
            os.close(source)
        return found

    assert taken() == []
    assert taken(b"a\nb\n\nc\nd") == [[b"a", b"b", b"c"], [b"d"]]
    assert taken(b"a\n" * 7) == [[b"a"] * 3, [b"a"] * 3, [b"a"]]
    with pytest.raises(ValueError, match=r"\b20 bytes"):
        taken(b"a\n" + b"x" * 21)


def test_nothing_to_lease_is_status_one(shop: Cli) -> None:
    shop("queue", "purge", "work", "--yes")
    result = shop("queue", "lease", "work")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)


def test_list_and_info(shop: Cli) -> None:
    shop("queue", "lease", "work", "--client", "loader")
    (row,) = rows(shop("queue", "list").out)
    assert (row["queue"], row["pending"], row["ready"], row["leased"]) == ("work", 5, 4, 1)
    (info,) = rows(shop("queue", "info", "work", "--format", "ndjson").out)
    (holder,) = info["holders"]  # type: ignore[misc]
    assert (holder["name"], holder["kind"], holder["in_flight"]) == ("loader", "client", 1)
    assert info["delivered"] == 1
    table = shop("queue", "list", "--format", "table").out.splitlines()
    assert table[0].split() == [
        "queue", "type", "underlying", "ready", "leased", "delayed", "blocked", "dead", "age", "in/s", "acks/s",
        "workers",
    ]  # fmt: skip
    facts = shop("queue", "info", "work", "--format", "table").out
    assert "underlying" in facts
    assert "client loader" in facts
    assert "1 in flight, 1 delivered, 0 acknowledged, 0 cancelled, 0 returned" in facts
    assert json.loads(shop("queue", "info", "work", "--json").out)[0]["pending"] == 5
    assert json.loads(shop("queue", "list", "--json").out)[0]["pending"] == 5


def test_info_tells_of_queues_as_they_were_left(shop: Cli, tmp_path: Path) -> None:
    def told() -> dict[str, object]:
        return next(row for row in rows(shop("info", "--format", "ndjson").out) if row["kind"] == "Queue")

    row = told()
    assert (row["state"], row["records"], row["lag"], row["age_seconds"]) == ("no state", 0, 5, None)
    assert not list(tmp_path.rglob("work.json.queue*")), "nothing is made"
    leased = shop("queue", "lease", "work", "-n", "2").out
    row = told()
    assert (row["state"], row["records"], row["leased"], row["lag"]) == ("current", 5, 2, 0)
    assert 0 <= float(str(row["age_seconds"])) < 60
    shop("queue", "cancel", "work", "-", stdin=leased.encode())
    assert (told()["note"], told()["records"]) == ("2 messages are dead", 3)
    shop("publish", "work", stdin=b'{"id":6}\n{"id":7}\n')
    shop("publish", "failed", stdin=b'{"id":6}\n')
    path = next(tmp_path.rglob("work.json.queue"))
    before = path.read_bytes()
    row = told()
    assert (row["state"], row["records"], row["lag"]) == ("behind", 3, 2)
    assert path.read_bytes() == before
    assert "behind, oldest" in shop("info", "--format", "table").out
    path.write_bytes(b"\xff" * len(before))
    result = shop("info", "--format", "ndjson")
    assert (result.status, '"unreadable"' in result.out, "SOW-QUE-002" in result.err) == (5, True, True)


def test_info_looks_at_a_queue_beside_a_handle_of_this_process(shop: Cli, tmp_path: Path) -> None:
    with sowctl.open(tmp_path / "sowctl.xml") as instance, instance.queue("work") as queue:
        with queue.lease(2):
            row = next(row for row in rows(shop("info", "--format", "ndjson").out) if row["kind"] == "Queue")
            assert row["leased"] == 2
        assert queue.depth().pending == 3


def test_a_queue_is_queried_without_leasing(shop: Cli) -> None:
    shop("queue", "lease", "work", "-n", "2")
    assert shop("query", "work").out == '{"id":3}\n{"id":4}\n{"id":5}\n'
    assert shop("query", "work", "--filter", "/id > 3", "--order-by", "/id DESC").out == '{"id":5}\n{"id":4}\n'
    assert shop("query", "work", "--count").out == "3\n"
    past = shop("query", "work", "--at", "2026-01-01T00:00:00Z")
    assert (past.status, "SOW-QUE-014" in past.err) == (2, True)


def test_a_view_over_a_queue_sees_what_is_not_leased(shop: Cli, tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    view = "<View><Name>waiting</Name><MessageType>json</MessageType><UnderlyingTopic>work</UnderlyingTopic>"
    view += "<Projection><Field>COUNT(/id) AS /n</Field></Projection><Grouping><Field>/kind</Field></Grouping></View>"
    config.write_text(config.read_text().replace("</SOW>", f"{view}</SOW>"))
    assert shop("query", "waiting").out == '{"n":5}\n'
    shop("queue", "lease", "work", "-n", "2")
    assert shop("query", "waiting").out == '{"n":3}\n'


def test_a_worker_ends_when_nothing_is_pending(shop: Cli) -> None:
    result = shop("queue", "run", "work", "--until-empty", "--", "cat", environ={"PATH": "/usr/bin:/bin"})
    assert (result.status, result.err) == (0, "5 delivered, 5 acknowledged\n")


def test_a_message_that_dies_is_status_one_and_goes_to_the_dead_letters(shop: Cli) -> None:
    command = "queue", "run", "work", "--until-empty", "--dead-letter", "failed", "--backoff", "0s", "--summary", "json"
    result = shop(*command, "--", "grep", "-qv", "3", environ={"PATH": "/usr/bin:/bin"})
    assert result.status == 1
    assert json.loads(result.out)["buried"] == 1
    assert [row["data"] for row in rows(shop("journal", "dump", "--topic", "failed").out)] == [{"id": 3}]


def test_the_report_names_the_topic_of_dead_letters(shop: Cli) -> None:
    command = "queue", "run", "work", "--until-empty", "--dead-letter", "failed", "--"
    result = shop(*command, "grep", "-qv", "3", environ={"PATH": "/usr/bin:/bin"})
    assert result.err.splitlines()[-1] == "5 delivered, 4 acknowledged, 1 dead, 1 published to failed"


@pytest.mark.parametrize(("option", "is_document"), [(("--json",), True), (("--summary", "json"), False)])
def test_json_of_a_worker_is_one_document(
    shop: Cli, tmp_path: Path, option: tuple[str, ...], is_document: bool
) -> None:
    command = [sys.executable, "-m", "sowctl", "queue", "run", "work", "--until-empty", *option, "--", "echo", "hello"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    *before, last = done.stdout.splitlines()
    assert json.loads(last)["acknowledged"] == 5
    assert (before, done.stderr.count("hello\n")) == (([], 5) if is_document else (["hello"] * 5, 0))


def worker_words(directory: Path, *options: str, ends: bool) -> str:
    """The standard error of a worker until its first line, or, if it ``ends`` by itself, all of it."""
    command = [sys.executable, "-m", "sowctl", "queue", "run", "work", *options]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.read() if ends else process.stderr.readline()
        process.terminate()
    return said


def test_a_worker_without_an_end_says_that_it_waits(shop: Cli, tmp_path: Path) -> None:
    # Five messages: the command of the first one ends the worker.
    assert "--until-empty" not in worker_words(tmp_path, "--", "sh", "-c", "kill $PPID; sleep 60", ends=True)
    shop("queue", "purge", "work", "--yes")
    assert "--until-empty" in worker_words(tmp_path, "--", "true", ends=False)
    assert "--until-empty" not in worker_words(tmp_path, "--until-empty", "--", "true", ends=True)
    assert "--until-empty" not in worker_words(tmp_path, "--quiet", "--timeout", "2s", "--", "true", ends=True)


def test_peek_shows_why_a_message_is_dead(shop: Cli) -> None:
    command = "queue", "run", "work", "--until-empty", "--worker", "w1", "--backoff", "0s", "--"
    script = 'read -r line; case $line in *3*) echo "no such customer" >&2; exit 9;; esac'
    assert shop(*command, "sh", "-c", script).status == 1
    (row,) = rows(shop("queue", "peek", "work", "--state", "dead").out)
    assert row["data"] == {"id": 3}
    assert (row["state"], row["reason"], row["deliveries"], row["holder"]) == ("dead", "max_cancels", 1, "w1")
    assert (row["exit_status"], row["stderr"]) == (9, "no such customer")
    assert shop("queue", "peek", "work", "--state", "ready").out == ""
    table = shop("queue", "peek", "work", "--state", "dead", "--columns", "exit_status,stderr", "--format", "csv")
    assert table.out == "exit_status,stderr\n9,no such customer\n"
    # If it goes to another topic, a note has the same content.
    moved = shop(*command[:4], "--dead-letter", "failed", *command[4:], "true")
    assert all(part in moved.err for part in ("max_cancels", "1 delivery", "w1", "exit status 9", "no such customer"))


def test_requeue_without_messages_names_the_option_for_dead_ones(shop: Cli) -> None:
    path = {"PATH": "/usr/bin:/bin"}
    assert shop("queue", "run", "work", "--until-empty", "--", "false", environ=path).status == 1
    result = shop("queue", "requeue", "work")
    assert (result.status, "0 requeued" in result.err) == (0, True)
    assert "--dead" in result.err and "5 dead messages" in result.err
    assert shop("queue", "requeue", "work", "--quiet").err == ""
    assert shop("queue", "requeue", "work", "--dead").err == "5 requeued\n"


def test_dead_letters_do_not_go_back_into_the_queue(shop: Cli) -> None:
    for topic in ("orders", "work"):
        result = shop("queue", "run", "work", "--dead-letter", topic, "--", "false")
        assert (result.status, "SOW-QUE-016" in result.err) == (2, True)


def test_a_batch_that_the_queue_does_not_give_is_told(shop: Cli) -> None:
    path = {"PATH": "/usr/bin:/bin"}
    result = shop("queue", "run", "work", "--batch", "100", "--until-empty", "--", "cat", environ=path)
    assert re.search(r"--batch 100 .*\bMaxPerSubscriptionBacklog of 1\b", result.err)


def test_at_most_once_failures_are_status_one(shop: Cli, tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    config.write_text(lab_xml(queue_xml("<Semantics>at-most-once</Semantics>")))
    result = shop("queue", "run", "work", "--until-empty", "--", "false", environ={"PATH": "/usr/bin:/bin"})
    assert (result.status, result.err) == (1, "5 delivered, 5 failed\n")
    shop("publish", "work", stdin=b'{"id":9}\n')
    (row,) = rows(shop("queue", "lease", "work").out)
    assert not {"token", "lease_until"} & set(row), "there is no lease"


@pytest.mark.parametrize("output", ["full", "closed", "broken"])
def test_at_most_once_looks_at_the_output_before_it_takes_a_message(shop: Cli, tmp_path: Path, output: str) -> None:
    (tmp_path / "sowctl.xml").write_text(lab_xml(queue_xml("<Semantics>at-most-once</Semantics>")))
    to = {"full": "> /dev/full", "closed": ">&-", "broken": "> >(true)"}[output]
    pause = "sleep 0.3; " if output == "broken" else ""
    # The reader of the pipe has exited before the command begins.
    script = f"exec {to}; {pause}exec {sys.executable} -m sowctl queue lease work"
    environment = {**os.environ, "PYTHONPATH": str(Path(sowctl.__file__).parents[1])}
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, env=environment)
    assert ended.returncode != 0
    assert shop("queue", "depth", "work").out == "5\n"


def test_what_cannot_be_printed_is_not_leased(shop: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sowctl", "queue", "lease", "work", "-n", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(sowctl.__file__).parents[1])}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, env=environment)
    assert (ended.returncode, b"SOW-CLI-060" in ended.stderr) == (6, True)
    (info,) = rows(shop("queue", "info", "work", "--format", "ndjson").out)
    assert (info["leased"], info["delivered"]) == (0, 0)


def test_the_form_that_ack_reads_can_be_printed(shop: Cli) -> None:
    handle = shop("queue", "lease", "work", "--template", "{bookmark},{token}").out
    assert shop("queue", "ack", "work", "-", stdin=handle.encode()).err == "1 acknowledged\n"
    lines = shop("queue", "peek", "work", "-F", "csv", "--columns", "bookmark,state").out.splitlines()
    assert lines[0] == "bookmark,state"
    assert lines[1].endswith(",ready")
    assert shop("queue", "ack", "work", "").status == 2


def test_a_worker_needs_a_command(shop: Cli) -> None:
    result = shop("queue", "run", "work")
    assert (result.status, "SOW-QUE-012" in result.err) == (2, True)


def test_acknowledgements_are_entries_of_the_queue(shop: Cli) -> None:
    bookmark = rows(shop("queue", "lease", "work").out)[0]["bookmark"]
    shop("queue", "ack", "work", str(bookmark))
    (entry,) = rows(shop("journal", "dump", "--topic", "work").out)
    assert (entry["operation"], entry["message_bookmark"], entry["sow_key"]) == ("ack", bookmark, None)
    assert len(rows(shop("journal", "dump", "--topic", "orders").out)) == 5


def test_check_finds_a_state_that_is_not_that_of_the_journal(shop: Cli, tmp_path: Path) -> None:
    assert "work.json.queue: 0 pending" not in shop("check").err
    shop("queue", "depth", "work")
    assert "work.json.queue: 5 pending, 0 leased, 0 dead" in shop("check").err
    path = next(tmp_path.rglob("work.json.queue"))
    from sowctl.engine.topics.queuestates import read_boot_id
    from sowctl.seam import SEAM
    from sowctl.store.queue.file import QueueFile

    file = QueueFile(path, SEAM, boot=read_boot_id(), lock_wait=1)
    with file.begin_change() as changed:
        first = next(changed.iter_first_txids())
        changed.load_page(first).states[1] = 0
        changed.state.delayed += 1
    file.close()
    result = shop("check")
    assert result.status == 5
    assert result.out.count("error[SOW-QUE-020]") == 2
    counters, lost = map(json.loads, shop("check", "--format", "json").out.splitlines())
    assert (counters["kind"], lost["kind"]) == ("state-counters", "missing-message")
    assert "txid 2" in lost["message"]


def test_check_knows_that_a_clock_may_go_back(shop: Cli) -> None:
    shop("publish", "work", "--expiration", "1d", stdin=b'{"id":9}\n')
    assert shop("queue", "depth", "work").out == "6\n"
    later = shop("queue", "depth", "work", environ={"SOWCTL_NOW": "2095-01-01T00:00:00Z"})
    assert later.out == "5\n", "its lifetime is over"
    assert shop("check").status == 0


def test_one_damaged_queue_does_not_hide_the_others(shop: Cli, tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    config.write_text(lab_xml(queue_xml(), queue_xml(name="other"), logged=("orders", "failed")))
    shop("queue", "list")
    path = next(tmp_path.rglob("work.json.queue"))
    path.write_bytes(b"\xff" * path.stat().st_size)
    result = shop("queue", "list")
    assert ([row["queue"] for row in rows(result.out)], result.status) == (["other"], 5)
    assert "SOW-QUE-002" in result.err


def test_a_damaged_state_is_an_error_that_says_what_to_do(shop: Cli, tmp_path: Path) -> None:
    shop("queue", "depth", "work")
    path = next(tmp_path.rglob("work.json.queue"))
    raw = path.read_bytes()
    path.write_bytes(b"\xff" * 8192 + raw[8192:])
    result = shop("queue", "depth", "work")
    assert (result.status, "SOW-QUE-002" in result.err, "remove the file" in result.err) == (5, True, True)
    assert "SOW-QUE-002" in shop("check").out
    path.unlink()
    assert shop("queue", "depth", "work").out == "5\n"


def test_messages_are_printed_to_an_arrow_file(shop: Cli) -> None:
    ipc = pytest.importorskip("pyarrow.ipc", reason="the extra 'arrow' is not installed")
    assert shop("queue", "peek", "work", "--output", "x.arrow").status == 0
    found = ipc.open_file(Path("x.arrow").read_bytes()).read_all()
    assert found.num_rows == len(rows(shop("queue", "peek", "work").out))
