"""The element table as facts and as a grammar: complete, and consistent with the checks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from sowctl.config.elements.descriptions import find_meaning, parse_meanings
from sowctl.config.elements.element import walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.kinds import CONTAINER_KINDS
from sowctl.config.relaxng import format_grammar
from sowctl.config.schema import format_row_facts, format_row_list, iterate_rows
from sowctl.config.structure import TOLERATED_TAGS

ROOT = Path(__file__).parents[2]
BAD = ROOT / "tests" / "config" / "bad"


def test_every_element_is_there_once_for_each_place() -> None:
    found = list(iterate_rows())
    assert len(found) == sum(1 for _ in walk_rows(INSTANCE)) - 1
    assert len({row.path for row in found}) == len(found)


def test_every_line_of_meaning_is_used() -> None:
    used = {id(find_meaning(row.path)) for row in iterate_rows()}
    assert [name for name, meaning in parse_meanings().items() if id(meaning) not in used] == []


def test_facts() -> None:
    (row,) = iterate_rows("SOW/Topic/SlabSize")
    assert row.build_facts() == {
        "path": "/AMPSConfig/SOW/Topic/SlabSize",
        "element": "SlabSize",
        "times": "0..1",
        "value": "size",
        "effect": "acted on",
        "meaning": find_meaning(row.path).text,
        "default": "5MB",
        "unit": "KB MB GB TB",
        "maximum": "1GB",
    }
    (durability,) = iterate_rows("duration")
    assert durability.build_facts()["synonyms"] == ["Duration"]
    assert durability.build_facts()["values"] == ["persistent", "transient"]
    assert next(iterate_rows("RecordSize")).build_facts()["retired"] is True
    assert "  effect    acted on" in list(format_row_facts(row))


def test_elements_of_queues_conflated_topics_and_actions_are_acted_on() -> None:
    acted = {row.path: row.acted for row in iterate_rows()}
    for kind in ("Queue", "LocalQueue", "GroupLocalQueue"):
        assert acted[f"SOW/{kind}/LeasePeriod"] and acted[f"SOW/{kind}/Filter"]
        assert not acted[f"SOW/{kind}/InitialOwner"]
    assert acted["SOW/ConflatedTopic/Interval"] and acted["SOW/ConflatedTopic/Enrichment/Field"]
    assert acted["Actions/Action/Do/Options"]
    assert not acted["Admin/Interval"] and not acted["Replication/Destination/Topic/Filter"]


def test_choosing() -> None:
    assert [row.path for row in iterate_rows("/AMPSConfig/SOW/Topic/Key")] == ["SOW/Topic/Key"]
    assert [row.path for row in iterate_rows("topic/key")] == ["SOW/Topic/Key"]
    assert {row.path for row in iterate_rows("Topic")} == {
        "SOW/Topic",
        "TransactionLog/Topic",
        "Replication/Destination/Topic",
    }
    assert list(iterate_rows("Nothing")) == []
    assert list(iterate_rows("Nothing/Key")) == []
    assert "  Topic" in " ".join(format_row_list(list(iterate_rows())))


@pytest.fixture(scope="module")
def checker() -> Any:
    return etree.RelaxNG(etree.fromstring("\n".join(format_grammar()).encode()))


def wild(files: list[Path], checker: Any) -> set[str]:
    """The names of the well-formed files that the grammar refuses."""
    refused = set()
    for file in files:
        try:
            document = etree.parse(str(file))
        except etree.XMLSyntaxError:
            continue
        if not checker.validate(document):
            refused.add(file.name)
    return refused


def test_the_grammar_accepts_the_samples(checker: Any) -> None:
    samples = sorted((ROOT / "samples").rglob("*.xml"))
    assert wild(samples, checker) == {"04-key-generator.xml"}, "that one lacks its MessageType"


def test_the_grammar_refuses_what_the_table_refuses(checker: Any) -> None:
    with (BAD / "expected.tsv").open(encoding="utf-8", newline="") as file:
        expected = {row["file"]: row["rule"] for row in csv.DictReader(file, delimiter="\t")}
    seen = {"S001", "S002", "S003", "S004", "S021", "S023", "S026", "S027", "S028", "S029", "S030", "S047", "S064"}
    files = {BAD / name: rule for name, rule in expected.items() if rule in seen or rule == "-"}
    assert len(files) > 8
    for path, rule in files.items():
        assert (wild([path], checker) == set()) == (rule == "-"), (path.name, rule)


@pytest.mark.parametrize(("size", "right"), [("5MB", True), ("5 m", True), ("5000", True), ("5MiB", False)])
def test_the_grammar_knows_the_units_of_sizes(checker: Any, size: str, right: bool) -> None:
    text = f"<AMPSConfig><Name>x</Name><MessageMemoryLimit>{size}</MessageMemoryLimit></AMPSConfig>"
    assert checker.validate(etree.fromstring(text)) == right


def test_the_grammar_accepts_configurations_in_the_wild(shared: Path, checker: Any) -> None:
    files = sorted((shared / "conformance/configs/real").glob("*.xml"))
    undocumented = {file.name for file in files if any(f"<{name}>" in file.read_text() for name in TOLERATED_TAGS)}
    wrong = {f"Thejuampi__amps-client-go__{number}.xml" for number in (1, 2, 3)}
    assert wild(files, checker) <= undocumented | wrong


def test_variables_and_includes_are_right_everywhere(checker: Any) -> None:
    text = (
        "<AMPSConfig><Name>${N}</Name><Include>a.xml</Include><SOW><Include comment='true'>b.xml</Include><Topic>"
        "<Name>a</Name><SlabSize>${S}MB</SlabSize><Durability> TRANSIENT </Durability><MessageType>json</MessageType>"
        "</Topic></SOW></AMPSConfig>"
    )
    assert checker.validate(etree.fromstring(text))
    assert not checker.validate(etree.fromstring(text.replace("${S}MB", "5XB")))
    assert not checker.validate(etree.fromstring(text.replace("TRANSIENT", "sometimes")))


def test_only_what_is_listed_is_open() -> None:
    assert {row.row.kind for row in iterate_rows() if row.row.children} <= CONTAINER_KINDS
