"""The parser: runs the tables of ``lalr.py`` over tokens, without recursion."""

from __future__ import annotations

from typing import Any

from sowctl.expressions.syntax.actions import Builder
from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error
from sowctl.expressions.syntax.lalr import RULES, STARTS, STATES
from sowctl.expressions.syntax.lexer import KEYWORDS, check_text, tokenize

MAX_PARSER_DEPTH = 20_000
"""Maximum number of states on the stack; a nested parenthesis takes one or two, a nested IF up to six."""
MAX_TOKENS = 40_000
"""Words, operators, paths and literals: those of 10,000 comparisons joined by OR, or 20,000 members of a list.

Compiling takes 0.1 to 0.3 ms for each, all steps together, and grows only with their number:
80,000 comparisons took more than a minute, in which nothing was read.
"""


def parse_text(start: str, text: str) -> Any:
    """Parse ``text`` as ``start`` (a key of ``lalr.STARTS``) and return the result of the builder.

    Raises ExpressionError at the first error of the text.
    """
    check_text(text)
    tokens, fault = tokenize(text)
    builder = Builder(text)
    reductions = [(left, size, getattr(builder, alias) if alias else None) for left, size, alias in RULES]
    # There is one more state than values: the first state is at the bottom of the stack.
    state, last = STARTS[start]
    states = [state]
    values: list[Any] = []
    for token in tokens[:MAX_TOKENS]:
        kind = token[0]
        # Reduce as long as the table has a reduction for this token, then shift it. A shift is >= 0; a reduction by
        # rule r is -1 - r; an absent entry is an error, found at the first token that cannot continue any valid text.
        while True:
            if kind == "END" and states[-1] == last:
                return values[0]
            action = STATES[states[-1]].get(kind)
            if action is None:
                # The lexer stopped here, and there is no earlier error: the lexical error is the first of the text.
                if kind == "ERROR" and fault is not None:
                    raise fault.build_error(text)
                raise _build_unexpected_error(text, kind, token[1], token[2], states)
            if action >= 0:
                break
            left, size, make = reductions[-1 - action]
            # A rule without an alias only renames its single part: the value is kept.
            if make is not None:
                parts = values[-size:]
                values[-size:] = (make(parts),)
                del states[-size:]
            else:
                states.pop()
            base = states[-1]
            # A value passes one renaming per level of binding. The resulting state depends only on these three values,
            # so each sequence is computed once in a process.
            key = (base, left, kind)
            above = _state_cache.get(key)
            if above is None:
                above = _state_cache[key] = _find_reached_state(base, left, kind)
            states.append(above)
        states.append(action)
        values.append(token)
        if len(states) > MAX_PARSER_DEPTH:
            raise build_expression_error("SOW-EXP-008", "the expression is nested too deeply", text, token[1])
    # For a text within the limit the function has returned at the END token.
    what = f"the expression has more than {MAX_TOKENS:,} words and signs"
    hint = "of many values that one field may have, an IN list takes half as many; else ask in several queries"
    raise build_expression_error("SOW-EXP-041", what, text, tokens[MAX_TOKENS][1], hint=hint)


# Shared by all parses of a process. The tables bound its size: at most one entry per state, left side and terminal.
_state_cache: dict[tuple[int, str, str], int] = {}


def _find_reached_state(base: int, left: str, kind: str) -> int:
    """The state above ``base`` after ``left`` and all rules that only rename it."""
    while True:
        state = STATES[base][left]
        # A missing entry ends the loop like a shift; the caller then looks the entry up again and reports the
        # error.
        action = STATES[state].get(kind, 0)
        if action >= 0:
            return state
        rule = RULES[-1 - action]
        # A rule with an alias builds a node, which is done by the caller.
        if rule[2]:
            return state
        left = rule[0]


def _build_unexpected_error(text: str, kind: str, start: int, end: int, states: list[int]) -> ExpressionError:
    row = STATES[states[-1]]
    wanted = _expected_hint(row)
    if kind == "END":
        what = "the expression is empty" if len(states) == 1 else "the expression is incomplete"
        return build_expression_error("SOW-EXP-007", what, text, start, hint=wanted)
    shown = text[start:end]
    if len(shown) > 40:
        shown = shown[:40] + "..."
    if kind in KEYWORDS:
        shown = shown.upper()
    return build_expression_error("SOW-EXP-018", f"unexpected {shown}", text, start, hint=wanted)


_TOKEN_WORDS = {"LPAR": "(", "RPAR": ")", "COMMA": ",", "FIELD": "a field"}


def _expected_hint(row: dict[str, int]) -> str | None:
    """Return the hint with what would be allowed here instead."""
    # Where a number is allowed every other value is allowed, too.
    if "NUMBER" in row:
        return "expected a value, a field, a function or ("
    if row.keys() >= {"STRING", "RAW"}:
        return "expected a string or raw string" + (", or a list in parentheses" if "LPAR" in row else "")
    terminals = [symbol for symbol in row if symbol.isupper() and symbol != "END"]
    if len(terminals) > 4:
        return "expected an operator or the end of the expression"
    return (
        "expected " + " or ".join(_TOKEN_WORDS.get(symbol, symbol) for symbol in sorted(terminals))
        if terminals
        else None
    )
