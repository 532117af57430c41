"""``key``, ``publish --delta`` and ``functions -c`` in typical use."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sowctl.expressions.functions.table import ADDED_TITLES
from tests.cli.conftest import Cli

CONFIG = """\
<AMPSConfig>
  <Name>test</Name>
  <Modules>
    <Module><Name>dates</Name><Library>libamps_udf_legacy_compatibility.so</Library></Module>
    <Module><Name>acme</Name><Library>libacme.so</Library></Module>
    <Module><Name>chain</Name><Library>libamps_id_chaining_key_generator.so</Library></Module>
  </Modules>
  <UserDefinedFunctions>
    <Function><Name>MID</Name><Module>acme</Module><Symbol>mid</Symbol></Function>
  </UserDefinedFunctions>
  <SOW>
    <Topic>
      <Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName>
      <Preprocessing><Field>/number AS /id</Field></Preprocessing>
      <Enrichment><Field>DATE_UTC(/t) AS /day HINT OPTIONAL</Field></Enrichment>
    </Topic>
    <Topic><Name>texts</Name><MessageType>binary</MessageType><FileName>sow/%n.sow</FileName></Topic>
    <Topic>
      <Name>chains</Name><MessageType>json</MessageType><FileName>sow/%n.sow</FileName>
      <KeyGenerator><Module>chain</Module><Options><Key>/id</Key><Key>/parent</Key></Options></KeyGenerator>
    </Topic>
    <Topic>
      <Name>foreign</Name><MessageType>json</MessageType><FileName>sow/%n.sow</FileName>
      <KeyGenerator><Module>acme</Module></KeyGenerator>
    </Topic>
  </SOW>
