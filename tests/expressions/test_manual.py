"""The table of functions, and the page made from it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sowctl.cli.manual.expressionpage import PAGE_FILE
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.columns.grouping import add_columns
from sowctl.expressions.compiler import compile_filter, compile_projection
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.functions.table import (
    FUNCTION_TABLE,
    GROUP_TITLES,
    FunctionEntry,
    format_entry,
    format_entry_list,
)
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.projection import GroupKey
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.messages.json.text import format_json
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import build_column
from tests.support import jsonslots

MAN = Path(__file__).parents[2] / "man"
ENV = Environment(lambda: 0)
SUMS = re.findall(
    r"^    of (.+)\n +are (\S+) and (\S+)$", (MAN / PAGE_FILE).read_text().replace("\\-", "-"), re.MULTILINE
)
every = pytest.mark.parametrize("entry", FUNCTION_TABLE, ids=lambda entry: entry.name)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong() -> None:
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", str(MAN / PAGE_FILE)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    for entry in FUNCTION_TABLE:
        assert entry.name in re.sub(rb".\x08", b"", done.stdout).decode()


def test_the_table_lists_every_function_once() -> None:
    assert sorted(entry.name for entry in FUNCTION_TABLE) == sorted({"IF", *FUNCTIONS, *AGGREGATES})
    assert {entry.group for entry in FUNCTION_TABLE} == set(GROUP_TITLES)


@every
def test_the_spelling_of_arguments_agrees_with_their_number(entry: FunctionEntry) -> None:
    names = [name.strip(" []") for name in entry.arguments.split(",")] if entry.arguments else []
    optional = entry.arguments.count("[")
    if names and names[-1] == "...":
        assert (entry.least, entry.most) == (len(names) - 1, None)
    else:
        assert (entry.least, entry.most) == (len(names) - optional, len(names))


@every
def test_the_compiler_accepts_exactly_those_numbers(entry: FunctionEntry) -> None:
    def refused(count: int) -> bool:
        arguments = ["'x'"] * count
        try:
            compile_filter(f"{entry.name}({', '.join(arguments)})", Context.PREPROCESSING)
        except ExpressionError as error:
            return error.code == "SOW-EXP-011"
        return False

    if entry.name in AGGREGATES:
        return
    assert not refused(entry.least)
    assert entry.least == 0 or refused(entry.least - 1)
    assert entry.most is None or refused(entry.most + 1)


def test_lists_and_descriptions() -> None:
    lines = format_entry_list(FUNCTION_TABLE)
    assert lines[0] == "Choice:"
    assert any(line.startswith("  SUBSTR(s, start [, len])") for line in lines)
    (substr,) = (entry for entry in FUNCTION_TABLE if entry.name == "SUBSTR")
    assert format_entry(substr)[0] == "SUBSTR(s, start [, len])"
    assert "  arguments: 2 to 3" in format_entry(substr)
    (concat,) = (entry for entry in FUNCTION_TABLE if entry.name == "CONCAT")
    assert "  arguments: 1 or more" in format_entry(concat)
    (uuid,) = (entry for entry in FUNCTION_TABLE if entry.name == "UUID7")
    assert format_entry(uuid)[-1].startswith("  note:      not deterministic")
    assert substr.build_facts()["call"] == substr.call_text


@pytest.mark.parametrize(("values", "total", "mean"), SUMS)
def test_sums_and_averages_are_those_of_the_page(values: str, total: str, mean: str) -> None:
    """By rows and on columns: a number beyond the Doubles, or none at all, is written as null."""
    program = compile_projection("SUM(/v) AS /s, AVG(/v) AS /a", "/g")
    rows = [jsonslots.row(f'{{"v":{value}}}', program.slots) for value in values.split(", ")]
    groups: list[dict[GroupKey, Group]] = [{}, {}]
    program.add_messages(groups[0], rows, ENV)
    columns = [build_column([row[place] for row in rows]) for place in range(len(program.slots))]
    stamps = np.arange(len(rows), dtype=np.int64)
    add_columns(program, groups[1], ColumnBatch(columns, len(stamps), txids=stamps, times=stamps), ENV)
    for found in groups:
        [group] = found.values()
        assert [format_json(value).decode() for value in program.compute_fields(group, ENV)] == [total, mean]


def test_the_page_has_sums_beyond_every_range() -> None:
    assert len(SUMS) >= 7 and {"null", "1.8446744073709552e+19"} <= {total for _, total, _ in SUMS}
