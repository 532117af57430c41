"""Generates ``lalr.py`` from ``grammar.lark``: ``python -m sowctl.expressions.syntax.tables`` rewrites the file.

Used only by developers and tests: lark is not imported when expressions are parsed.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

START_RULES = ("expression", "field", "projection", "grouping", "order_by")
PACKAGE_DIRECTORY = Path(__file__).parent
_FILE_HEADER = '''"""LALR(1) tables, made from grammar.lark by tables.py; not to be edited by hand.

RULES: left side, number of parts, alias ("" hands the only part on). STATES: per state, what a token or a left side
leads to: a state, or -1 - rule to reduce. STARTS: first and last state per kind of text.
"""

# fmt: off
'''


def build_lark_parser() -> Any:
    """lark's own parser of the grammar, over tokens that are given as (kind, start, end)."""
    from lark import Lark, Token
    from lark.lexer import Lexer

    class Given(Lexer):
        def __init__(self, conf: object) -> None:
            """Nothing to prepare."""

        def lex(self, lexer_state: Any, parser_state: Any = None) -> Any:
            return (Token(kind, (kind, start, end)) for kind, start, end in lexer_state if kind != "END")

        def make_lexer_state(self, data: Any) -> Any:
            return data

    grammar = (PACKAGE_DIRECTORY / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer=Given, start=list(START_RULES), keep_all_tokens=True)


def build_source() -> str:
    """The text of ``lalr.py``."""
    # Uses private parts of lark, including its states: a test compares the result with the file in the repository.
    table = build_lark_parser().parser.parser._parse_table
    order = {rule: number for number, rule in enumerate(_grammar_rules(table))}
    rules = [(str(r.origin.name), len(r.expansion), r.alias or "") for r in order]
    number = _number_states(table)
    states = [_state_entries(table.states[old], number, order) for old in number]
    starts = {name: (number[table.start_states[name]], number[table.end_states[name]]) for name in START_RULES}
    body = [
        _format_assignment("RULES: tuple[tuple[str, int, str], ...]", tuple(rules)),
        _format_assignment("STATES: tuple[dict[str, int], ...]", tuple(states)),
        _format_assignment("STARTS: dict[str, tuple[int, int]]", starts),
    ]
    return _FILE_HEADER + "\n".join(body)


def _number_states(table: Any) -> dict[int, int]:
    """Stable numbers for lark's states, whose numbers differ between runs: in the order in which they are reached."""
    number: dict[int, int] = {}
    waiting = [table.start_states[name] for name in reversed(START_RULES)]
    while waiting:
        state = waiting.pop()
        if state not in number:
            number[state] = len(number)
            row = sorted(table.states[state].items(), reverse=True)
            waiting.extend(target for _, (action, target) in row if str(action) == "Shift")
    return number


def _state_entries(row: Any, number: dict[int, int], order: dict[Any, int]) -> dict[str, int]:
    entries = {}
    # Shifts are numbers from 0, reductions are negative: one table of integers contains both.
    for symbol, (action, target) in sorted(row.items()):
        entry = number[target] if str(action) == "Shift" else -1 - order[target]
        entries["END" if symbol == "$END" else str(symbol)] = entry
    return entries


def _grammar_rules(table: Any) -> list[Any]:
    found = {target for row in table.states.values() for action, target in row.values() if str(action) != "Shift"}
    return sorted(found, key=lambda rule: (str(rule.origin.name), rule.order, [str(s.name) for s in rule.expansion]))


def _format_assignment(name: str, value: object) -> str:
    text = repr(value).replace("'", '"')
    lines = textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)
    return f"{name} = \\\n" + "\n".join("    " + line for line in lines) + "\n"


if __name__ == "__main__":
    (PACKAGE_DIRECTORY / "lalr.py").write_text(build_source(), encoding="utf-8")
