"""Commands that read, by a user who may read all files but write none: the same results, and one note on the risk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.commands.bodies import doctor as examination
from sowctl.errors import StorageError
from sowctl.store import check
from tests.cli.conftest import Cli
from tests.support.instances import START, CheckHere, Lab, config_xml, message, topic_xml
from tests.support.queues import QueueLab, queue_xml
from tests.support.readonly import allow_writing, as_reader, forbid_writing, open_directory

HISTORY = "<History><Window>1h</Window><Granularity>1ms</Granularity></History>"
XML = config_xml(topic_xml("orders", HISTORY) + topic_xml("alone"), ("orders",))
NOTE = "reading without locks"
CLOCK = ("--now", f"{START // 1_000_000}s")
READERS = [
    ("query", "orders"),
    ("query", "orders", "/v > 3", "--order-by", "/v"),
    ("query", "orders|alone"),
    ("query", "sow/orders.json.sow"),
    ("query", "orders", "--at", "NOW"),
    ("query", "orders", "--count"),
    ("get", "orders", "3"),
    ("get", "alone", "3"),
    ("hash", "orders"),
    ("hash", "orders", "--at", "NOW"),
    ("info",),
    ("info", "sow/alone.json.sow"),
    ("history", "orders", "3"),
    ("history", "orders", "3", "--journal"),
    ("snapshot", "orders", "--at", "NOW"),
    ("journal", "dump"),
    ("journal", "list"),
    ("replay", "--verify"),
    ("eval", "/v + 1", "messages"),
    ("check",),
]


@pytest.fixture
def instance(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An instance with messages in both topics, as the working directory."""
    with open_directory() as root:
        lab = Lab(root, XML)
        for topic in ("orders", "alone"):
            lab.publish(topic, *(message(id=n % 20, v=n) for n in range(60)))
        (root / "messages").write_text(message(v=1))
        monkeypatch.chdir(root)
        yield root


def run(cli: Cli, *argv: str) -> tuple[int, str, str]:
    said = cli(*argv)
    return said.status, said.out, said.err