</AMPSConfig>
"""
NOON = {"SOWCTL_NOW": "2026-01-05T12:00:00Z"}


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(CONFIG)
    return cli


def test_key_tells_what_publish_would_do(shop: Cli) -> None:
    result = shop("key", "orders", stdin=b'{"number":7}\n{"number":"x"}\n')
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert (result.status, [row["texts"] for row in rows]) == (0, [["7"], ["x"]])
    assert {row["key_domain"] for row in rows} == {"orders"}
    assert not Path("sow").exists()
    shop("publish", "orders", stdin=b'{"number":7}\n')
    record = json.loads(shop("query", "orders", "--meta").out)
    assert record["sow_key"] == rows[0]["sow_key"]
    assert len(rows[0]["check_word"]) == 16


def test_key_says_who_has_none_and_goes_on(shop: Cli) -> None:
    result = shop("key", "orders", stdin=b'{"x":1}\nnonsense\n{"number":7}\n')
    assert (result.status, len(result.out.splitlines())) == (3, 1)
    assert "SOW-PUB-002" in result.err
    assert "(standard input):2" in result.err


def test_key_knows_every_mode(shop: Cli) -> None:
    row = json.loads(shop("key", "texts", "--sow-key", "ABC", stdin=b"\x00\n").out)
    assert (row["user_key"], row["key_domain"], row["texts"]) == ("ABC", None, ["ABC"])
    assert shop("key", "texts", stdin=b"x\n").status == 3
    rows = shop("key", "chains", stdin=b'{"id":1}\n{"id":2,"parent":1}\n{"id":3}\n').out.splitlines()
    first, second, third = (json.loads(line)["sow_key"] for line in rows)
    assert first == second != third
    assert not Path("sow").exists()
    table = shop("key", "orders", "--format", "table", stdin=b'{"number":7}\n').out
    assert table.split()[:5] == ["sow_key", "user_key", "key_domain", "texts", "check_word"]


def test_a_generator_that_is_not_there(shop: Cli) -> None:
    for command in ("key", "publish"):
        result = shop(command, "foreign", stdin=b'{"id":1}\n')
        assert result.status == 4
        assert "SOW-PUB-010" in result.err
        assert "sowctl.key_generators" in result.err


def test_deltas_of_the_command_line(shop: Cli) -> None:
    shop("publish", "orders", stdin=b'{"number":7,"q":{"bid":1,"ask":2},"t":0}\n')
    result = shop("publish", "orders", "--delta", "--tee", stdin=b'{"number":7,"q":{"bid":3},"t":86400}\n')
    merged = {"number": 7, "q": {"bid": 3, "ask": 2}, "t": 86400, "id": 7, "day": 19700102}
    assert json.loads(result.out) == json.loads(shop("query", "orders").out) == merged
    refused = shop("publish", "orders", "--delta", "--update-only", stdin=b'{"number":8}\n')
    assert (refused.status, "SOW-PUB-018" in refused.err) == (3, True)
    shop("publish", "orders", "--delta", "--delta-null", "set", stdin=b'{"number":7,"q":null}\n')
    assert json.loads(shop("query", "orders").out)["q"] is None


def test_options_of_deltas_need_deltas(shop: Cli) -> None:
    assert shop("publish", "orders", "--update-only", stdin=b"").status == 2
    assert shop("publish", "orders", "--delta-null", "set", stdin=b"").status == 2
    envelope = b'{"command":"delta_publish","data":{"number":7}}\n'
    result = shop("publish", "orders", "--framing", "envelope", "--update-only", stdin=envelope)
    assert (result.status, "SOW-PUB-018" in result.err) == (3, True)


def test_filters_know_the_functions_of_the_configuration(shop: Cli) -> None:
    shop("publish", "orders", stdin=b'{"number":7,"t":0}\n{"number":8,"t":86400}\n')
    assert json.loads(shop("query", "orders", "--filter", "DAY(/t) = 2").out)["number"] == 8
    result = shop("query", "orders", "--filter", "MID(/t) = 2")
    assert (result.status, "SOW-ENG-060" in result.err) == (4, True)


def test_expressions_over_files_know_the_functions_of_a_named_configuration(shop: Cli) -> None:
    plain = shop("eval", "DAY(/t)", stdin=b'{"t":0}\n')
    assert (plain.status, "unknown function DAY" in plain.err) == (2, True)
    assert shop("eval", "-c", "sowctl.xml", "DAY(/t)", stdin=b'{"t":0}\n{"t":86400}\n').out == "1\n2\n"
    named = {"SOWCTL_CONFIG": "sowctl.xml"}
    assert shop("eval", "-f", "DAY(/t) = 2", stdin=b'{"t":0}\n{"t":86400}\n', environ=named).out == '{"t":86400}\n'
    assert "DAY" in shop("eval", "-c", "sowctl.xml", "--explain", "DAY(/t)").out
    missing = shop("eval", "-c", "sowctl.xml", "MID(/t)", stdin=b"{}\n")
    assert (missing.status, "SOW-ENG-060" in missing.err) == (4, True)
    # No configuration is read for an expression of built-in functions.
    assert shop("eval", "LENGTH(/a)", stdin=b'{"a":"xy"}\n', environ={"SOWCTL_CONFIG": "none.xml"}).out == "2\n"


def test_messages_that_a_function_refuses(shop: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text("[sowctl.functions]\nacme = acme_halves\n")
    (site / "acme_halves.py").write_text("def mid(a):\n    return 10 // a\n")
    monkeypatch.syspath_prepend(str(site))
    lines = b'{"a":5}\n{"a":0}\nbad\n{"a":2}\n'
    stopped = shop("eval", "-c", "sowctl.xml", "MID(/a)", stdin=lines)
    assert (stopped.status, stopped.out) == (3, "2\n")
    assert "SOW-EXP-031" in stopped.err
    assert "input):2" in stopped.err
    skipped = shop("eval", "-c", "sowctl.xml", "--on-error", "skip", "MID(/a)", stdin=lines)
    assert (skipped.status, skipped.out) == (3, "2\n5\n")
    assert skipped.err.index("input):2") < skipped.err.index("input):3")
    found = shop("eval", "-c", "sowctl.xml", "--on-error", "skip", "-f", "MID(/a) > 2", stdin=lines)
    assert (found.status, found.out) == (3, '{"a":2}\n')


def test_functions_of_a_configuration(shop: Cli) -> None:
    plain = shop("functions")
    assert "DATE_UTC" not in plain.out
    added = shop("functions", "-c", "sowctl.xml")
    assert added.out.startswith(plain.out)
    assert f"{ADDED_TITLES['module']}:" in added.out and ADDED_TITLES["module"] not in plain.out
    assert "DATE_UTC(n)" in added.out
    assert "SOW-ENG-060" in added.err
    assert shop("functions", "date_utc").status == 1
    described = shop("functions", "date_utc", environ={"SOWCTL_CONFIG": "sowctl.xml"})
    assert (described.status, "UTC" in described.out) == (0, True)


def test_sow_keys_may_be_a_list_with_commas(shop: Cli) -> None:
    shop("publish", "orders", stdin=b"".join(b'{"number":%d}\n' % number for number in range(4)))
    keys = [json.loads(line)["sow_key"] for line in shop("query", "orders", "--meta").out.splitlines()]
    asked = ("--sow-key", f"{keys[0]}, {keys[1]}", "--sow-key", keys[2])
    assert len(shop("query", "orders", *asked).out.splitlines()) == 3
    assert json.loads(shop("delete", "orders", *asked, "--yes", "--format", "ndjson").out)["deleted"] == 3
    # an empty element of a list is not a key, and is reported
    assert "SOW-QRY-001" in shop("query", "orders", "--sow-key", f"{keys[3]},").err


def test_bytes_of_the_command_line_that_are_not_utf8(shop: Cli) -> None:
    bad = os.fsdecode(b"a\xff")
    assert shop("publish", "texts", "--framing", "lines", "--sow-key", "AAA", stdin=b"x\n").status == 0
    shop("publish", "orders", stdin=b'{"number":7}\n')
    refused = shop("publish", "texts", "--framing", "lines", "--sow-key", bad, stdin=b"x\n")
    assert (refused.status, "SOW-PUB-003" in refused.err) == (3, True)
    assert shop("key", "texts", "--framing", "lines", "--sow-key", bad, stdin=b"x\n").status == 3
    assert [shop("get", target, bad).status for target in ("texts", "orders")] == [1, 1]
    assert shop("query", "texts", "--sow-key", bad).out == ""
    assert json.loads(shop("delete", "texts", "--yes", "--sow-key", bad, "--format", "ndjson").out)["deleted"] == 0
    unnamed = shop("publish", "orders", "--client", bad, "--sequence", "1", stdin=b'{"number":7}\n')
    assert (unnamed.status, "SOW-PUB-026" in unnamed.err) == (2, True)


def test_get_says_where_the_keys_of_a_key_generator_are_to_be_seen(shop: Cli) -> None:
    shop("publish", "chains", stdin=b'{"id":7}\n')
    missed = shop("get", "chains", "7")
    assert missed.status == 1
    key, way = missed.err.splitlines()
    assert key.startswith("chains: ") and key.endswith(" 7") and "query --meta" in way
    key = json.loads(shop("query", "chains", "--meta").out)["sow_key"]
    assert shop("get", "chains", key).out == '{"id":7}\n'
    assert "key generator" not in shop("get", "texts", "7").err
