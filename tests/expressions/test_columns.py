"""The columnar evaluator gives what the row evaluator gives, and says what it left to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

from sowctl.expressions import nodes as n
from sowctl.expressions.columns import ColumnProgram
from sowctl.expressions.compile import compile_filter, compile_value
from sowctl.expressions.environment import Environment
from sowctl.values.fields import Values
from tests.expressions.alike import same
from tests.expressions.valid import EXPRESSIONS, PATHS, rows

ENV = Environment(lambda: 1_700_000_000_250_000, "prod-1", None)


def own_rows(compiled: Any, records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The records reduced to the slots that an expression asks for."""
    places = [PATHS.index(slot.path) for slot in compiled.slots]
    kept = []
    for record in records:
        values = [record[place] for place in places]
        kept.append(tuple(listed(v) if slot.listed else v for v, slot in zip(values, compiled.slots, strict=True)))
    return kept


def listed(value: Any) -> Any:
    return value if isinstance(value, Values) else Values(() if value is None else (value,))


@given(EXPRESSIONS, rows())
@settings(max_examples=400, deadline=None)
def test_both_evaluators_agree(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    value, wanted = compile_value(str(node)), compile_filter(str(node))
    own = own_rows(value, records)
    program = ColumnProgram(value)
    found = program.column(program.batch(own), ENV).repeated(len(own))
    expected = value.values(own, ENV)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert same(one, other), (str(node), one, other, program.explanation())
    own = own_rows(wanted, records)
    program = ColumnProgram(wanted)
    mask = program.mask(program.batch(own), ENV)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(own),)
    assert np.flatnonzero(mask).tolist() == wanted.matches(own, ENV)
