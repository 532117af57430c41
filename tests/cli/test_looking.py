"""``schema``, ``stats`` and ``info`` on the command line: output for people and programs, and refusals."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sowctl.output.charts import choose_mark_size, format_bar, format_sparkline, sum_groups
from sowctl.output.display import measure_width
from tests.cli.conftest import Cli
from tests.support.demo import NOW, make_demo
from tests.support.instances import Lab, config_xml, keep_store, message, put_back, topic_xml


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that no test here changes."""
    return make_demo(tmp_path_factory.mktemp("looking"))


def on(demo: Path, **more: str) -> dict[str, str]:
    return {"SOWCTL_CONFIG": str(demo / "sowctl.xml"), "SOWCTL_NOW": NOW, "TERM": "xterm", **more}


def test_schema_for_people_and_programs(demo: Path, cli: Cli) -> None:
    drawn = cli("schema", "customers", environ=on(demo, COLUMNS="160", NO_COLOR="1"), tty="out")
    assert drawn.err == "customers: 150 records\n"
    assert [line.split()[:2] for line in drawn.out.splitlines()[2:5]] == [
        ["/customerId", "string"],
        ["/name", "string"],
        ["/region", "string"],
    ]
    rows = json.loads(cli("schema", "customers", "--json", environ=on(demo)).out)
    (tags,) = (row for row in rows if row["path"] == "/tags[*]")
    assert (tags["field"], tags["types"], tags["distinct"]) == ("/tags", {"string": 153}, 5)
    title = json.loads(cli("schema", "customers", "--json-schema", environ=on(demo)).out)["title"]
    assert title == "customers"


def test_schema_as_spark_declares_it(demo: Path, cli: Cli, tmp_path: Path) -> None:
    orders = cli("schema", "orders", "--ddl", environ=on(demo)).out
    assert "`symbol`: STRING, " in orders and "`price`: DOUBLE" in orders and orders.count("\n") == 1
    both = cli("schema", "^(orders|customers)$", "--ddl", environ=on(demo)).out
    assert orders in both and "`tags`: ARRAY<STRING>" in both and both.count("\n") == 2
    written = tmp_path / "orders.ddl"
    assert cli("schema", "orders", "--ddl", "--output", str(written), environ=on(demo)).out == ""
    assert written.read_text() == orders


def test_views_the_past_and_patterns_are_targets(demo: Path, cli: Cli) -> None:
    assert [json.loads(line)["path"] for line in cli("schema", "totals", environ=on(demo)).out.splitlines()] == [
        "/region",
        "/orders",
        "/value",
    ]
    assert cli("schema", "orders", "--at", "2026-01-05T09:30:00Z", environ=on(demo)).err.startswith(
        "orders: 166 records"
    )
    topic_names = {
        json.loads(line)["topic"] for line in cli("schema", "^(orders|customers)$", environ=on(demo)).out.splitlines()
    }
    assert topic_names == {"orders", "customers"}


@pytest.mark.parametrize("columns", [40, 60, 160])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_figures_fit_the_terminal(demo: Path, cli: Cli, columns: int, locale: str) -> None:
    for words in (("stats", "orders"), ("stats", "--journal")):
        drawn = cli(*words, environ=on(demo, COLUMNS=str(columns), LC_ALL=locale), tty="out", stdin=b"")
        assert drawn.status == 0
        plain = drawn.out.replace("\x1b[1m", "").replace("\x1b[36m", "").replace("\x1b[0m", "")
        assert "\x1b" not in plain
        assert max(map(measure_width, plain.splitlines())) <= columns
        assert (locale == "C") == plain.isascii()


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_none_are_wanted(demo: Path, cli: Cli, variable: dict[str, str]) -> None:
    for words in (("stats", "orders", "/price"), ("stats", "--journal"), ("schema", "orders")):
        assert "\x1b" not in cli(*words, environ=on(demo) | variable, tty="out").out


def test_rates_as_csv_have_a_row_for_each_interval(cli: Cli, demo: Path) -> None:
    words = ("stats", "orders", "--journal", "--interval", "1h", "--format")
    (whole,) = json.loads(cli(*words, "json", environ=on(demo)).out)
    for form, comma in (("csv", ","), ("tsv", "\t")):
        rows = list(csv.DictReader(cli(*words, form, environ=on(demo)).out.splitlines(), delimiter=comma))
        assert [int(row["messages"]) for row in rows] == [count for count in whole["counts"] if count]
        assert sum(int(row["bytes"]) for row in rows) == whole["bytes"]
        assert rows[0]["begin"] < rows[1]["begin"] and "counts" not in rows[0]


def test_rates_of_the_last_time_by_topic(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))

    def publish(topic: str, at: str, client: str, *sizes: int) -> None:
        lines = "".join(message(id=n, pad="x" * size) + "\n" for n, size in enumerate(sizes))
        cli("publish", topic, "--client", client, stdin=lines.encode(), environ={"SOWCTL_NOW": at})

    publish("t", "2026-01-05T08:00:00Z", "a", 10, 10)
    publish("t", "2026-03-05T08:00:00Z", "a", 10)
    publish("t", "2026-03-05T08:00:10Z", "b", 10)
    publish("u", "2026-03-05T08:00:20Z", "a", 5000)
    now = {"SOWCTL_NOW": "2026-03-05T09:00:00Z"}

    def rows(*words: str) -> list[dict[str, Any]]:
        return list(json.loads(cli("stats", "--journal", "--json", *words, environ=now).out))

    # The topic that grows fastest is first; the months without messages do not affect the rates.
    found = rows("--by-topic", "--interval", "1m")
    assert [(row["topic"], row["client"], row["messages"]) for row in found] == [("u", None, 1), ("t", None, 4)]
    assert found[0]["bytes_rate"] == round(found[0]["bytes"] / 60, 3)
    assert found[1]["messages_rate"] == round(4 / 120, 3)
    assert [(row["topic"], row["client"]) for row in rows("--last", "1d")] == [("u", "a"), ("t", "a"), ("t", "b")]
    assert sum(row["messages"] for row in rows("--last", "45m")) == 0
    assert len(cli("stats", "--journal", "--format", "csv", environ=now).out.splitlines()) == 5
    assert "SOW-CLI-012" in cli("stats", "--journal", "--last", "1d", "--since", "1").err
    assert "SOW-STA-003" in cli("stats", "t", "--last", "1d").err


