"""The chaining key generator: chains across runs and processes, lost and torn files, two chains."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sowctl.engine.keys.chainfile import ChainBlock, append_block, read_blocks
from sowctl.engine.keys.limits import KEY_LIMITS, KeyLimits
from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import ConfigError, DamageError, InputError, MissingError, StorageError, UsageError
from sowctl.seam import SEAM
from sowctl.values.times import format_time
from tests.support.chains import MakeLab, chained, generator
from tests.support.faults import FailAt
from tests.support.instances import Lab, config_xml, message, topic_xml

ROOT = Path(__file__).parents[3]


def chains(lab: Lab) -> Path:
    return lab.directory / "sow" / "c.json.sow.chains"


def contents(lab: Lab) -> list[tuple[int, ...]]:
    return sorted((row["id"], row.get("parent", 0)) for row in map(json.loads, lab.query("c")))


logged = pytest.mark.parametrize("logged", [True, False], ids=["journalled", "alone"])


@logged
def test_every_run_knows_what_those_before_it_published(make_lab: MakeLab, logged: bool) -> None:
    lab = chained(make_lab, logged=logged)
    for payload in (message(id=1), message(id=9), message(id=2, parent=1), message(id=3, parent=2), message(id=2)):
        lab.publish("c", payload)
    assert contents(lab) == [(2, 0), (9, 0)]


@logged
def test_single_messages_and_a_batch_make_the_same_chains(make_lab: MakeLab, logged: bool) -> None:
    rows = [message(id=n, parent=n // 3) if n % 4 else message(id=n) for n in range(1, 30)]
    one, all_ = (chained(make_lab, logged=logged, name=name) for name in ("one", "all"))
    for row in rows:
        one.publish("c", row)
    all_.publish("c", *rows)
    assert contents(one) == contents(all_)
    assert {r.sow_key for r in one.records("c")} == {r.sow_key for r in all_.records("c")}


def test_the_file_of_a_journalled_topic_can_be_lost(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1), message(id=2, parent=1), message(id=3, parent=2))
    chains(lab).unlink()
    lab.publish("c", message(id=4, parent=1))
    assert contents(lab) == [(4, 1)]
    chains(lab).write_bytes(chains(lab).read_bytes()[:-3])
    lab.publish("c", message(id=5, parent=2))
    assert contents(lab) == [(5, 2)]
    blocks = read_blocks(chains(lab), SEAM)
    assert blocks is not None
    assert blocks[-1].end == chains(lab).stat().st_size


def test_the_file_of_a_topic_without_a_journal_is_needed(make_lab: MakeLab) -> None:
    lab = chained(make_lab, logged=False)
    lab.publish("c", message(id=1), message(id=2, parent=1))
    chains(lab).unlink()
    with pytest.raises(MissingError) as caught:
        lab.publish("c", message(id=3, parent=2))
    assert caught.value.code == "SOW-ENG-053"
    chains(lab).write_bytes(b"")
    lab.publish("c", message(id=3, parent=2))
    assert contents(lab) == [(3, 2)]


@pytest.mark.parametrize("call", range(1, 30))
@logged
def test_a_failure_anywhere_leaves_no_chain_of_messages_that_are_not_there(
    make_lab: MakeLab, logged: bool, call: int
) -> None:
    lab = chained(make_lab, logged=logged)
    lab.publish("c", message(id=1))
    points = (
        "file.open",
        "file.sync",
        "file.pwrite",
        "file.write",
        "lmdb.commit",
        "file.lock",
        "file.truncate",
        "dir.sync",
    )
    seam = FailAt(call, errno.EIO, points=points)
    with suppress(StorageError):
        lab.open(seam=seam).topic("c").publish([message(id=2, parent=1).encode()])
    there = [row["id"] for row in map(json.loads, lab.query("c"))]
    if there == [1]:
        lab.publish("c", message(id=2))
        assert contents(lab) == [(1, 0), (2, 0)]
    else:
        lab.publish("c", message(id=3, parent=2))
        assert contents(lab) == [(3, 2)]


def test_two_chains_refuse_a_message(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1), message(id=2))
    with pytest.raises(InputError) as caught:
        lab.publish("c", message(id=1, parent=2))
    assert caught.value.code == "SOW-PUB-017"
    assert "1 and 2" in caught.value.message
    report = lab.publish(
        "c", message(id=3, parent=1), message(id=3, parent=2), message(id=4, parent=3), on_error="skip"
    )
    assert (report.published, report.rejected) == (2, 1)
    assert contents(lab) == [(2, 0), (4, 3)]


def test_without_a_primary_value_a_known_secondary_one_is_needed(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1))
    lab.publish("c", message(parent=1))
    assert lab.query("c") == [message(parent=1)]
    with pytest.raises(InputError) as caught:
        lab.publish("c", message(parent=7))
    assert caught.value.code == "SOW-PUB-002"


def test_a_refused_message_is_in_no_chain(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1))
    with pytest.raises(InputError):
        lab.publish("c", message(id=2, parent=3), message(id=5), delta=True, update_only=True)
    lab.publish("c", message(id=2, parent=1))
    assert contents(lab) == [(2, 1)]


def test_a_refused_message_makes_no_chain_for_those_behind_it(make_lab: MakeLab) -> None:
    rows = [message(id=1), message(id=5), message(id=6, parent=5), message(id=2, parent=1), message(id=1, x="y")]
    one, all_ = (chained(make_lab, name=name) for name in ("one", "all"))
    for lab, parts in ((one, [[row] for row in rows]), (all_, [rows])):
        lab.publish("c", message(id=1))
        for part in parts:
            lab.publish("c", *part, delta=True, update_only=True, on_error="skip")
        lab.publish("c", message(id=6, parent=9))
    assert contents(one) == contents(all_)
    assert {record.sow_key for record in one.records("c")} == {record.sow_key for record in all_.records("c")}


def test_duplicates_make_no_chains(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1), client="me", sequence=1)
    report = lab.publish("c", message(id=8), message(id=2, parent=8), client="me", sequence=1)
    assert (report.duplicates, report.published) == (1, 1)
    assert contents(lab) == [(1, 0), (2, 8)]


def test_a_dry_run_writes_no_file(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1))
    before = chains(lab).read_bytes()
    report = lab.publish("c", message(id=2, parent=1), message(id=3, parent=2), dry_run=True)
    assert (report.inserted, report.updated) == (0, 2)
    assert chains(lab).read_bytes() == before


def test_a_key_whose_record_was_deleted_is_still_of_its_chain(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1), message(id=2, parent=1))
    key = lab.records("c")[0].sow_key
    lab.open().topic("c").delete(filter="1=1")
    lab.publish("c", message(id=3, parent=1))
    assert [record.sow_key for record in lab.records("c")] == [key]


def test_deleting_by_messages_is_not_possible(make_lab: MakeLab) -> None:
    lab = chained(make_lab)
    lab.publish("c", message(id=1))
    with pytest.raises(UsageError) as caught:
        lab.open().topic("c").delete(data=[message(id=1).encode()])
    assert caught.value.code == "SOW-DEL-006"


def test_file_name_and_validation(make_lab: MakeLab) -> None:
    options = (
        "<Key>/id</Key><Key>/parent</Key><Key>/other</Key><FileName>ids/%n.ids</FileName><Validation>true</Validation>"
    )
    lab = chained(make_lab, options)
    lab.publish("c", message(id=1), message(id=2, other=1))
    path = lab.directory / "ids" / "c.json.ids"
    assert contents(lab) == [(2, 0)]
    other = chained(make_lab, options, name="other")
    other.publish("c", message(id=7))
    other.publish("c", message(id=2, parent=7))
    lab.publish("c", message(id=3, parent=2))
    _graft(path, {b"3": bytes(16)})
    with pytest.raises(DamageError) as caught:
        lab.publish("c", message(id=4))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-054", 5)


def _graft(path: Path, links: dict[bytes, bytes]) -> None:
    """Replace the links in the file of chains."""
    import zlib
    from struct import pack

    import msgpack

    blocks = read_blocks(path, SEAM)
    assert blocks
    last = blocks[-1]
    body = msgpack.packb([list(last.identity), last.lineage, last.applied, list(links.items())])
    with path.open("ab") as file:
        file.write(pack("<II", len(body), zlib.crc32(body)) + body)


@logged
def test_blocks_of_other_chains_are_passed_over(make_lab: MakeLab, logged: bool) -> None:
    lab = chained(make_lab, logged=logged)
    lab.publish("c", message(id=1))
    other = chained(make_lab, "<Primary>/n</Primary><Secondary>/parent</Secondary>", logged=logged, name="other")
    other.publish("c", message(n=1))
    foreign = chains(other).read_bytes()
    with chains(lab).open("ab") as file:
        file.write(foreign)
    lab.publish("c", message(id=2, parent=1))
    lab.publish("c", message(id=3, parent=2))
    assert contents(lab) == [(3, 2)]
    assert foreign in chains(lab).read_bytes()


def test_a_loose_file_is_written_anew(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEY_LIMITS, "chain_rewrite_min_bytes", 2000)
    lab = chained(make_lab)
    sizes = []
    for n in range(60):
        lab.publish("c", message(id=n % 5 + 1))
        sizes.append(chains(lab).stat().st_size)
    assert max(sizes) < 2300 < KeyLimits().chain_rewrite_min_bytes
    assert sorted(sizes) != sizes
    lab.publish("c", message(id=9, parent=3))
    assert (9, 3) in contents(lab)


@pytest.mark.parametrize("n", range(1, 5))
def test_a_file_that_cannot_be_written_anew_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(KEY_LIMITS, "chain_rewrite_min_bytes", 100)
    path, block = tmp_path / "c.chains", ChainBlock(("c",), bytes(16), 1, [(b"a", bytes(16))])
    end = 0
    for _ in range(8):
        end = append_block(path, block, end, SEAM, whole=[(b"a", bytes(16))] * 16, shared=False)
    before = path.read_bytes()
    points = ("file.open", "file.pwrite", "file.sync", "file.rename")
    # the file itself is opened and locked first
    failing = FailAt(n + 1, errno.ENOSPC, points=points)
    with pytest.raises(StorageError):
        append_block(path, block, end, failing, whole=[(b"a", bytes(16))], shared=False)
    assert failing.points[-1] == points[n - 1]
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


@logged
def test_a_run_learns_what_another_process_publishes_meanwhile(make_lab: MakeLab, logged: bool) -> None:
    lab = chained(make_lab, logged=logged)
    lab.publish("c", message(id=1))
    now = format_time(lab.clock.at)

    def messages() -> Iterator[bytes]:
        yield message(id=2, parent=1).encode()
        command = [sys.executable, "-m", "sowctl", "-c", str(lab.config), "--now", now, "publish", "c"]
        subprocess.run(command, input=message(id=3, parent=1).encode(), check=True, capture_output=True, cwd=ROOT)
        yield message(id=4, parent=3).encode()

    publish_messages(lab.open(), "c", [("pipe", ListSource(messages(), 1))], PublishOptions(batch=1))
    assert contents(lab) == [(4, 3)]


def test_an_unknown_module_is_a_configuration_error_of_the_publish_alone(make_lab: MakeLab) -> None:
    topic = topic_xml("c", generator().replace("chain<", "nobody<"), key=None)
    lab = make_lab(config_xml(topic + topic_xml("t"), ("t",)))
    with pytest.raises(ConfigError) as caught:
        lab.publish("c", message(id=1))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-PUB-010", 4)
    assert "sowctl.key_generators" in str(caught.value.hint)
    lab.publish("t", message(id=1))
    assert list(lab.query("c")) == []
