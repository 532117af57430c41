"""The driver's part of data sets at URLs: what is half there never passes for a whole one, whoever else is at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.errors import StorageError
from sowctl.remote.place import RemotePath, url_of
from sowctl.spark.jobs.outputs import sending
from sowctl.spark.jobs.outputs.partfiles import PartFormat
from sowctl.spark.jobs.outputs.sending import SentPart, Work, send_parts
from tests.support import objectstore
from tests.support.objectstore import ObjectStore
from tests.support.rdds import Session


def sent(place: RemotePath, text: str, *, force: bool = True, meanwhile: Callable[[], None] = lambda: None) -> None:
    """A data set of three files, a line in each."""
    import pyarrow as pa

    def gather(work: Work) -> list[SentPart]:
        own, parts = cast(Any, work), []
        for number in range(3):
            with sending._Files(own.hidden, f"try-{number}", f"part-{number:05d}-{own.number}", own.form) as files:
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
    monkeypatch.setattr(sending, "uuid4", lambda: UUID(int=5))
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
        sent(url_of(lake.url("set")), "one")
    assert (caught.value.code, caught.value.place) == ("SOW-RMT-004", f"s3://lake/{name}") and caught.value.hint
