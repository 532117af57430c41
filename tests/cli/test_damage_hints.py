"""The command in the hint of each damage of a store, run as it stands there: afterwards a check finds nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.lmdbfile.walk import read_free_list
from sowctl.store.meta import META_KEY, encode_meta
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.pagefile import PageFile
from tests.cli.conftest import Cli
from tests.support.damage import find_root, lose_write, overwrite, truncate
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.stores import tamper, value_of

PAGE = 4096
COMMAND = re.compile(r"sowctl (replay|store repair) (\S+)")
HISTORY = "<History><Window>1d</Window><Granularity>0s</Granularity></History>"
XML = config_xml(
    topic_xml("t", "<Expiration>enabled</Expiration>") + topic_xml("u") + topic_xml("h", HISTORY), ("t", "h")
)


def spoil_record(lab: Lab, topic: str) -> None:
    key = int(lab.records(topic)[0].sow_key).to_bytes(8, "big")
    tamper(lab.store(topic), b"records", key, value_of(bytes(8), 1, b"of another key"))


def lose_record(lab: Lab, topic: str) -> None:
    key = int(lab.records(topic)[0].sow_key).to_bytes(8, "big")
    tamper(lab.store(topic), b"records", key, None)


def lose_page_write(lab: Lab, topic: str) -> None:
    shutil.copy(lab.store(topic), lab.directory / "before")
    lab.publish(topic, message(id=1, text="changed"))
    lose_write(lab.store(topic), lab.directory / "before")


def lose_meta_write(lab: Lab, topic: str) -> None:
    with Store.open(lab.store(topic), write=False) as store:
        meta = store.read_meta()
    tamper(lab.store(topic), b"meta", META_KEY, encode_meta(meta.replace_parts(transaction=meta.transaction - 1)))


def spoil_meta(lab: Lab, topic: str) -> None:
    with Store.open(lab.store(topic), write=False) as store:
        meta = store.read_meta()
    tamper(lab.store(topic), b"meta", META_KEY, encode_meta(meta)[:-1] + b"?")


def spoil_magic(lab: Lab, topic: str) -> None:
    tamper(lab.store(topic), b"meta", META_KEY, b"no meta record of a store, but something else")


def spoil_beginning(lab: Lab, topic: str) -> None:
    overwrite(lab.store(topic), 0, bytes(2 * PAGE))


def cut_end(lab: Lab, topic: str) -> None:
    truncate(lab.store(topic), lab.store(topic).stat().st_size // 2)


def spoil_page(lab: Lab, topic: str) -> None:
    overwrite(lab.store(topic), PAGE * find_root(lab.store(topic)), b"\xff" * PAGE)


def spoil_expiry(lab: Lab, topic: str) -> None:
    tamper(lab.store(topic), b"expiry", bytes(15) + b"\1", b"none")


def spoil_changes(lab: Lab, topic: str) -> None:
    tamper(lab.store(topic), b"changes", (1).to_bytes(8, "big"), b"nothing")


def spoil_version(lab: Lab, topic: str) -> None:
    key = int(lab.records(topic)[0].sow_key).to_bytes(8, "big")
    tamper(lab.store(topic), b"history", key + bytes(16), value_of(key, 1, b"an older one"))


def free_used_page(lab: Lab, topic: str) -> None:
    """Put the number of a page in use in the place of one in the list of free pages."""
    path = lab.store(topic)
    meta, used = read_verified_meta(path, SEAM), find_root(path)
    with PageFile(path, meta.page_size, SEAM) as file:
        found = read_free_list(file, meta)
        page = file.read_page(meta.free.root)
    assert found is not None
    assert page is not None
    at = page.index(struct.pack("=Q", max(number for some in found.freed.values() for number in some)))
    overwrite(path, PAGE * meta.free.root + at, used.to_bytes(8, sys.byteorder))


Damage = Callable[[Lab, str], None]
DAMAGES: dict[Damage, set[str]] = {
    spoil_record: {"SOW-STO-001"},
    lose_record: {"SOW-STO-003", "SOW-STO-051"},
    lose_page_write: {"SOW-STO-023"},  # the root, which leads to a page that is free by now
    lose_meta_write: {"SOW-STO-054"},
    spoil_meta: {"SOW-STO-012"},
    spoil_magic: {"SOW-STO-010"},
    spoil_beginning: {"SOW-STO-021"},
    cut_end: {"SOW-STO-022"},
    spoil_page: {"SOW-STO-023"},
    spoil_expiry: {"SOW-STO-052"},
    spoil_changes: {"SOW-STO-055"},
    spoil_version: {"SOW-STO-004", "SOW-STO-051"},
    free_used_page: {"SOW-STO-056", "SOW-STO-023"},
}

UNREADABLE: dict[Damage, str] = {
    spoil_beginning: "hint: restore the file from a copy",
    cut_end: "hint: restore the file from a copy",
    lose_meta_write: "hint: --earlier uses that state",
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, XML)
    for topic in "tuh":
        for text in ("x" * 40, "y" * 40, "z" * 50):
            lab.publish(topic, *(message(id=n, text=text) for n in range(40)))
    return lab


def findings(cli: Cli, *words: str) -> list[dict[str, object]]:
    done = cli(*words, "--format", "json")
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("topic", ["t", "u", "h"], ids=["journal", "no journal", "history"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_command_of_a_hint_repairs(lab: Lab, cli: Cli, damage: Damage, topic: str) -> None:
    before = lab.digest(topic)
    damage(lab, topic)
    check = ("store", "check", topic) if damage is free_used_page else ("check", topic)
    found = findings(cli, *check)
    assert DAMAGES[damage] & {row["rule"] for row in found}, found
    commands = {match[0] for row in found for match in COMMAND.finditer(str(row["hint"]))}
    assert commands == {f"sowctl store repair {topic}" if topic == "u" else f"sowctl replay {topic}"}
    for command in commands:
        words = shlex.split(command)[1:]
        done = cli(*words, *(("--yes",) if words[0] == "store" else ()))
        if topic == "u" and damage in UNREADABLE:
            # Of a topic without a journal there is nothing else: the next hint says what is left to do.
            assert UNREADABLE[damage] in done.err
            assert "journal" not in done.err
            return
        # 5: records are lost.
        assert done.status in ((0, 5) if topic == "u" else (0,)), done.err
    assert findings(cli, *check) == []
    if topic != "u" and damage is not lose_page_write:
        assert lab.digest(topic) == before


def test_a_damaged_store_is_not_rebuilt_from_a_part_of_the_journal(lab: Lab, cli: Cli) -> None:
    """Its intact records are in no journal any more: the refusal names the command that keeps them."""
    cli("journal", "rotate")
    lab.publish("t", message(id=1000, text="new"))
    cli("store", "compact", "t")
    assert cli("journal", "prune", "--keep-size", "1", "--yes").status == 0
    assert lab.open().topic("t").info().records == 41
    spoil_record(lab, "t")
    refused = cli("replay", "t")
    assert (refused.status, "sowctl store repair t" in refused.err) == (8, True), refused.err
    assert cli("store", "repair", "t", "--yes").status == 5
    assert lab.open().topic("t").info().records == 40
    assert cli("check", "t").status == 0