def test_figures_for_programs(demo: Path, cli: Cli) -> None:
    (row,) = json.loads(cli("stats", "orders", "/price", "--json", environ=on(demo)).out)
    assert (row["records"], row["numbers"]["minimum"], row["numbers"]["maximum"]) == (900, 19.8, 433.54)
    assert sum(one["count"] for one in row["numbers"]["histogram"]) == 900
    rows = json.loads(cli("stats", "--journal", "--json", environ=on(demo)).out)
    assert {(row["topic"], row["messages"]) for row in rows} == {("quotes", 2000), ("orders", 1901), ("customers", 500)}
    # A path may be given as schema prints it.
    (row,) = json.loads(cli("stats", "customers", "/tags[*]", "--json", environ=on(demo)).out)
    assert (row["path"], row["values"]) == ("/tags", 153)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("schema", "orders", "--sample", "0"), "SOW-STA-002"),
        (("schema", "orders", "--sample", "101%"), "SOW-STA-002"),
        (("stats", "orders", "--sample", "x%"), "SOW-STA-002"),
        (("stats", "orders", "--since", "-1h"), "SOW-STA-003"),
        (("stats", "orders", "/price", "--journal"), "SOW-STA-003"),
        (("stats",), "SOW-CLI-003"),
        (("stats", "--journal", "--interval", "0"), "SOW-CLI-022"),
        (("schema", "orders", "--json-schema", "--json"), "SOW-CLI-012"),
        (("schema", "orders", "--ddl", "--columns", "path"), "SOW-CLI-012"),
        (("schema", "orders", "--ddl", "--json-schema"), "SOW-CLI-012"),
        (("schema", "orders", "/qty > 1", "--filter", "/qty > 2"), "SOW-CLI-013"),
        (("schema", "orders", "/qty >"), "SOW-EXP-007"),
        (("stats", "order"), "SOW-ENG-012"),
        (("stats", "order", "--journal"), "SOW-ENG-012"),
        (("stats", "orders", "price"), "SOW-VAL-001"),
    ],
)
def test_what_is_refused(demo: Path, cli: Cli, words: tuple[str, ...], code: str) -> None:
    done = cli(*words, environ=on(demo))
    assert f"error[{code}]" in done.err
    assert done.out == ""


def test_the_browser_needs_a_terminal(demo: Path, cli: Cli) -> None:
    for tty, more in (("", {}), ("out", {}), ("in", {}), ("in out", {"TERM": "dumb"})):
        done = cli("browse", environ=on(demo) | more, tty=tty)
        assert "error[SOW-TUI-002]" in done.err
        assert done.out == ""
    done = cli("browse", "^(orders|customers)$", environ=on(demo), tty="in out")
    assert "error[SOW-TUI-003]" in done.err


def test_the_browser_says_which_extra_it_needs(demo: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sowctl.browse")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    done = cli("browse", environ=on(demo), tty="in out")
    assert "error[SOW-TUI-001]" in done.err
    assert "sowctl[tui]" in done.err
    assert done.status == 12


def test_bars_and_sparklines() -> None:
    assert [format_bar(part, 4) for part in (0, 0.001, 0.5, 0.53, 1)] == ["", "▏", "██", "██▏", "████"]
    assert [format_bar(part, 4, unicode=False) for part in (0, 0.001, 0.5, 1)] == ["", "#", "##", "####"]
    assert format_sparkline([0, 1, 50, 100], 100) == " ▁▄█"
    assert format_sparkline([0, 1, 50, 100], 100, unicode=False) == " .=@"
    assert sum_groups([1, 2, 3, 4, 5], 3) == [6, 9]
    assert choose_mark_size([range(5)], 2) == 3
    assert choose_mark_size([range(2)], 2) == 1


def test_info_says_what_the_next_flush_does(tmp_path: Path, cli: Cli) -> None:
    """The store is behind its journal, as after a crash between the two."""
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1))
    keep_store(lab, "t", tmp_path / "kept")
    lab.publish("t", message(id=2), message(id=3))
    put_back(lab, "t", tmp_path / "kept")
    argv = ("info", "t", "--config", str(lab.config))
    assert "topic t: " not in cli(*argv, tty="out").err
    [line] = [one for one in cli(*argv, "-v", tty="out").err.splitlines() if one.startswith("topic t: ")]
    assert line.startswith("topic t: apply in place (2 changes, ")
    [row] = json.loads(cli(*argv, "--json").out)
    assert line == f"topic t: {row['flush']}"
    cli("replay", "t", "--config", str(lab.config))
    assert json.loads(cli(*argv, "--json").out)[0]["flush"] is None
