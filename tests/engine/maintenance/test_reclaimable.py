"""Space that can be reclaimed on a full disk: each line's command frees the given size, and then the line is gone."""

from __future__ import annotations

from pathlib import Path

from sowctl.engine.maintenance.reclaimable import ReclaimableSpace, list_reclaimable
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.maintenance.retention.rotation import rotate_journal
from tests.support.instances import Lab, config_xml, message, topic_xml


def found(lab: Lab) -> dict[str, ReclaimableSpace]:
    """Return the lines by the first words of their commands, in order."""
    return {" ".join(one.command.split()[:3]): one for one in list_reclaimable(lab.open())}


def test_journal_files_as_they_go(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    assert found(lab) == {}
    lab.publish("t", *(message(id=number, text="text " * 50) for number in range(500)))
    (active,) = lab.journals()
    lines = found(lab)
    assert list(lines) == ["sowctl journal rotate"]
    assert lines["sowctl journal rotate"].bytes == active.stat().st_size
    rotate_journal(lab.open())
    lines = found(lab)
    assert list(lines) == ["sowctl journal compress", "sowctl journal prune"]
    assert {one.bytes for one in lines.values()} == {active.stat().st_size}
    command = lines["sowctl journal prune"].command
    list(compress_files(lab.open()))
    assert "sowctl journal prune" in found(lab)
    before = int(command.split("--before ")[1].split()[0])
    assert prune_files(lab.open(), KeepRule(before_txid=before)).removed == 1
    assert found(lab) == {}


def test_files_that_killed_processes_and_repairs_left(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ()))
    lab.publish("t", message(id=1))
    store = lab.store("t")
    store.with_name(f"{store.name}.damaged-1").write_bytes(b"x" * 700)
    assert [(one.bytes, one.command) for one in list_reclaimable(lab.open())] == [(700, f"rm {store}.damaged-1")]


def test_what_cannot_be_looked_at_hides_nothing_else(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u"), ("t",)))
    lab.publish("t", message(id=1))
    lab.publish("u", message(id=1))
    lab.store("u").write_bytes(b"no store")
    assert list(found(lab)) == ["sowctl journal rotate"]
