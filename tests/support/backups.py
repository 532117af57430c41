"""Backups for tests: a lab with every kind of file, backed up and restored with short words."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.maintenance.backup.creation import take_backup
from sowctl.engine.maintenance.backup.manifest import BackupManifest
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.upkeep.restore import RestoreReport, restore_backup
from sowctl.seam import SEAM, Seam
from sowctl.store import check as check_module
from tests.support.instances import CheckHere, Clock, Lab, config_xml, message, topic_xml
from tests.support.queues import QueueLab, queue_xml

TOPICS = (
    topic_xml("t"),
    topic_xml("quotes", "<Expiration>30s</Expiration>"),
    topic_xml("past", "<History><Window>1h</Window><Granularity>1s</Granularity></History>"),
    topic_xml("alone"),
    topic_xml("orders"),
)
LOGGED = ("t", "quotes", "past", "orders", "work")
XML = config_xml("".join(TOPICS) + queue_xml(), LOGGED)
NAMES = ("t", "quotes", "past", "alone", "orders")


class BackupLab(QueueLab):
    """A lab with a directory of backups next to it."""

    @property
    def backups(self) -> Path:
        return self.directory.parent / "backups"

    def round(self, number: int) -> None:
        """Publish a message to every topic, one second later."""
        self.clock.tick(1)
        for name in NAMES:
            self.publish(name, message(id=number % 7, round=number), message(id=100 + number, round=number))

    def take(self, seam: Seam = SEAM, **options: object) -> tuple[BackupManifest, Path]:
        return take_backup(self.open(seam), self.backups, **options)  # type: ignore[arg-type]

    def digests(self, at: int | None = None) -> dict[str, str]:
        """Return the digest of every topic, as of ``at``."""
        instance = self.open()
        return {topic.name: compute_digest(instance, Target(topic=topic), at).digest for topic in instance.topics}

    def bring_back(
        self, place: str = "restored", seam: Seam = SEAM, **options: object
    ) -> tuple[BackupLab, RestoreReport]:
        """Restore, and return the restored instance as a lab of its own."""
        to = self.directory.parent / place
        report = restore_backup(
            self.backups,
            to,
            self.opened,
            seam=seam,
            now=self.clock(),
            lineage=os.urandom(16),
            **options,  # type: ignore[arg-type]
        )
        return self.beside(to), report

    def opened(self, config: Path, root: Path) -> Instance:
        """Open the instance of a restored configuration."""
        return Instance.open(config, root=root, environment={}, clock=self.clock, notify=self.notes.append)

    def beside(self, to: Path) -> BackupLab:
        """Return a lab for a directory that contains an instance."""
        text = (to / "sowctl.xml").read_text()
        return BackupLab(to, text, clock=Clock(self.clock()), journal_size=self.journal_size)


@pytest.fixture
def checks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check stores in this process: a Python process per store would take longer than the tests."""
    monkeypatch.setattr(check_module, "StoreCheck", CheckHere)


def read_all(lab: Lab, topic: str) -> list[str]:
    """Return the payloads of a topic."""
    with closing(lab.open().topic(topic).query()) as result:
        return [record.payload.decode() for record in result.records()]
