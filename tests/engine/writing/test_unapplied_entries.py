"""A store that is behind the journal when it is opened for writing, while files of the journal are removed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.topics.positions import STORE_AHEAD_OF_JOURNAL
from sowctl.engine.writing import unapplied_entries
from sowctl.errors import DamageError, MissingError
from sowctl.journal.reader import MAX_REREADS
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("t") + topic_xml("u"), ("t", "u"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The store of ``t`` lacks a message of the last file; all files between contain only messages of ``u``."""
    lab = Lab(tmp_path / "lab", XML, journal_size=2000)
    lab.publish("t", message(id=1))
    shutil.copy(lab.store("t"), tmp_path / "kept")
    for number in range(3 * MAX_REREADS):
        lab.publish("u", *[message(id=n, text=f"{number}-{n}" * 90) for n in range(40)])
    lab.publish("t", message(id=2))
    shutil.copy(tmp_path / "kept", lab.store("t"))
    assert len(lab.journals()) > MAX_REREADS + 2
    return lab


def removing(lab: Lab, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Remove a file, up to ``times`` times, after the check that the files have all entries that the store lacks."""
    asked, left = unapplied_entries.check_position, iter(range(times))

    def answered(*args: Any) -> int:
        found = asked(*args)
        for _ in left:
            lab.journals()[0].unlink()
            break
        return found

    monkeypatch.setattr(unapplied_entries, "check_position", answered)


def test_files_without_entries_of_the_topic_may_go(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.journals()[0].unlink()  # the first message of t, which its store has
    removing(lab, monkeypatch, MAX_REREADS - 1)
    lab.publish("t", message(id=3))
    assert sorted(lab.query("t")) == [message(id=1), message(id=2), message(id=3)]


def test_where_they_go_faster_than_they_are_read_it_is_said(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.journals()[0].unlink()
    removing(lab, monkeypatch, MAX_REREADS)
    with pytest.raises(MissingError) as caught:
        lab.publish("t", message(id=3))
    assert caught.value.code == "SOW-JRN-063"
    assert sorted(lab.query("t")) == [message(id=1), message(id=2)]


def test_a_store_is_not_brought_past_entries_that_went_behind_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "lab", XML, journal_size=2000)
    lab.publish("t", message(id=1))
    shutil.copy(lab.store("t"), tmp_path / "kept")
    for number in range(6):
        lab.publish("t", *[message(id=100 * number + n, text=f"{number}-{n}" * 90) for n in range(10, 50)])
    expected = sorted(lab.query("t"))
    files = [(path, path.read_bytes()) for path in lab.journals()]
    assert len(files) > 4  # the search for the first needed file opens a removed one
    shutil.copy(tmp_path / "kept", lab.store("t"))
    asked = unapplied_entries.check_position

    def answered(*args: Any) -> int:
        found = asked(*args)
        for path, _ in files[:-1]:
            path.unlink(missing_ok=True)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(unapplied_entries, "check_position", answered)
        with pytest.raises(DamageError) as caught:
            lab.publish("t", message(id=4))
        assert caught.value.code == STORE_AHEAD_OF_JOURNAL
    # Nothing was written: with the files back, all records are visible.
    for path, content in files:
        path.write_bytes(content)
    assert sorted(lab.query("t")) == expected
