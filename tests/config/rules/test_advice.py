"""Advice beyond its case files: secrets are hidden, absence is not reported too early, no rule is slow."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.lint import lint_files
from sowctl.config.rules.advice_actions import _find_loops
from sowctl.config.rules.advice_journal import _find_dotted_matches
from sowctl.config.rules.globs import glob_matches
from sowctl.config.validate import inspect_config
from sowctl.findings import Finding

Write = Callable[..., Path]
SEEDS = Path(__file__).parents[3] / "samples/seeds"


def advice(path: Path, *, fragment: bool = False) -> list[Finding]:
    return [f for f in inspect_config(path, environment={}, fragment=fragment) if f.id[0] == "B"]


def test_a_secret_is_not_shown(write: Write) -> None:
    secrets = "<Password>hunter2</Password><URL>https://amps:hunter2@host/</URL>"
    module = f"<Module><Name>m</Name><Library>m.so</Library><Options>{secrets}</Options></Module>"
    found = advice(write(f"<AMPSConfig><Name>n</Name><Modules>\n{module}\n</Modules></AMPSConfig>"))
    assert [f.id for f in found if f.place.line == 2 and f.id == "B033"] == ["B033", "B033"]
    assert not any("hunter2" in f"{f.message}{f.hint}{f.excerpt}" for f in found if f.id == "B033")


NAMED = "<AMPSConfig><Name>n</Name>"
SOW = "<SOW><Topic><Name>a</Name><MessageType>json</MessageType><FileName>/sow/a</FileName></Topic></SOW>"
LOG = (
    "<TransactionLog><JournalDirectory>/j</JournalDirectory><Topic><Name>b</Name><MessageType>json</MessageType>"
    "</Topic></TransactionLog>"
)


@pytest.mark.parametrize(
    ("text", "fragment", "missed"),
    [
        (f"{NAMED}{SOW}{LOG}</AMPSConfig>", False, {"B010", "B050"}),
        (f"{NAMED}{SOW}{LOG}<Include>gone.xml</Include></AMPSConfig>", False, set()),
        (f"{NAMED}{SOW}{LOG}<Actions><Include>gone.xml</Include></Actions></AMPSConfig>", False, set()),
        (f"{NAMED}{SOW}{LOG.replace('TransactionLog', 'TransactionLogs')}</AMPSConfig>", False, set()),
        (LOG, True, set()),
        (SOW, True, set()),
        (SOW + LOG, True, {"B010", "B050"}),
        ("<Topic><Name>a</Name><MessageType>json</MessageType><Durability>transient</Durability></Topic>", True, set()),
    ],
)  # fmt: skip
def test_nothing_is_missed_that_may_stand_elsewhere(write: Write, text: str, fragment: bool, missed: set[str]) -> None:
    assert {f.id for f in advice(write(text), fragment=fragment)} == missed


@given(
    st.from_regex(r"[ab.]{1,4}", fullmatch=True).filter(lambda text: text.strip(".")),
    st.lists(st.from_regex(r"[ab.]{1,6}", fullmatch=True), max_size=8, unique=True),
)
def test_a_name_with_dots_matches_as_its_expression_does(pattern: str, names: list[str]) -> None:
    wanted = {name for name in names if name != pattern and re.search(pattern, name)}
    found = _find_dotted_matches(pattern, "\n".join(names))
    assert set(found) <= wanted
    assert bool(found) == bool(wanted)


@given(st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=3), max_size=7))
def test_a_loop_is_found_where_there_is_one(graph: dict[int, list[int]]) -> None:
    def reaches(start: int) -> set[int]:
        seen: set[int] = set()
        waiting = list(graph.get(start, []))
        while waiting:
            member = waiting.pop()
            if member not in seen:
                seen.add(member)
                waiting.extend(graph.get(member, []))
        return seen

    found = [list(loop) for loop in _find_loops(list(graph), graph)]  # type: ignore[arg-type]
    assert bool(found) == any(start in reaches(start) for start in graph)
    for loop in found:
        assert all(after in graph[before] for before, after in zip(loop, [*loop[1:], loop[0]], strict=True))  # type: ignore[index]


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/a/*.log", "/a/x.log", True),
        ("/a/*", "/a/b/x.log", False),
        ("/*/x", "/a/x", True),
        ("a/[xy].?", "a/y.1", True),
        ("a/[!x]", "a/x", False),
        ("/a/*", "a/x", False),
    ],
)
def test_a_glob_covers_one_directory(pattern: str, path: str, covered: bool) -> None:
    assert glob_matches(pattern, path) is covered


@pytest.mark.parametrize("name", ["orders_{:04}", "md.fx.{:04}", "{:04}.orders", "/orders/{:04}"])
def test_two_thousand_topics_are_quick(write: Write, name: str) -> None:
    names = [name.format(number) for number in range(2000)]
    topics_xml = "".join(
        f"<Topic><Name>{n}</Name><MessageType>json</MessageType><Key>/id</Key><FileName>./sow/%n.sow</FileName></Topic>\n"
        for n in names
    )
    logged = "".join(f"<Topic><Name>{n}</Name><MessageType>json</MessageType></Topic>\n" for n in names[::2])
    file = write(
        f"<AMPSConfig><Name>n</Name><SOW>\n{topics_xml}</SOW><TransactionLog>\n<JournalDirectory>/j</JournalDirectory>\n"
        f"{logged}</TransactionLog></AMPSConfig>"
    )
    before = process_time()
    found = inspect_config(file, environment={})
    # Half a second on an idle machine; the limit excludes rules that compare all with all, a hundred times more.
    assert process_time() - before < 4
    assert sum(f.id == "B050" for f in found) == 1000


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("<Group>g</Group>" + SOW, "<Group>g</Group>", 1),
        ("<Group>g</Group>", "<Group>g</Group>" + SOW, 1),
        ("<Group>g</Group>" + SOW, "<Group>g</Group>" + SOW, 0),
        ("<Group>g</Group>" + SOW, "<Group>h</Group>", 0),
        (SOW, "<Group>one</Group>", 0),
    ],
)
def test_instances_of_one_group_are_compared(write: Write, first: str, second: str, count: int) -> None:
    files = [write(f"<AMPSConfig><Name>{n}</Name>{t}</AMPSConfig>", n) for n, t in (("one", first), ("two", second))]
    one, two = (result.findings for result in lint_files(files, environment={}))
    assert [f.id for f in one if f.id == "B039"] == []
    assert [f.id for f in two if f.id == "B039"] == ["B039"] * count


def test_two_states_of_one_instance_may_differ(write: Write) -> None:
    texts = (f"{NAMED}<Group>g</Group>{SOW}</AMPSConfig>", f"{NAMED}<Group>g</Group></AMPSConfig>")
    files = [write(text, f"{number}.xml") for number, text in enumerate(texts)]
    assert not any(f.id == "B039" for result in lint_files(files, environment={}) for f in result.findings)


def test_the_advice_on_the_samples() -> None:
    with (SEEDS / "advice.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    expected = {(row["file"], row["level"], row["rule"], int(row["line"])) for row in rows}
    environment = {"RECOVER_FROM": "2026-01-02T03:04:05Z"}
    found = {
        (path.name, f.level.name.lower(), f.id, f.place.line)
        for path in SEEDS.glob("*.xml")
        for f in inspect_config(path, environment=environment)
        if f.id[0] == "B"
    }
    assert found == expected
