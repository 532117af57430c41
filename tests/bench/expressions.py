"""The expression language: rows and columns against a hand-written predicate, eval against jq and DuckDB, parsers.

``python -m tests.bench.expressions [--small] [--dir DIR] [--rounds N]``. Results are compared before anything is
ranked. The rules that cost time are on everywhere: UTF-8, repeated members, original texts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from tests.bench.facts import facts
from tests.bench.place import SOWCTL, Place
from tests.bench.rounds import ROOT, Item, Sample, Wrong, judge, output_of, process, race, ratios, show, timed

TITLE = "expressions: /price > 90 AND /region = 'EMEA'"
FILTER = "/price > 90 AND /region = 'EMEA'"
JQ = 'select(.price > 90 and .region == "EMEA")'
BATCH = 1000
HAND, ROWS, COLUMNS = "json.loads, hand-written predicate", "rows over payloads", "columns, built"
DUCKDB = """
import sys, duckdb
query = "select json from read_ndjson_objects(?) where cast(json->>'$.price' as double) > 90"
query += " and json->>'$.region' = 'EMEA'"
for row in duckdb.connect().execute(query, [sys.argv[1]]).fetchall():
    sys.stdout.buffer.write(row[0].encode() + b"\\n")
"""
"""The same lines out, verbatim; DuckDB with all cores."""


def run(place: Place, rounds: int) -> None:
    """Everything, one after the other."""
    path = place.input()
    print("  in-process:")
    _evaluators(path.read_bytes().splitlines(), rounds)
    print("  whole process, the matching lines of the file as they are:")
    _programs(path, max(rounds, 5))
    print("  parsing and compiling one filter, whole process:")
    _parsers(max(rounds, 7))


def _by_hand(payloads: list[bytes]) -> int:
    found = 0
    for payload in payloads:
        message = json.loads(payload)
        if message["price"] > 90 and message["region"] == "EMEA":
            found += 1
    return found


def _evaluators(payloads: list[bytes], rounds: int) -> None:
    import numpy as np

    from sowctl.expressions.columns import ColumnProgram
    from sowctl.expressions.compiler import compile_filter
    from sowctl.expressions.environment import Environment
    from sowctl.messages.types import get_type

    wanted = compile_filter(FILTER)
    extract = get_type("json").build_extractor(wanted.slots)
    env = Environment(lambda: 0)
    batches = [payloads[start : start + BATCH] for start in range(0, len(payloads), BATCH)]
    rows = [row for batch in batches for row in extract(batch)[0]]
    program = ColumnProgram(wanted)
    columns = program.build_batch(rows)

    def over_payloads() -> int:
        return sum(len(wanted.find_matches(extract(batch)[0], env)) for batch in batches)

    calls = {
        HAND: partial(_by_hand, payloads),
        ROWS: over_payloads,
        "rows, built": lambda: len(wanted.find_matches(rows, env)),
        COLUMNS: lambda: int(np.count_nonzero(program.evaluate_mask(columns, env))),
        "building columns from rows": lambda: program.build_batch(rows).columns and None,
    }
    counts = {name: call() for name, call in calls.items()}
    if len({count for count in counts.values() if count is not None}) != 1:
        raise Wrong(f"the results differ: {counts}")
    if program.list_fallbacks():
        raise Wrong(f"the columns fell back: {program.list_fallbacks()}")
    print(f"  {counts[HAND]:,} of {len(payloads):,} messages match")
    items = [Item(name, partial(_often if name == COLUMNS else timed, call)) for name, call in calls.items()]
    found = race(items, rounds)
    show(found, base=HAND, count=len(payloads))
    judge(f"{ROWS}: times as fast as {HAND}", statistics.median(ratios(found, HAND, ROWS)), 4.0)
    judge("columns: times as fast as rows, both built", statistics.median(ratios(found, "rows, built", COLUMNS)), 50.0)


def _often(call: Callable[[], object]) -> Sample:
    """The mean of many calls of something that takes less than a thousandth of a second."""
    whole = timed(lambda: [call() for _ in range(50)])
    return Sample(whole.wall / 50, whole.cpu / 50)


def _programs(path: Path, rounds: int) -> None:
    commands = {"sowctl eval": [*SOWCTL, "eval", "--filter", FILTER, str(path)]}
    if which("jq"):
        commands["jq"] = ["jq", "-c", JQ, str(path)]
    if find_spec("duckdb") is not None:
        commands["duckdb, Python"] = [sys.executable, "-c", DUCKDB, str(path)]
    digests = {name: _digest(output_of(argv)) for name, argv in commands.items()}
    if len(set(digests.values())) != 1:
        raise Wrong(f"the outputs differ: {digests}")
    found = race([Item(name, partial(process, argv)) for name, argv in commands.items()], rounds)
    show(found, base="sowctl eval")
    if "jq" in found:
        judge("eval: times as fast as jq", statistics.median(ratios(found, "jq", "sowctl eval")), 8.0)
    if "duckdb, Python" in found:
        judge("eval: time / duckdb", statistics.median(ratios(found, "sowctl eval", "duckdb, Python")), 1.5, most=True)


def _digest(output: bytes) -> str:
    """Which messages came out, in any order: by their numbers, because jq 1.6 writes Doubles its own way."""
    numbers = sorted(json.loads(line)["seq"] for line in output.splitlines())
    return hashlib.sha256(repr(numbers).encode()).hexdigest()


def _parsers(rounds: int) -> None:
    from sowctl.expressions.syntax.tables import PACKAGE_DIRECTORY

    with tempfile.TemporaryDirectory() as directory:
        module = Path(directory) / "alone.py"
        grammar = Path(directory) / "whole.lark"
        grammar.write_text(
            _with_terminals((PACKAGE_DIRECTORY / "grammar.lark").read_text(encoding="utf-8")), encoding="utf-8"
        )
        options = ["--start", "expression", str(grammar), "--out", str(module)]
        subprocess.run([sys.executable, "-m", "lark.tools.standalone", *options], check=True, cwd=ROOT)
        ours = f"from sowctl.expressions.syntax.parser import parse_filter; parse_filter({FILTER!r})"
        compiled = f"from sowctl.expressions.compiler import compile_filter; compile_filter({FILTER!r})"
        at_run_time = (
            f"from lark import Lark; Lark(open({str(grammar)!r}).read(), parser='lalr', start='expression')"
            f".parse({FILTER!r})"
        )
        alone = (
            f"import sys; sys.path.insert(0, {directory!r}); from alone import Lark_StandAlone; "
            f"Lark_StandAlone().parse({FILTER!r})"
        )
        scripts = {
            "python alone": "pass",
            "own driver over lark's tables": ours,
            "the same, with compiling": compiled,
            "lark at run time": at_run_time,
            "lark standalone": alone,
        }
        items = [Item(name, partial(_python, text)) for name, text in scripts.items()]
        found = race(items, rounds)
        show(found, base="python alone")
    start = statistics.median(one.wall for one in found["python alone"])
    for name in list(scripts)[1:]:
        above = statistics.median(one.wall for one in found[name]) - start
        print(f"    {name}: {1000 * above:.1f} ms above python alone")


def _python(text: str) -> Sample:
    return process([sys.executable, "-c", text])


_TERMINALS = r"""
OR: "OR"
AND: "AND"
NOT: "NOT"
LPAR: "("
RPAR: ")"
COMMA: ","
COMPARE: /==?|!=|<>|<=?|>=?/
SIGN: /[+-]/
TIMES: /[*%\/]/
FIELD: /\/[a-z]+/
NUMBER: /[0-9]+/
STRING: /'[^']*'/
%ignore " "
"""


def _with_terminals(grammar: str) -> str:
    """The grammar with patterns for its terminals, as far as the filter needs them: lark then lexes by itself."""
    given = set(re.findall(r"^([A-Z]+):", _TERMINALS, re.MULTILINE))
    declared = re.findall(r"%declare ([A-Z_ ]+)", grammar)
    others = sorted({word for line in declared for word in line.split()} - given)
    rest = "".join(f'{word}: "{word} "\n' for word in others)
    return re.sub(r"%declare [A-Z_ ]+\n", "", grammar) + _TERMINALS + rest


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.expressions")
    parser.add_argument("--small", action="store_true", help="100,000 messages instead of 1,000,000")
    parser.add_argument("--dir", help="keep the input here; default a temporary directory")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the long benchmarks")
    chosen = parser.parse_args()
    held = nullcontext(chosen.dir) if chosen.dir else tempfile.TemporaryDirectory(prefix="sowctl-bench-")
    with held as directory:
        root = Path(directory).resolve()
        root.mkdir(parents=True, exist_ok=True)
        print(facts(root))
        place = Place(root, 100_000 if chosen.small else 1_000_000)
        print(f"\n{TITLE}  [{place.count:,} messages]")
        try:
            run(place, chosen.rounds)
        except Wrong as error:
            print(f"  WRONG  {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