@pytest.mark.parametrize("argv", READERS, ids=" ".join)
@pytest.mark.parametrize("restored", [False, True])
def test_every_reader(
    cli: Cli, instance: Path, argv: tuple[str, ...], restored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = (*CLOCK, *argv)
    if argv[-1] == "check":
        _check_in_this_process(monkeypatch)
    truth = run(cli, *argv)
    assert truth[0] == 0
    if restored:
        for path in list((instance / "sow").glob("*.sow")):
            shutil.copy(path, instance / "copy")
            (instance / "copy").replace(path)
    forbid_writing(instance)
    status, out, err = as_reader(lambda: run(cli, *argv))  # type: ignore[misc]
    assert status == 0
    assert [line for line in out.splitlines() if "_ms" not in line] == truth[1].splitlines()
    # journals are checked against the stores, so their readers read the stores as well
    reads_stores = argv[2] != "eval"
    assert err.count(NOTE) == reads_stores
    # The consequences are printed only on request.
    assert "status 11" not in err and len(err.splitlines()) <= len(truth[2].splitlines()) + 1
    if reads_stores:
        assert "status 11" in as_reader(lambda: run(cli, *argv, "--verbose"))[2]  # type: ignore[index]


def _check_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child of a check is another Python process, whose library the other user cannot read everywhere."""
    monkeypatch.setattr(check, "StoreCheck", CheckHere)


def test_quiet_says_nothing(cli: Cli, instance: Path) -> None:
    truth = run(cli, "--quiet", "query", "orders")
    forbid_writing(instance)
    assert as_reader(lambda: run(cli, "--quiet", "query", "orders")) == truth


def test_the_python_api(instance: Path) -> None:
    def read() -> tuple[int, list[str]]:
        notes: list[str] = []
        with sowctl.open(str(instance / "sowctl.xml"), notify=notes.append) as opened:
            found = (
                len(list(opened.topic("orders").query().records())),
                len(list(opened.topic("alone").query().records())),
            )
        return sum(found), [note[: len(NOTE)] for note in notes]

    assert read() == (40, [])
    forbid_writing(instance)
    assert as_reader(read) == (40, [NOTE])


@pytest.mark.parametrize(
    "argv", [("publish", "orders", "messages"), ("delete", "orders", "--filter", "/id = 3", "--yes")]
)
def test_writers_are_refused(cli: Cli, instance: Path, argv: tuple[str, ...]) -> None:
    run(cli, "check", "--help")
    run(cli, *argv, "--dry-run")
    forbid_writing(instance)
    status, _, err = as_reader(lambda: run(cli, *argv))  # type: ignore[misc]
    assert status == 6, err
    assert "no-lock" not in err


def test_a_store_that_may_not_be_read_is_not_damaged(cli: Cli, instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_in_this_process(monkeypatch)
    run(cli, "check")
    run(cli, "query", "nothing")
    forbid_writing(instance)
    (instance / "sow" / "alone.json.sow").chmod(0)
    status, out, err = as_reader(lambda: run(cli, "check"))  # type: ignore[misc]
    assert status == 6
    assert "SOW-STO-041" in out and "replay" not in out
    assert "alone.json.sow: all data" in err
    status, _, err = as_reader(lambda: run(cli, "query", "alone"))  # type: ignore[misc]
    assert status == 6 and "SOW-STO-041" in err and "read permission" in err
    orders = instance / "sow" / "orders.json.sow"
    data = bytearray(orders.read_bytes())
    data[-60:] = bytes(60)
    orders.chmod(0o644)
    orders.write_bytes(data[: len(data) // 2])
    status, out, _ = as_reader(lambda: run(cli, "check"))  # type: ignore[misc]
    assert status == 5, "damage weighs more"


def test_the_child_of_a_check_says_what_kept_it_from_reading(instance: Path) -> None:
    """The real child, if this user may start it."""
    from sowctl.store.check import check_store

    path = instance / "sow" / "alone.json.sow"
    list(check_store(path))
    forbid_writing(instance)

    def check() -> tuple[bool, list[str], int, bool]:
        if not os.access(sys.executable, os.X_OK):
            return True, [], 0, True
        found = check_store(path)
        return False, [finding.id for finding in found], found.coverage.status, found.coverage.unlocked

    if as_reader(check)[0]:  # type: ignore[index]
        pytest.skip("the other user may not start this Python")
    assert as_reader(check) == (False, [], 0, True)
    path.chmod(0)
    assert as_reader(check) == (False, ["SOW-STO-041"], 6, False)


def doctor(cli: Cli) -> dict[str, dict[str, str]]:
    said = cli("doctor", "--format", "json", environ={"PATH": os.environ["PATH"], "HOME": "/"})
    return {check["name"]: check for check in json.loads(said.out)["checks"]}


def test_doctor_tells_what_works(cli: Cli, instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_check_libraries", lambda: examination.Check("libraries", "ok", ""))
    monkeypatch.setattr(examination, "_check_extra", lambda name, _: examination.Check(name, "ok", ""))
    monkeypatch.setattr(examination, "_check_java", lambda _: examination.Check("java", "ok", ""))
    assert doctor(cli)["store directory"]["state"] == "ok"
    forbid_writing(instance)
    found = as_reader(lambda: doctor(cli)["store directory"])
    assert found["state"] == "problem" and "without locks" in found["hint"]  # type: ignore[index]
    found = as_reader(lambda: doctor(cli)["journal directory"])
    assert found["state"] == "problem" and "without locks" not in found["hint"]  # type: ignore[index]
    for path in (instance / "sow").glob("*-lock"):
        path.chmod(0o666)
    found = as_reader(lambda: doctor(cli)["store directory"])
    assert "without" not in found["hint"]  # type: ignore[index]
    (instance / "sow" / "alone.json.sow").chmod(0)
    found = as_reader(lambda: doctor(cli)["store directory"])
    assert "alone.json.sow is not readable" in found["detail"]  # type: ignore[index]


def run_on_read_only_mount(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the directory of its configuration mounted read-only; skip if mounting is not allowed."""
    script = f'mount --bind {root} {root} && mount -o remount,ro,bind {root} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    return subprocess.run(
        [*command, sys.executable, "-m", "sowctl", "-c", str(root / "sowctl.xml"), *argv],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(sowctl.__file__).parent.parent)},
    )


def test_a_read_only_mount(instance: Path) -> None:
    """Even root has no locks there, and gets the note; a writer outside of the mount may continue."""
    for verb in (["query", "orders", "--count"], ["check"], ["store", "check", "--read-data", "100%"]):
        said = run_on_read_only_mount(instance, *verb)
        assert said.returncode == 0, said.stderr
        assert said.stderr.count(NOTE) == 1
        assert "structure: " not in said.stderr
    # It makes several checks, but the note is printed once.
    assert run_on_read_only_mount(instance, "doctor").stderr.count(NOTE) == 1


