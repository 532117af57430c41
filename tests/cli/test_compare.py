"""The output of diff, blame and history --diff: texts, colours, widths, statuses."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.search.unknown_fields import UNKNOWN_FIELD_WORDS
from sowctl.seam import Seam
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

CONFIG = config_xml(topic_xml("t") + topic_xml("u"), ("t",))
OTHER = CONFIG.replace("sow/%n", "sow2/%n").replace("<JournalDirectory>journal", "<JournalDirectory>journal2")
EARLY, LATE = "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z"


@pytest.fixture
def run(cli: Cli) -> Callable[..., str]:
    """Runs a command line that must end with the given status, and returns its output."""
    Path("sowctl.xml").write_text(CONFIG)
    Path("other").mkdir()
    Path("other/sowctl.xml").write_text(OTHER)

    def call(*argv: str, status: int = 0, now: str = LATE, **options: object) -> str:
        done = cli(*argv, "--now", now, **options)
        assert done.status == status, done
        call.err = done.err  # type: ignore[attr-defined]
        return done.out

    call("publish", "t", stdin=b'{"id":1,"a":1,"note":"x"}\n{"id":2}\n', now=EARLY)
    call("publish", "t", "--client", "oms", stdin=b'{"id":1,"a":2,"new":[1]}\n{"id":3}\n')
    call("delete", "t", "--filter", "/id = 2", "--yes")
    return call


TEXT = """\
--- t@2026-01-05T08:00:00Z
+++ t
+ 3: {"id":3}
- 2: {"id":2}
~ 1
    ~ /a: 1 -> 2
    - /note: "x"
    + /new: [1]
