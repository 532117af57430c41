"""Joins between topics that are already attached, and topics whose type is given in only one of two joins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.instances import Lab, config_xml, message, topic_xml

TOPICS = topic_xml("A") + topic_xml("B") + topic_xml("C")
NVFIX = (
    "<Topic><Name>B</Name><MessageType>nvfix</MessageType><Key>/id</Key><FileName>sow/%n.nvfix.sow</FileName></Topic>"
)


def view(*joins: str) -> str:
    texts = "".join(f"<Join>{join}</Join>" for join in joins)
    fields = "".join(f"<Field>[json].[{name}]./id AS /{name}</Field>" for name in "AB")
    groups = "".join(f"<Field>[json].[{name}]./id</Field>" for name in "AB")
    return (
        f"<View><Name>view</Name><MessageType>json</MessageType><UnderlyingTopic>{texts}</UnderlyingTopic>"
        f"<Projection>{fields}<Field>COUNT([json].[A]./id) AS /n</Field></Projection>"
        f"<Grouping>{groups}</Grouping></View>"
    )


def shown(lab: Lab) -> list[tuple[int, int | None, int]]:
    found = [json.loads(payload) for payload in lab.query("view")]
    return sorted((one["A"], one["B"], one["n"]) for one in found)


@pytest.mark.parametrize(
    ("joins", "times"),
    [
        (("[A]./k = [B]./k", "[B]./id = [A]./id"), 1),
        (("[A]./k = [B]./k", "[json].[A]./id = [B]./id"), 1),
        (("[A]./k = [B]./k", "[B]./id = [json].[A]./id"), 1),
        (("[A]./id = [B]./id", "[A]./k = [C]./k", "[C]./id = [B]./id"), 1),
        (("[A]./id = [B]./id", "[A]./k = [C]./k", "[C]./k = [A]./k"), 2),
    ],
)
def test_a_condition_between_attached_topics(joins: tuple[str, ...], times: int, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(TOPICS + view(*joins), ("A", "B", "C")))
    for name in "ABC":
        lab.publish(name, message(id=1, k="x"), message(id=2, k="x"))
    assert shown(lab) == [(1, 1, times), (2, 2, times)]
    # Incremental updates, from each of the topics.
    lab.publish("B", message(id=2, k="y"), message(id=3, k="x"))
    lab.publish("A", message(id=3, k="x"))
    lab.publish("C", message(id=3, k="x"))
    caught_up = shown(lab)
    assert caught_up == [tuple(json.loads(one).values()) for one in sorted(lab.query("view", fresh=True))]
    assert (3, 3, 1 if times == 1 else 3) in caught_up


def test_of_two_topics_of_a_name_that_of_the_own_type_is_meant(tmp_path: Path) -> None:
    joins = view("[json].[A]./k = [nvfix].[B]./k", "[A]./id = [B]./id")
    lab = Lab(tmp_path / "lab", config_xml(TOPICS + NVFIX + joins, ("A",)))
    lab.publish("A", message(id=1, k="x"))
    lab.open().topic("B", "nvfix").publish([b"id=7\x01k=x\x01"])
    lab.open().topic("B", "json").publish([message(id=1, k="z").encode()])
    assert shown(lab) == [(1, 1, 1)]
