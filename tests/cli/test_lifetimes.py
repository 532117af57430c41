"""Lifetimes without effect, because their topic has no Expiration, are reported and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sowctl
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

XML = config_xml(topic_xml("plain") + topic_xml("mortal", "<Expiration>enabled</Expiration>"), ("plain",))
SAID = "has no Expiration"


@pytest.mark.parametrize(("topic", "ignored"), [("plain", 2), ("mortal", 0)])
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_the_option_and_envelopes(cli: Cli, topic: str, ignored: int, more: tuple[str, ...]) -> None:
    Path("sowctl.xml").write_text(XML)
    lines = b'{"id":1}\n{"id":2}\n'
    result = cli("publish", topic, "--expiration", "10m", "--batch", "1", "--summary", "json", *more, stdin=lines)
    assert (result.status, result.err.count(SAID)) == (0, bool(ignored))
    assert json.loads(result.out)["lifetimes_ignored"] == ignored
    envelopes = b'{"data":{"id":1},"expiration":60}\n{"data":{"id":2}}\n'
    result = cli("publish", topic, "--framing", "envelope", "--summary", "json", *more, stdin=envelopes)
    assert json.loads(result.out)["lifetimes_ignored"] == ignored // 2
    assert SAID not in cli("publish", topic, stdin=lines).err
    assert SAID not in cli("publish", topic, "--expiration", "0", stdin=lines).err


def test_from_python(tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(XML)
    notes: list[str] = []
    with sowctl.open(str(tmp_path / "sowctl.xml"), notify=notes.append) as instance:
        report = instance.topic("plain").publish([{"id": 1}], expiration=60)
    assert report.lifetimes_ignored == 1
    assert [SAID in note for note in notes] == [True]
    assert "sowctl config add expiration plain enabled" in notes[0]
