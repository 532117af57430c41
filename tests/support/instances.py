"""Instances for tests: short configurations, a clock that is set by the test, everything verified afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.api import InstanceHandle
from sowctl.engine.options import PublishOptions
from sowctl.engine.records import StoredRecord
from sowctl.engine.reports import PublishReport
from sowctl.engine.verbs.check import check_instance
from sowctl.findings import Finding, Level
from sowctl.seam import SEAM, Seam
from sowctl.store import check as check_module
from sowctl.store.examine import examine_store

START = 1_767_600_000_000_000
"""2026-01-05T08:00:00Z."""
SECOND = 1_000_000


def topic_xml(name: str, *parts: str, key: str | None = "/id", file: str | None = "sow/%n.sow") -> str:
    """Return one Topic element; ``parts`` are further child elements as text."""
    keys = f"<Key>{key}</Key>" if key is not None else ""
    where = f"<FileName>{file}</FileName>" if file is not None else ""
    return f"<Topic><Name>{name}</Name><MessageType>json</MessageType>{keys}{where}{''.join(parts)}</Topic>"


def config_xml(topics_xml: str, logged: tuple[str, ...], name: str = "test", size: str = "10MB") -> str:
    """Return a whole configuration; ``logged`` are the topics in the transaction log."""
    log = "".join(f"<Topic><Name>{topic}</Name><MessageType>json</MessageType></Topic>" for topic in logged)
    journal = (
        f"<TransactionLog><JournalDirectory>journal</JournalDirectory><JournalSize>{size}</JournalSize>{log}"
        "</TransactionLog>"
        if logged
        else ""
    )
    return f"<AMPSConfig><Name>{name}</Name><SOW>{topics_xml}</SOW>{journal}</AMPSConfig>"


def message(**fields: object) -> str:
    """Return a compact JSON message."""
    return json.dumps(fields, separators=(",", ":"))


@dataclass
class Clock:
    """A clock that only the test advances."""

    at: int = START

    def __call__(self) -> int:
        return self.at

    def tick(self, seconds: float) -> None:
        """Advance it, or set it back."""
        self.at += round(seconds * SECOND)


class Numbers:
    """Reproducible "random" bytes, different in every call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, count: int) -> bytes:
        self.calls += 1
        return self.calls.to_bytes(count, "big")


@dataclass
class Lab:
    """An instance in its own directory, with a clock that the test controls.

    ``journal_size`` bytes make journals roll sooner than a configuration may request.
    """

    directory: Path
    xml: str
    clock: Clock = field(default_factory=Clock)
    seam: Seam = SEAM
    notes: list[str] = field(default_factory=list)
    journal_size: int | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # An instance that is only read is not written to: the reader may be killed, and others read at the same time.
        if not self.config.exists() or self.config.read_text() != self.xml:
            self.config.write_text(self.xml)
        self._random = Numbers()

    @property
    def config(self) -> Path:
        return self.directory / "sowctl.xml"

    def open(self, seam: Seam | None = None, lock_wait: float = 5.0) -> InstanceHandle:
        instance = InstanceHandle.open(
            self.config,
            environment={},
            clock=self.clock,
            seam=seam or self.seam,
            lock_wait=lock_wait,
            random=self._random,
            notify=self.notes.append,
        )
        config = instance.config
        if self.journal_size is None or config is None or config.transaction_log is None:
            return instance
        log = replace(config.transaction_log, journal_size=self.journal_size)
        return replace(instance, config=replace(config, transaction_log=log))

    def publish(self, topic: str, *messages: str | bytes, **options: object) -> PublishReport:
        payloads = [m.encode() if isinstance(m, str) else m for m in messages]
        return self.open().topic(topic).publish(payloads, PublishOptions(**options))  # type: ignore[arg-type]

    def query(self, topic: str, filter: str | None = None, **options: object) -> list[str]:
        """Return the payloads of a query."""
        result = self.open().topic(topic).query(filter, **options)
        return [record.payload.decode() for record in result.records()]

    def records(self, topic: str, filter: str | None = None, **options: object) -> list[StoredRecord]:
        """Return the records of a query."""
        return list(self.open().topic(topic).query(filter, **options).records())

    def digest(self, topic: str) -> str:
        return self.open().topic(topic).digest().digest

    def store(self, topic: str) -> Path:
        return self.directory / "sow" / f"{topic}.json.sow"

    def forget(self, topic: str) -> None:
        """Delete a store with all files next to it."""
        for path in self.store(topic).parent.glob(f"{topic}.json.sow*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def journals(self) -> list[Path]:
        return sorted((self.directory / "journal").glob("*.journal"))

    def findings(self) -> list[Finding]:
        return list(check_instance(self.open()))


def numbered(lab: Lab, topic: str, first: int, last: int) -> None:
    """Publish messages with the ids from ``first`` to ``last``, each by itself."""
    for number in range(first, last + 1):
        lab.publish(topic, message(id=number))


def keep_store(lab: Lab, topic: str, place: Path) -> None:
    """Copy a store to ``place``; no process has it open."""
    shutil.copy(lab.store(topic), place)


def put_back(lab: Lab, topic: str, place: Path) -> None:
    """Replace a store with a copy of :func:`keep_store`."""
    lab.forget(topic)
    shutil.copy(place, lab.store(topic))


class CheckHere(check_module.StoreCheck):
    """A check that reads in this process: for stores expected to be intact, and where a child may not read."""

    def _run_child(self) -> Generator[Finding]:
        for item in examine_store(str(self._path), self._no_lock, lambda _: None):
            if isinstance(item, Finding):
                yield item
            else:
                self.coverage = item


@contextmanager
def verified(lab: Lab) -> Iterator[Lab]:
    """A lab that is checked after the test: in this process, since a Python process for every store of every test would
    take longer than most of the tests.
    """
    yield lab
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_module, "StoreCheck", CheckHere)
        errors = [finding for finding in lab.findings() if finding.level >= Level.ERROR]
    assert not errors, errors