"""


def _in_any_order(text: str) -> list[str]:
    """Blocks of lines that belong together, in an order that does not depend on hashes."""
    blocks: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            blocks[-1] += "\n" + line
        else:
            blocks.append(line)
    return sorted(blocks)


def test_text_for_people_is_the_same_in_a_pipe_but_for_colours(run: Callable[..., str]) -> None:
    out = run("diff", f"t@{EARLY}", "t", status=1)
    assert _in_any_order(out) == _in_any_order(TEXT)
    assert run.err == "t: 1 changed, 1 added, 1 removed, 0 equal\n"  # type: ignore[attr-defined]
    assert run("diff", f"t@{EARLY}", status=1) == out
    shown = run("diff", f"t@{EARLY}", "t", status=1, tty="out", environ={"NO_COLOR": "1", "COLUMNS": "60"})
    assert shown == out
    colored = run("diff", f"t@{EARLY}", "t", status=1, tty="out", environ={"TERM": "xterm"})
    assert "\x1b[32m+ 3" in colored and "\x1b[31m- 2" in colored
    assert run("diff", "t", "t", "--quiet") == "" and run("diff", "t", f"t@{LATE}") == ""


def test_lines_end_at_the_edge_of_a_terminal_and_nowhere_else(run: Callable[..., str]) -> None:
    long = "w" * 100
    run("publish", "t", stdin=f'{{"id":1,"a":2,"new":[1],"w":"{long}"}}\n{{"id":9,"w":"{long}"}}\n'.encode())
    run("publish", "t", stdin=f'{{"id":1,"a":2,"new":[1],"w":"b{long}"}}\n'.encode(), now="2026-01-05T10:00:00Z")
    environ = {"NO_COLOR": "1", "COLUMNS": "60"}
    later = {"status": 1, "now": "2026-01-05T10:00:00Z"}
    shown = run("diff", f"t@{LATE}..2026-01-05T10:00:00Z", tty="out", environ=environ, **later)
    assert max(map(len, shown.splitlines())) == 60
    assert '        - "www' in shown and '        + "bwww' in shown
    assert long in run("diff", f"t@{LATE}", "t", **later)


def test_json_and_statistics(run: Callable[..., str]) -> None:
    rows = [json.loads(line) for line in run("diff", f"t@{EARLY}", "t", "--format", "json", status=1).splitlines()]
    assert {row["key"]: row["change"] for row in rows} == {"1": "changed", "2": "removed", "3": "added"}
    changed = next(row for row in rows if row["key"] == "1")
    assert changed["fields"] == [
        {"path": "/a", "before": 1, "after": 2},
        {"path": "/note", "before": "x"},
        {"path": "/new", "after": [1]},
    ]
    assert (
        run("diff", f"t@{EARLY}", "t", "--stat", status=1) == "t | 3 ~+-\n    /a    | 1\n    /new  | 1\n    /note | 1\n"
    )
    assert run("diff", f"t@{EARLY}", "t", "--summary", status=1) == "t  1 changed, 1 added, 1 removed, 0 equal\n"
    counted = json.loads(run("diff", f"t@{EARLY}", "t", "--stat", "--format", "json", status=1))
    assert (counted["changed"], counted["fields"]) == (1, {"/a": 1, "/note": 1, "/new": 1})
    only = run("diff", f"t@{EARLY}", "t", "--top-n", "1", status=1)
    assert len(_in_any_order(only)) == 3
    meta = run("diff", f"t@{EARLY}", "t", "--meta", "--key", "1", "--format", "json", status=1)
    assert [fact["name"] for fact in json.loads(meta)["metadata"]] == ["timestamp", "txid"]


def test_envelopes_make_another_instance_into_this_one(run: Callable[..., str]) -> None:
    run("publish", "t", "-c", "other/sowctl.xml", stdin=b'{"id":2}\n{"id":5}\n')
    both = "other", "sowctl.xml"
    assert run("diff", *both, "--summary", "--topic", "t", status=1).startswith("t  0 changed, 2 added, 2 removed")
    lines = run("diff", *both, "--format", "envelopes", status=1)
    run("publish", "--framing", "envelope", "-c", "other/sowctl.xml", stdin=lines.encode(), now="2026-01-05T10:00:00Z")
    assert "2 inserted, 0 updated, 2 deleted" in run.err  # type: ignore[attr-defined]
    assert run("diff", *both) == ""
    # the first operand may be a file, because envelopes name their topics; the name of a topic has precedence
    Path("env.nd").write_text('{"topic":"t","data":{"id":9}}\n')
    Path("t").write_text("no message")
    publish = ("publish", "--framing", "envelope", "--dry-run", "-c", "other/sowctl.xml")
    for operands in (("env.nd",), ("t", "env.nd")):
        run(*publish, *operands)
        assert "1 inserted" in run.err, operands  # type: ignore[attr-defined]
    here, there = (run("hash", "t", "--payloads", "-c", config) for config in ("sowctl.xml", "other/sowctl.xml"))
    assert here == there
    # One topic of the other instance, at an instant.
    assert run("diff", f"other:t@{LATE}", "t", "--summary", status=1).startswith("t  ")


def test_sides_that_do_not_go_together(run: Callable[..., str]) -> None:
    for words, code in (
        (("t",), "SOW-DIF-005"),
        (("other", "t"), "SOW-DIF-005"),
        (("t", "t", "--topic", "t"), "SOW-DIF-005"),
        (("t@1", "t", "--format", "envelopes", "--loose"), "SOW-DIF-006"),
        (("t@nonsense",), "SOW-VAL"),
        (("t@1", "t", "--on", "/"), "SOW-VAL-001"),
    ):
        run("diff", *words, status=2)
        assert f"error[{code}" in run.err, words  # type: ignore[attr-defined]
    run("diff", "nowhere@1", "t", status=10)


def test_files_need_no_configuration(run: Callable[..., str]) -> None:
    store = next(Path("sow").glob("t*.sow"))
    copy = Path("copy.sow")
    copy.write_bytes(store.read_bytes())
    Path("sowctl.xml").rename("elsewhere")
    assert run("diff", str(store), str(copy)) == ""


def test_a_name_with_an_at_sign_is_a_name(run: Callable[..., str]) -> None:
    Path("sowctl.xml").write_text(CONFIG.replace("<Name>u<", "<Name>u@1<"))
    run("publish", "u@1", stdin=b'{"id":1}\n')
    assert run("diff", "u@1", "u@1") == ""


def test_blame_and_history_with_differences(run: Callable[..., str]) -> None:
    table = run("blame", "t", "1", tty="out", environ={"NO_COLOR": "1"}).splitlines()
    assert [line.split() for line in table if "─" not in line] == [
        ["field", "value", "timestamp", "txid", "client"],
        ["/id", "1", "2026-01-05T08:00:00.000000Z", "1"],
        ["/a", "2", "2026-01-05T09:00:00.000000Z", "3", "oms"],
        ["/new", "[1]", "2026-01-05T09:00:00.000000Z", "3", "oms"],
    ]
    row = json.loads(run("blame", "t", "1").splitlines()[1])
    assert (row["field"], row["value"], row["client"], row["earlier"]) == ("/a", 2, "oms", False)
    assert run("blame", "t", "2", status=1) == ""
    assert re.fullmatch(r"t: 2 .* 2026-01-05T09:00:00\.000000Z, txid 5\n", run.err)  # type: ignore[attr-defined]
    assert run("history", "t", "1", "2", "--journal", "--diff").splitlines()[1:7] == [
        "+ 2026-01-05T08:00:00.000000Z  txid 1",
        '    {"id":1,"a":1,"note":"x"}',
        "~ 2026-01-05T09:00:00.000000Z  txid 3  client oms",
        "    ~ /a: 1 -> 2",
        '    - /note: "x"',
        "    + /new: [1]",
    ]
    rows = [json.loads(one) for one in run("history", "t", "2", "--journal", "--diff", "-F", "ndjson").splitlines()]
    assert [one["change"] for one in rows] == ["added", "removed"]
    assert json.loads(run("history", "t", "2", "--journal", "--diff", "--json")) == rows
    run("history", "t", "1", "--journal", "--diff", "--format", "csv", status=2)


def test_a_query_tells_of_fields_that_no_record_has(run: Callable[..., str]) -> None:
    said = f" of t {UNKNOWN_FIELD_WORDS} /nwe; did you mean /new?\n"
    assert run("query", "t", "/nwe = 1") == "" and run.err.endswith(said)  # type: ignore[attr-defined]
    assert run.err.count("\n") == 1  # type: ignore[attr-defined]
    assert run("query", "t", "--columns", "/id,/nwe", "-n", "1").startswith("id,nwe\n") and run.err.endswith(said)  # type: ignore[attr-defined]
    run("query", "t", "/nwe = 1", "--quiet")
    assert run.err == ""  # type: ignore[attr-defined]
    assert run("query", "t", "/nwe = 1", "--strict", "--columns", "/id", status=2) == ""
    assert "error[SOW-QRY-024]" in run.err and "hint: did you mean /new?" in run.err  # type: ignore[attr-defined]
    assert run("query", "t", "/new = 1", "--strict", "--count") == "1\n"
    run("query", "t", "--follow", "--strict", status=2)
    run("export", "t", "out.csv", "--order-by", "/nwe")
    assert said in run.err  # type: ignore[attr-defined]
    run("export", "t", "strict.csv", "--filter", "/nwe = 1", "--strict", status=2)
    assert not Path("strict.csv").exists()


@pytest.fixture
def golden(run: Callable[..., str]) -> Path:
    """The records of topic t in a file."""
    path = Path("golden.ndjson")
    path.write_text(run("query", "t"))
    return path


def test_a_golden_file_has_the_status_of_a_comparison(run: Callable[..., str], golden: Path) -> None:
    run("diff", "t", str(golden))
    run("diff", str(golden), "t")
    run("diff", f"t@{EARLY}", str(golden), status=1)
    golden.write_text('{"id":1,"a":2,"new":[1]}\n{"id":4}\n')
    assert _in_any_order(run("diff", "t", str(golden), status=1)) == [
        "+ 4: {\"id\":4}", "+++ golden.ndjson", "- 3: {\"id\":3}", "--- t"
    ]  # fmt: skip
    assert _in_any_order(run("diff", str(golden), "t", status=1)) == [
        "+ 3: {\"id\":3}", "+++ t", "- 4: {\"id\":4}", "--- golden.ndjson"
    ]  # fmt: skip
    run("diff", "t", str(golden), "--only", "/a", "--filter", "/id = 1")


@pytest.mark.parametrize("ending", ["ndjson", "json", "csv", "parquet", "arrow", "sqlite"])
def test_what_export_writes_is_a_golden_file(run: Callable[..., str], ending: str) -> None:
    pytest.importorskip("pyarrow")
    run("publish", "u", stdin=b'{"id":"k1","a":"x"}\n{"id":"k2","a":"y"}\n')
    run("export", "u", f"golden.{ending}")
    run("diff", "u", f"golden.{ending}")
    run("publish", "u", stdin=b'{"id":"k2","a":"z"}\n')
    assert json.loads(run("diff", "u", f"golden.{ending}", "--json", status=1))[0]["key"] == "k2"


def test_columns_of_a_golden_file_have_the_types_that_are_given(run: Callable[..., str]) -> None:
    run("publish", "u", stdin=b'{"id":"1","a":[1]}\n')
    run("export", "u", "golden.csv")
    run("diff", "u", "golden.csv", status=1)
    run("diff", "u", "golden.csv", "--type", "id=text", "--type", "a=json")
    run("diff", "t", "u", "--type", "id=text", status=2)


def test_envelopes_turn_the_topic_into_the_file(run: Callable[..., str], golden: Path) -> None:
    golden.write_text('{"id":1,"a":5}\n{"id":4}\n')
    envelopes = run("diff", "t", str(golden), "--format", "envelopes", status=1)
    run("publish", "--framing", "envelope", stdin=envelopes.encode())
    run("diff", "t", str(golden))


def test_a_file_that_is_no_state_of_the_topic_is_an_error(run: Callable[..., str], golden: Path) -> None:
    run("diff", "t", "missing.ndjson", status=10)
    run("diff", str(golden), str(golden), status=2)
    run("diff", ".", str(golden), status=2)
    run("diff", "[tu]", str(golden), status=2)
    run("diff", str(golden), status=2)
    golden.write_text('{"id":1}\n{')
    run("diff", "t", str(golden), status=3)
    assert "golden.ndjson:2" in run.err  # type: ignore[attr-defined]
    assert not list(Path().glob("**/sowctl-*"))


def test_a_seed_is_published_twice_and_replaced(run: Callable[..., str], golden: Path) -> None:
    report = json.loads(run("publish", "t", str(golden), "--skip-unchanged", "--json"))
    assert (report["published"], report["unchanged"]) == (0, 2)
    golden.write_text('{"id":1,"a":5}\n{"id":4}\n')
    run("publish", "t", str(golden), "--replace-all", "--dry-run")
    said = run.err  # type: ignore[attr-defined]
    assert {"~ 1", "+ 4", "- 3"} <= set(said.splitlines())
    run("diff", "t", str(golden), status=1)
    run("publish", "t", str(golden), "--replace-all")
    run("diff", "t", str(golden))
    run("publish", "t", "/dev/null", "--replace-all", status=8)
    run("publish", "t", "/dev/null", "--replace-all", "--force")
    assert run("query", "t") == ""


@pytest.mark.parametrize("fault", ["interrupt", "full"])
def test_a_replacement_that_ends_after_its_commit_is_durable(
    run: Callable[..., str], golden: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    golden.write_text('{"id":1,"a":5}\n{"id":4}\n')
    shutil.copytree(".", "before", ignore=shutil.ignore_patterns("before"))
    plain, commits, last = Seam.call, 0, 0

    def call(self: Seam, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        nonlocal commits
        commits += point == "lmdb.commit"
        if point == "lmdb.commit" and commits == last:
            if fault == "full":
                raise OSError(errno.ENOSPC, "no space")
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, point, function, *args, **kwargs)

    monkeypatch.setattr(Seam, "call", call)
    run("publish", "t", "golden.ndjson", "--replace-all")
    # The store applies the changes last, after the journal.
    last, commits = commits, 0
    monkeypatch.chdir("before")
    run("publish", "t", "golden.ndjson", "--replace-all", status=130 if fault == "interrupt" else 6)
    said = run.err  # type: ignore[attr-defined]
    assert "3 changes are durable, up to txid" in said and "complete input" in said
    last = 0
    run("diff", "t", "golden.ndjson")


def test_a_replacement_with_a_time_far_ahead_is_noted(run: Callable[..., str], golden: Path) -> None:
    golden.write_text('{"id":1,"a":5}\n')
    for words in (("--dry-run",), ()):
        run("publish", "t", str(golden), "--replace-all", "--timestamp", "2099-01-01T00:00:00Z", *words)
        assert "ahead of the clock" in run.err  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [("--force",), ("--replace-all", "--tee"), ("--replace-all", "--on-error", "skip")])
def test_options_of_a_replacement_that_do_not_fit(run: Callable[..., str], golden: Path, words: tuple[str]) -> None:
    run("publish", "t", str(golden), *words, status=2)
    run("publish", "--framing", "envelope", "--replace-all", str(golden), status=2)
    run("diff", "t", str(golden))
