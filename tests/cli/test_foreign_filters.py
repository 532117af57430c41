"""Filters of other languages: every command with a filter suggests one that works, or describes its effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS
from sowctl.errors import UsageError
from tests.cli.conftest import Cli, Result
from tests.support.instances import config_xml, topic_xml

WORDS: dict[str, list[str]] = {
    "delete": ["delete", "t", "--dry-run", "--filter"],
    "diff": ["diff", "t", "t", "--filter"],
    "eval": ["eval", "--filter"],
    "export": ["export", "t", "x.csv", "--filter"],
    "hash": ["hash", "t", "--filter"],
    "journal bisect": ["journal", "bisect", "--topic", "t", "--filter"],
    "journal search": ["journal", "search", "--filter"],
    "query": ["query", "t"],
    "schema": ["schema", "t", "--filter"],
    "snapshot": ["snapshot", "t", "--at", "now", "--filter"],
    "stats": ["stats", "t", "--filter"],
    "subscribe": ["subscribe", "t", "--until-now", "--filter"],
    "tail": ["tail", "t", "--until-now", "--filter"],
}


@pytest.fixture
def shop(tmp_path: Path, cli: Cli) -> Cli:
    """Two records of one topic."""
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))

    def call(*argv: str, stdin: bytes = b"") -> Result:
        return cli(*argv, stdin=stdin, environ={"SOWCTL_CONFIG": "sowctl.xml", "SOWCTL_NOW": "2026-01-05T10:00:00Z"})

    call("publish", "t", stdin=b'{"id":1,"name":"Bela"}\n{"id":2,"name":"Goro"}\n')
    return call


def test_all_commands_with_filters_are_tested() -> None:
    taking = {
        command.name
        for command in COMMANDS
        for parameter in load_command(command).parameters
        if "--filter" in getattr(parameter.declared, "names", ())
    }
    # This one runs on Spark, which starts too slowly here; it compiles its filter as a query does.
    assert taking - {"pipeline view", "config add view", "config add queue"} == WORDS.keys()


@pytest.mark.parametrize("command", sorted(WORDS))
def test_the_hint_has_a_filter_that_works(command: str, shop: Cli) -> None:
    message = b'{"id":1,"name":"Bela"}\n'
    wrong = shop(*WORDS[command], "name CONTAINS 'Bela' && id == 1", stdin=message)
    suggested = wrong.err.partition("hint: ")[2].strip().rpartition(": ")[2]
    assert (wrong.status, suggested) == (2, "/name LIKE 'Bela' AND /id == 1")
    right = shop(*WORDS[command], suggested, stdin=message)
    assert right.status == 0 and right.err.count("error") == 0


@pytest.mark.parametrize("command", sorted(WORDS))
def test_wildcards_of_sql_are_remarked_once(command: str, shop: Cli) -> None:
    words = "write /name LIKE 'Bela'"
    told = shop(*WORDS[command], "/name LIKE '%Bela%'", stdin=b'{"id":1,"name":"Bela"}\n')
    assert told.err.count(words) == 1
    assert words not in shop(*WORDS[command], "/name LIKE '%Bela%'", "--quiet", stdin=b'{"id":1}\n').err


def test_errors_in_json_have_the_filter(shop: Cli) -> None:
    wrong = shop("--error-format", "json", "query", "t", "'x' IN /tags")
    assert json.loads(wrong.err.splitlines()[0])["suggestion"] == "'x' IN (/tags)"


def test_a_configuration_and_python_have_it(tmp_path: Path, shop: Cli) -> None:
    with sowctl.open(tmp_path / "sowctl.xml") as instance, pytest.raises(UsageError) as caught:
        instance.topic("t").query("name = Bela")
    assert caught.value.facts["suggestion"] == "/name = 'Bela'"
    view = (
        "<View><Name>v</Name><UnderlyingTopic>t</UnderlyingTopic><MessageType>json</MessageType>"
        "<Projection><Field>COUNT(*) AS n</Field></Projection><Grouping><Field>/name</Field></Grouping>"
        "<Filter>name =~ 'B'</Filter></View>"
    )
    (tmp_path / "view.xml").write_text(config_xml(topic_xml("t") + view, ("t",)))
    found = shop("--config", "view.xml", "validate")
    assert "COUNT(1) AS /n" in found.out + found.err
    assert "/name LIKE 'B'" in found.out + found.err
