"""The driver's part of data sets at URLs: what is half there never passes for a whole one, whoever else is at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast
from uuid import UUID

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.errors import RefusedError, SowError, StorageError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath, parse_url
from sowctl.spark.jobs.outputs import remote_datasets
from sowctl.spark.jobs.outputs.partfiles import PartFormat
from sowctl.spark.jobs.outputs.remote_datasets import SentPart, Work, send_parts
from tests.support import objectstore
from tests.support.objectstore import ObjectStore
from tests.support.rdds import Session


def sent(place: RemotePath, text: str, *, force: bool = True, meanwhile: Callable[[], None] = lambda: None) -> None:
    """A data set of three files, a line in each."""
    import pyarrow as pa

    def gather(work: Work) -> list[SentPart]:
        own, parts = cast(Any, work), []
        for number in range(3):
            with remote_datasets._Files(
                own.hidden, f"try-{number}", f"part-{number:05d}-{own.number}", own.form
            ) as files:
                line = f"{text} {number}".encode()
                files.write("", pa.RecordBatch.from_arrays([pa.array([1]), pa.array([line])], ["bytes", "value"]))
                parts.append(files.end())
        meanwhile()
        return parts

    form = PartFormat("lines", "", ".txt", pa.schema([("value", pa.binary())]))
    send_parts(cast(Any, Session()), gather, form, place, force=force)


def seen(lake: ObjectStore) -> tuple[bool, list[str]]:
    """Whether the data set says that it is whole, and its lines."""
    names = [name for name in lake.names("set/") if name and name[-1] != "/" and not name.startswith("_temporary-")]
    lines = [lake.objects[f"lake/set/{name}"].decode().strip() for name in names if name != "_SUCCESS"]
    return "_SUCCESS" in names, sorted(lines)


def whole(text: str) -> tuple[bool, list[str]]:
    return True, [f"{text} {number}" for number in range(3)]


def test_a_file_that_cannot_be_sent_is_named(lake: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_datasets, "uuid4", lambda: UUID(int=5))
    name = f"set/_temporary-{UUID(int=5)}/try-1/part-00001-{UUID(int=5)}-c000.txt"
    put = objectstore._Handler._put

    def refusing(self: Any, body: bytes) -> None:
        if self.key == f"lake/{name}":
            # The upload has begun: what fails is the sending of its bytes.
            self._fail(403, "AccessDenied", "Access Denied")
        else:
            put(self, body)

    monkeypatch.setattr(objectstore._Handler, "_put", refusing)
    with pytest.raises(StorageError) as caught:
        sent(parse_url(lake.url("set")), "one")
    assert (caught.value.code, caught.value.place) == ("SOW-RMT-004", f"s3://lake/{name}") and caught.value.hint


def test_what_is_still_renamed_when_a_job_fails_does_not_stay(
    lake: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real, late = parse_url(lake.url("set")), remote_files.delete_file, list[Callable[[], None]]()

    def run(spark: object, items: list[Any], work: Callable[[Any], None], *, what: str) -> None:
        if items and isinstance(work, remote_datasets._Rename):
            # Spark does not wait for the other tasks of a stage that fails.
            late.extend(lambda part=part: work(part) for part in items[1:])  # type: ignore[misc]
            work(items[0])
            raise StorageError("SOW-RMT-006", "this copy fails")

    def delete(one: RemotePath) -> None:
        real(one)
        # They go on when the driver has passed their files.
        if "/part-00002" in one.path:
            while late:
                with suppress(SowError):
                    late.pop()()

    monkeypatch.setattr(remote_datasets, "run_tasks", run)
    monkeypatch.setattr(remote_files, "delete_file", delete)
    with pytest.raises(StorageError, match="this copy fails"):
        sent(place, "one")
    assert not late and seen(lake) == (False, [])


def test_two_runs_at_once_never_mix(lake: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    place, real = parse_url(lake.url("set")), remote_datasets.list_contents
    looked, ended, looks = threading.Event(), threading.Event(), list[str]()
    told = list[BaseException]()

    def second() -> None:
        try:
            sent(place, "second")
        except BaseException as error:
            told.append(error)
        looked.set()

    other = threading.Thread(target=second, name="second")

    def held(target: RemotePath) -> Any:
        # Each looks before the other has put anything in place, and the one that looked last does all the rest last.
        found, who = real(target), threading.current_thread().name
        looks.append(who)
        if who == "second" and looks.count(who) == 1:
            looked.set()
            assert ended.wait(20)
        elif who != "second" and looks.count(who) == 1:
            other.start()
            assert looked.wait(20)
        return found

    monkeypatch.setattr(remote_datasets, "list_contents", held)
    sent(place, "first")
    assert seen(lake) == whole("first")
    ended.set()
    other.join(20)
    assert not told and seen(lake) == whole("second")


def test_a_run_that_another_has_overtaken_gives_up(lake: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    place = parse_url(lake.url("set"))
    sent(place, "old")
    with pytest.raises(RefusedError) as caught:
        sent(place, "slow", meanwhile=lambda: sent(place, "quick"))
    assert (caught.value.code, caught.value.place) == ("SOW-SPK-170", "s3://lake/set")
    assert seen(lake) == whole("quick")
    # Overtaken in the last moment; and somebody else's file between the own ones.
    run = remote_datasets.run_tasks
    for meanwhile in (lambda: sent(place, "quick"), lambda: remote_files.write_file(place / "part-9", [b"x"])):
        done = list[int]()

        def hooked(*given: Any, what: str, meanwhile: Any = meanwhile, done: list[int] = done) -> Any:
            if what.startswith("rename") and not done:
                done.append(1)
                meanwhile()
            return run(*given, what=what)

        monkeypatch.setattr(remote_datasets, "run_tasks", hooked)
        with pytest.raises(RefusedError) as caught:
            sent(place, "slow")
        assert caught.value.code == "SOW-SPK-170"
    assert seen(lake) == (False, ["x"])
    monkeypatch.setattr(remote_datasets, "run_tasks", run)
    sent(place, "next")
    assert seen(lake) == whole("next") and not [name for name in lake.names("set/") if name.startswith("_temporary")]
