"""A field that no record has, given to commands other than queries: reported with a suggestion, refused on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.search.unknown_fields import UNKNOWN_FIELD_WORDS
from tests.cli.conftest import Cli, Result
from tests.support.instances import config_xml, topic_xml

WORDS = f" of t {UNKNOWN_FIELD_WORDS} /statsu; did you mean /status?"


@pytest.fixture
def shop(tmp_path: Path, cli: Cli) -> Cli:
    """Two records of one topic, published ten minutes apart; commands run an hour later."""
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))

    def call(*argv: str, stdin: bytes = b"", now: str = "2026-01-05T10:00:00Z") -> Result:
        return cli(*argv, stdin=stdin, environ={"SOWCTL_CONFIG": "sowctl.xml", "SOWCTL_NOW": now})

    call("publish", "t", stdin=b'{"id":1,"status":"new","qty":5}', now="2026-01-05T09:00:00Z")
    call("publish", "t", stdin=b'{"id":2,"status":"new","qty":5}', now="2026-01-05T09:10:00Z")
    call("publish", "t", stdin=b'{"id":1,"status":"old","qty":6}', now="2026-01-05T09:20:00Z")
    return call


def test_delete_tells_before_it_deletes(shop: Cli) -> None:
    slip = ("--filter", "/statsu IS NULL")
    assert WORDS in shop("delete", "t", *slip, "--dry-run").err
    refused = shop("delete", "t", *slip, "--yes", "--strict")
    assert refused.status == 2 and WORDS.partition(";")[0] in refused.err and "SOW-QRY-024" in refused.err
    assert shop("query", "t", "--count").out == "2\n"
    done = shop("delete", "t", *slip, "--yes")
    assert done.err.splitlines()[0].endswith(WORDS) and "2 deleted" in done.err
    assert UNKNOWN_FIELD_WORDS not in shop("delete", "t", "--filter", "/statsu IS NULL", "--yes", "-q").err


@pytest.mark.parametrize("option", ["--only", "--ignore", "--filter", "--on"])
def test_diff_tells_of_a_slip_that_would_be_an_all_clear(shop: Cli, option: str) -> None:
    value = "/statsu" if option != "--filter" else "/statsu = 'old'"
    run = shop("diff", "t@2026-01-05T09:15:00Z", "t", option, value)
    assert WORDS in run.err
    refused = shop("diff", "t@2026-01-05T09:15:00Z", "t", option, value, "--strict")
    assert (refused.status, refused.out) == (2, "") and "SOW-QRY-024" in refused.err
    assert UNKNOWN_FIELD_WORDS not in shop("diff", "t@2026-01-05T09:15:00Z", "t", option, value, "-q").err


def test_diff_says_nothing_of_fields_that_are_there(shop: Cli) -> None:
    run = shop("diff", "t@2026-01-05T09:15:00Z", "t", "--only", "/status", "--ignore", "/qty", "--strict")
    assert run.status == 1 and UNKNOWN_FIELD_WORDS not in run.err


def test_export_that_reads_twice_tells_once(shop: Cli) -> None:
    assert shop("export", "t", "x.csv", "/statsu = 1").err.count(WORDS) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "t", "/statsu"),
        ("schema", "t", "/statsu = 'new'"),
        ("journal", "search", "--filter", "/statsu = 'new'"),
        ("stats", "t", "--filter", "/statsu IS NULL"),
        ("subscribe", "t", "/statsu = 'new'", "--until-now"),
    ],
)
def test_commands_that_read_as_a_query_does_tell_as_it_does(shop: Cli, words: tuple[str, ...]) -> None:
    told = shop(*words)
    assert (told.status, told.err.count(WORDS)) == (0, 1)
    refused = shop(*words, "--strict")
    assert (refused.status, refused.out) == (2, "") and "SOW-QRY-024" in refused.err
    assert UNKNOWN_FIELD_WORDS not in shop(*(word.replace("statsu", "status") for word in words), "--strict").err


def test_columns_of_get_and_a_search_that_finds_nothing_are_told(shop: Cli) -> None:
    told = shop("get", "t", "1", "--columns", "/statsu", "--format", "csv")
    assert (told.status, told.err.count(WORDS)) == (0, 1)
    assert shop("get", "t", "1", "--columns", "/status", "--format", "csv").err == ""
    assert WORDS in shop("journal", "search", "--filter", "/statsu = 'new'").err
    assert UNKNOWN_FIELD_WORDS not in shop("journal", "search", "--filter", "/status = 'none'").err
    assert UNKNOWN_FIELD_WORDS not in shop("journal", "search", "--filter", "/statsu IS NULL", "--topic", "t").err


def test_columns_that_no_row_of_facts_has_are_told(shop: Cli) -> None:
    told = shop("blame", "t", "1", "--columns", "/fild,txid", "--format", "csv")
    assert told.err.endswith(" /fild; did you mean /field?\n") and told.err.count("\n") == 1
    # txid is that of the row, not metadata of a record
    assert told.out == "fild,txid\n,1\n,3\n,3\n"
    told = shop("blame", "t", "1", "--columns", "/zz", "--format", "csv")
    assert " /zz; columns: /key, /field, /value, " in told.err
    assert shop("blame", "t", "1", "--columns", "/field,txid", "--format", "csv").err == ""


def test_an_instant_in_a_name_and_an_offset_alone_say_what_to_write(shop: Cli) -> None:
    assert "--at -1h" in shop("query", "t@-1h").err
    offset = shop("query", "t", "--offset", "1")
    assert offset.status == 2 and "skip_n" in offset.err and "add --limit" in offset.err


def test_query_tells_that_like_takes_a_regular_expression(shop: Cli) -> None:
    words = "regular expression"
    assert shop("query", "t", "/status LIKE '%ol%'").err.count(words) == 1
    assert shop("query", "t", "/qty = 6 OR NOT (/status LIKE 'ol%')").err.count(words) == 1
    assert words not in shop("query", "t", "/status LIKE '%ol%'", "--quiet").err
    assert words not in shop("query", "t", "/status LIKE '5%5' OR /status = '%ol%'").err
    assert shop("export", "t", "x.csv", "/status LIKE '%ol%'").err.count(words) == 1


def test_a_date_without_quotes_is_noted(shop: Cli) -> None:
    words = "'2026-01-01'"
    for command in (["query"], ["query", "--count"], ["export"]):
        files = ["x.csv"] if command == ["export"] else []
        told = shop(command[0], "t", *files, "/qty > 2026-01-01 OR /qty = 1", *command[1:])
        assert told.err.count(words) == 1
    for harmless in ("/qty > '2026-01-01'", "/qty > 2026 - 1 - 1", "/qty > /a-2026-01", "/qty > 2026-50-10"):
        assert "subtraction" not in shop("query", "t", harmless).err
    assert "subtraction" not in shop("query", "t", "/qty > 2026-01-01", "--quiet").err


def test_delete_notes_a_date_without_quotes_before_the_question(shop: Cli, cli: Cli) -> None:
    planned = shop("delete", "t", "--filter", "/qty < 2026-01-01", "--dry-run")
    assert planned.err.count("'2026-01-01'") == 1
    asked = cli("delete", "t", "--filter", "/qty < 2026-01-01", tty="in err", stdin=b"n\n")
    assert 0 <= asked.err.find("is a subtraction") < asked.err.find("delete these records")
