"""The instance that workers share: a :class:`Plot` with an archive for its journal and a directory of backups.

Templates are created once and restored before every run. In each of them the journal has several files, some messages
are about to expire, and a backup exists.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from sowctl.engine.api import InstanceHandle
from sowctl.engine.instance import Instance
from sowctl.engine.maintenance.backup.creation import take_backup
from sowctl.seam import Seam
from tests.support.damage import flip_bit, overwrite
from tests.support.instances import Numbers
from tests.support.verbs import LOGGED, XML, Plot, State, contents, grown

ARCHIVED = XML.replace(
    "</JournalDirectory>", "</JournalDirectory><JournalArchiveDirectory>old</JournalArchiveDirectory>"
)
FOR_EVER = 1e9
"""Seconds: a lock that is never free is a deadlock, which the scheduler detects."""


class Stage(Plot):
    """``template`` fills it; ``directory`` is replaced."""

    def __init__(self, directory: Path, template: Template) -> None:
        super().__init__(directory, journal_size=template_size(template))
        self.lab.config.write_text(ARCHIVED)
        template(self)
        self.save()

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    def for_worker(self, number: int, seam: Seam) -> InstanceHandle:
        """Open the instance of a worker: it waits for locks without a limit, and has its own random numbers."""
        numbers = Numbers()
        numbers.calls = (number + 1) << 32
        return replace(self.open(seam), lock_wait=FOR_EVER, random=numbers, holder=f"worker {number}")

    def opened(self, config: Path, root: Path) -> Instance:
        """Open the instance of a restored configuration."""
        return Instance.open(config, root=root, environment={}, clock=self.lab.clock)

    def restored(self, to: Path) -> State:
        """Return the contents of an instance that was restored to ``to``."""
        handle = InstanceHandle.open(to / "sowctl.xml", environment={}, clock=self.lab.clock)
        return contents(handle)


Template = Callable[[Stage], None]


def template_size(template: Template) -> int:
    return 700 if template in (few, few_spoiled) else 1500


def few(stage: Stage) -> None:
    """Three topics and a few records: verbs make as few calls as possible."""
    for topic in "jqa":
        stage.publish(topic, range(2))
    stage.lab.clock.tick(12)
    stage.publish("j", [0, 2])
    stage.publish("q", [1, 3])
    stage.delete("j", [1])
    stage.lab.clock.tick(3)
    take_backup(stage.open(), stage.backups)
    stage.publish("j", [2, 4])
    stage.publish("a", [0])
    stage.lab.clock.tick(20)


def many(stage: Stage) -> None:
    """All topics; stores that lack the journal's last file and more, as after a killed publisher."""
    grown(stage)
    take_backup(stage.open(), stage.backups)
    older = {path.name: path.read_bytes() for path in (stage.root / "sow").glob("*.sow") if path.name[0] in "jhq"}
    stage.publish("j", range(20, 26))
    stage.publish("h", [*range(3), 40])
    stage.delete("j", [6, 20])
    for topic in LOGGED:
        stage.lab.forget(topic)
    for name, content in older.items():
        (stage.root / "sow" / name).write_bytes(content)
    stage.lab.clock.tick(20)


def _spoil(stage: Stage) -> None:
    path = stage.lab.store("j")
    for value in [record.value for record in stage.lab.records("j")[::3]]:
        at = path.read_bytes().find(value)
        if at > 0:
            flip_bit(path, 8 * (at + 50))
    overwrite(stage.lab.store("q"), 0, b"no store" * 2000)


def few_spoiled(stage: Stage) -> None:
    """As :func:`few`, with damaged records in one store, and an invalid file as another; the journal has them all."""
    few(stage)
    _spoil(stage)


def many_spoiled(stage: Stage) -> None:
    many(stage)
    _spoil(stage)
