"""Cycles of derived entries, against the plain definition: each derives from the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.document import ElementNode, SourceFile
from sowctl.config.rules.sources import find_cycles
from sowctl.config.rules.subjects import SubjectEntry
from sowctl.config.validate import validate_config
from sowctl.findings import Place

Write = Callable[..., Path]
NODE = ElementNode("View", "", {}, (), Place("x"), SourceFile("x", "", {}), -1)


def reached(start: int, edges: dict[int, set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for other in edges.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


@given(st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 12), max_size=4)))
def test_entries_of_one_circle_derive_from_each_other(edges: dict[int, set[int]]) -> None:
    entries = {number: SubjectEntry("View", str(number), "json", NODE, number) for number in range(13)}
    below = {number: [entries[other] for other in others] for number, others in edges.items()}
    part = find_cycles(below)
    assert set(part) == set(edges)
    for one in edges:
        for other in edges:
            together = one == other or (other in reached(one, edges) and one in reached(other, edges))
            assert (part[one] == part[other]) == together


VIEW = (
    "<View><Name>{}</Name><MessageType>json</MessageType><UnderlyingTopic>{}</UnderlyingTopic>"
    "<Projection><Field>/a</Field></Projection><Grouping><Field>/a</Field></Grouping></View>"
)


def test_a_circle_is_told_once_and_a_view_above_it_is_only_too_early(instance: Write) -> None:
    views = [("above", "b"), ("a", "b"), ("b", "c"), ("c", "a"), ("d", "c")]
    path = instance("".join(VIEW.format(*pair) for pair in views))
    early, circle = validate_config(path, environment={})
    assert (early.id, circle.id) == ("R005", "R027")
    assert re.findall("'([a-z]+)'", early.message) == ["b", "above"]
    assert circle.message.endswith(": a -> b -> c -> a")
