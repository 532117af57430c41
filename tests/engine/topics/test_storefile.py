"""Files that may be replaced at a FileName: stores and their remains, nothing else (sowctl-replay(1))."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb
import pytest

from sowctl.config.lint import lint_files
from sowctl.config.validate import validate_config
from sowctl.engine.options import ReplayOptions
from sowctl.engine.reports import ReplayReport
from sowctl.engine.verbs.replay import replay_topics
from sowctl.errors import RefusedError, SowError
from sowctl.store.builder import create_store
from sowctl.store.meta import Definition
from tests.support.instances import Lab, config_xml, message, topic_xml


def _replay(lab: Lab, **options: object) -> ReplayReport:
    instance = lab.open()
    return replay_topics(instance, [instance.topic("x").config], ReplayOptions(**options))[0]  # type: ignore[arg-type]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A topic with three entries in the journal."""
    made = Lab(tmp_path / "lab", config_xml(topic_xml("x"), ("x",)))
    made.publish("x", *(message(id=number) for number in range(3)))
    return made


def _named(lab: Lab, file: str) -> Path:
    """Change the FileName of the topic."""
    lab.config.write_text(config_xml(topic_xml("x", file=file), ("x",)))
    return lab.directory / file


RESERVED = [
    "archive/test.0000000001.journal.gz",
    "journal/test.0000000000.journal",
    "journal/test.topics",
    "journal/test.lock",
    "sowctl.xml",
    "a-link",
]


@pytest.mark.parametrize("file", RESERVED)
@pytest.mark.parametrize("force", [False, True])
def test_the_instances_own_files_are_never_replaced(lab: Lab, file: str, force: bool) -> None:
    (lab.directory / "a-link").symlink_to(lab.directory / "journal" / "test.0000000000.journal")
    (lab.directory / "archive").mkdir()
    _named(lab, file)
    log = lab.config.read_text()
    archive = "</JournalDirectory><JournalArchiveDirectory>archive</JournalArchiveDirectory>"
    lab.config.write_text(log.replace("</JournalDirectory>", archive))
    before = path.read_bytes() if (path := lab.directory / file).exists() else None
    for act in (
        lambda: _replay(lab, force=force),
        lambda: _replay(lab, rebuild=True, force=force),
        lambda: _replay(lab, rekey=True, force=force),
        lambda: _replay(lab, dry_run=True, force=force),
        lambda: lab.publish("x", message(id=9)),
    ):
        with pytest.raises(RefusedError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-087"
        assert (path.read_bytes() if path.exists() else None) == before
    assert "R031" in {finding.id for finding in validate_config(lab.config, environment={})}
    assert not list(lab.directory.rglob("*.damaged-*")) + list(lab.directory.rglob("*.replaced-*"))


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_what_is_no_regular_file_is_never_replaced(lab: Lab, kind: str, tmp_path: Path) -> None:
    path = _named(lab, "odd")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    mode = path.stat().st_mode
    beside = sorted(lab.directory.iterdir())
    for act in (
        lambda: lab.query("x"),
        lambda: _replay(lab),
        lambda: _replay(lab, force=True, rebuild=True),
        lambda: create_store(path, Definition("i", "t", "json", "user"), now=1),
    ):
        with pytest.raises(RefusedError) as caught:
            act()
        assert caught.value.code == "SOW-STO-070"
    assert path.stat().st_mode == mode
    assert sorted(lab.directory.iterdir()) == beside, "no lock files are made for it"


def _foreign(path: Path) -> None:
    with lmdb.open(str(path), subdir=False, lock=False) as env, env.begin(write=True) as txn:
        txn.put(b"accounts", b"of somebody else")


KINDS = {
    "xml": b"<?xml version='1.0'?><a/>",
    "gzip": b"\x1f\x8b\x08" + bytes(200),
    "sqlite": b"SQLite format 3\0" + bytes(4000),
    "journal": b"\x89SOWJ\r\n\x1a" + bytes(100),
    "text": b"notes\n",
    "rows": b"id,v\n" * 5000,
    "key": b"-----BEGIN PRIVATE KEY-----\nxyz",
    "bytes": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("kind", [*sorted(KINDS), "lmdb"])
def test_another_kind_of_file_is_replaced_only_by_force_and_kept(lab: Lab, kind: str) -> None:
    path = _named(lab, "other.file")
    if kind == "lmdb":
        _foreign(path)
    else:
        path.write_bytes(KINDS[kind])
    before = path.read_bytes()
    for act in (lambda: _replay(lab), lambda: lab.publish("x", message(id=9))):
        with pytest.raises(SowError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-088"
        assert caught.value.exit_status == 8
        assert path.read_bytes() == before
    report = _replay(lab, force=True)
    assert report.action == "rebuilt"
    assert Path(str(report.moved)).read_bytes() == before
    assert len(lab.query("x")) == 3


def test_what_holds_marks_of_a_store_is_repaired_under_any_name(lab: Lab) -> None:
    path = _named(lab, "store.data")
    assert _replay(lab).action == "rebuilt"
    content = bytearray(path.read_bytes())
    content[:4096] = bytes(4096)
    path.write_bytes(content)
    assert _replay(lab).action == "rebuilt"
    path.write_bytes(b"")
    assert _replay(lab).action == "rebuilt"
    assert len(lab.query("x")) == 3


@pytest.mark.parametrize("content", [b"", b"noise", bytes(9000), b"\xde\xc0\xef\xbe" * 500])
def test_what_may_be_left_of_a_store_is_repaired(lab: Lab, content: bytes) -> None:
    lab.store("x").write_bytes(content)
    assert _replay(lab).action == "rebuilt"
    assert len(lab.query("x")) == 3


@pytest.mark.parametrize("file", ["../out.sow", "sow/../../out.sow", "gone/x.sow", "sow/dangling.sow"])
def test_lint_remarks_on_files_outside_the_directory(lab: Lab, file: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (lab.directory / "gone").symlink_to(tmp_path / "elsewhere")
    (lab.directory / "sow" / "dangling.sow").symlink_to(tmp_path / "nowhere.sow")
    _named(lab, file)
    (linted,) = lint_files([lab.config], environment={})
    assert "B060" in {finding.id for finding in linted.findings}
    _named(lab, "sow/%n.sow")
    (linted,) = lint_files([lab.config], environment={})
    assert "B060" not in {finding.id for finding in linted.findings}