def test_queues_on_a_read_only_mount(queues: Path) -> None:
    for verb in (*QUEUES, ("check",)):
        said = run_on_read_only_mount(queues, *CLOCK, *verb)
        assert said.returncode == 0, said.stderr
        assert "damaged" not in said.stderr and "not verified" not in said.stderr
    said = run_on_read_only_mount(queues, *CLOCK, "check", "--json")
    assert (said.returncode, json.loads(said.stdout)["findings"]) == (0, [])


QUEUES = (
    ("queue", "list"),
    ("queue", "info", "work"),
    ("queue", "peek", "work"),
    ("queue", "depth", "work"),
    ("query", "work", "--count"),
)


@pytest.fixture
def queues(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An instance with a queue and some leased messages, as the working directory."""
    with open_directory() as root:
        lab = QueueLab(root, config_xml(topic_xml("orders") + queue_xml(), ("orders", "work")))
        lab.publish("orders", *(message(id=number) for number in range(9)))
        monkeypatch.chdir(root)
        lab.lease(2)
        yield root


def answers(cli: Cli) -> list[tuple[int, str]]:
    return [run(cli, *CLOCK, *argv)[:2] for argv in QUEUES]


@pytest.mark.parametrize("kept", [True, False], ids=["with a state", "without one"])
def test_queues_can_be_read_by_who_may_not_write(
    cli: Cli, queues: Path, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check_in_this_process(monkeypatch)
    if not kept:
        shutil.rmtree(next(queues.rglob("*.queues")))
    truth = answers(cli)
    assert {status for status, _ in truth} == {0}
    assert run(cli, *CLOCK, "check")[0] == 0
    if not kept:
        shutil.rmtree(next(queues.rglob("*.queues")))
        run(cli, *CLOCK, "queue", "depth", "--help")
    before = {path: path.read_bytes() for path in queues.rglob("*") if path.is_file()}
    forbid_writing(queues)
    found = as_reader(lambda: (answers(cli), run(cli, *CLOCK, "check")))
    assert found[0] == truth or not kept  # type: ignore[index]
    assert [status for status, _ in found[0]] == [0] * len(QUEUES)  # type: ignore[index]
    assert found[1][0] == 0 and "damaged" not in found[1][1] + found[1][2]  # type: ignore[index]
    status, _, err = as_reader(lambda: run(cli, *CLOCK, "queue", "lease", "work"))  # type: ignore[misc]
    assert status == 6 and "lease" in err
    allow_writing(queues)
    assert {path: path.read_bytes() for path in queues.rglob("*") if path.is_file()} == before


def test_nothing_is_leased_from_a_copy(queues: Path) -> None:
    """A program that has read a queue with a handle is refused when it leases with the same handle."""

    def look_and_lease() -> tuple[int, str, int]:
        with sowctl.open(str(queues / "sowctl.xml"), clock=lambda: START) as opened:
            queue = opened.queue("work")
            seen = len(list(queue.peek()))
            try:
                with queue.lease(1):
                    code = "leased"
            except StorageError as error:
                code = error.code
            return seen, code, len(list(queue.peek()))

    forbid_writing(queues)
    assert as_reader(look_and_lease) == (9, "SOW-STO-041", 9)


@pytest.mark.parametrize(
    ("pattern", "codes"),
    [
        ("*.queue", {"SOW-STO-041"}),
        ("*.queue-lock", {"SOW-STO-041"}),
        ("*.journal", {"SOW-JRN-020"}),
        ("*.topics", {"SOW-JRN-053"}),
        ("journal", {"SOW-JRN-020", "SOW-STO-041"}),
        ("sow", {"SOW-STO-041"}),
    ],
)
def test_check_goes_on_where_something_may_not_be_read(
    cli: Cli, queues: Path, pattern: str, codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not verified, it is reported once, and it is not damage; other damage is still found."""
    _check_in_this_process(monkeypatch)
    assert run(cli, *CLOCK, "check")[0] == 0
    forbid_writing(queues)
    (hidden,) = queues.rglob(pattern)
    hidden.chmod(0)
    status, out, _ = as_reader(lambda: run(cli, *CLOCK, "check", "--json"))  # type: ignore[misc]
    document = json.loads(out)
    found = document["findings"]
    assert status == 6
    assert {row["rule"] for row in found} == codes and len(found) == len({row["message"] for row in found})
    assert document["not_verified"]
    if pattern == "*.queue":
        journal = next(queues.rglob("*.journal"))
        data = bytearray(journal.read_bytes())
        data[len(data) // 2] ^= 4
        journal.chmod(0o644)
        journal.write_bytes(data)
        assert as_reader(lambda: run(cli, *CLOCK, "check"))[0] == 5  # type: ignore[index]
