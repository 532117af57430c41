"""Random valid expressions over the fields /a to /d, and random records for them, for hypothesis."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.functions.signature import UNLIMITED_ARGUMENTS, Function
from sowctl.expressions.syntax import nodes as n
from sowctl.values.fields import Number, ValueList
from sowctl.values.paths import parse_path

PATHS = tuple(map(parse_path, ("/a", "/b", "/c", "/d")))
FIELDS = st.sampled_from(PATHS).map(lambda path: n.Field(path, (), None, 0))
WHOLE = (0, 1, 2, 5, 90, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
DOUBLES = (0.0, 0.5, 1.5, 2.5, 5.0, 90.0, 1e-5, 1e16, float(2**53), 1e300, math.inf, math.nan)
WORDS = (
    b"",
    b"a",
    b"ab",
    b"B",
    b"5",
    b" 5 ",
    b"5.0",
    b"90",
    b"-1",
    b"1e2",
    b"nan",
    b"x\n",
    b"EMEA",
    b"\xff",
    b"\xc3\xa9",
)
LITERALS = st.builds(
    n.Literal, st.none() | st.booleans() | st.sampled_from(WHOLE) | st.sampled_from(DOUBLES) | st.sampled_from(WORDS)
)
PATTERNS = st.sampled_from(
    [
        n.Pattern(b"a", False),
        n.Pattern(b"^5", False),
        n.Pattern(b"[0-9]+$", False),
        n.Pattern(b"(?i)b", False),
        n.Pattern(b"x|", False),
        n.Pattern(b"a", True),
        n.Pattern(b"", False),
    ]
)
CALLABLE = tuple(function for function in FUNCTIONS.values() if function.deterministic and function.gets != "header")


def _arguments(function: Function, below: st.SearchStrategy[n.Node]) -> st.SearchStrategy[n.Node]:
    most = function.least + 2 if function.most == UNLIMITED_ARGUMENTS else function.most
    counts = st.integers(function.least, most)

    def build(count: int) -> st.SearchStrategy[n.Node]:
        kinds = [function.find_argument_kind(position) for position in range(count)] if count else []
        parts = [PATTERNS if kind == "pattern" else below for kind in kinds]
        return st.tuples(*parts).map(lambda arguments: n.Call(function.name, arguments))

    return counts.flatmap(build)


def _chain(signs: str, below: st.SearchStrategy[n.Node]) -> st.SearchStrategy[n.Node]:
    rest = st.lists(st.tuples(st.sampled_from(signs), below), min_size=1, max_size=3)
    return st.tuples(below, rest).map(
        lambda both: n.Arithmetic(tuple(sign for sign, _ in both[1]), (both[0], *(node for _, node in both[1])))
    )


def _above(below: st.SearchStrategy[n.Node]) -> st.SearchStrategy[n.Node]:
    flag = st.booleans()
    several = st.lists(below, min_size=1, max_size=3).map(tuple)
    literals = st.lists(LITERALS, min_size=1, max_size=5).map(tuple)
    two = st.lists(below, min_size=2, max_size=4).map(tuple)
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(n.Compare, compare, below, below),
        st.builds(n.Compare, compare, FIELDS, LITERALS),
        st.builds(n.Logic, st.sampled_from(["AND", "OR"]), two),
        st.builds(n.Not, below),
        st.builds(n.In, below, literals | several, flag),
        st.builds(n.Between, below, below, below, flag),
        st.builds(n.Is, st.sampled_from(["NULL", "NAN"]), below, flag),
        st.builds(n.Like, below, PATTERNS, flag),
        st.builds(n.Affix, st.sampled_from(["BEGINS", "ENDS"]), below, several, flag),
        st.builds(n.Unary, st.sampled_from("+-"), below),
        _chain("+-", below),
        _chain("*/%", below),
        st.tuples(below, below, below).map(lambda three: n.Call("IF", three)),
        st.sampled_from(CALLABLE).flatmap(lambda function: _arguments(function, below)),
        st.sampled_from(["ABS", "SIGN", "FLOOR", "CEILING", "SQRT"]).flatmap(
            lambda name: below.map(lambda node: n.Call(name, (node,)))
        ),
    )


EXPRESSIONS: st.SearchStrategy[n.Node] = st.recursive(FIELDS | LITERALS, _above, max_leaves=8)

SMALL = st.integers(-6, 6)
BIG = st.sampled_from([*WHOLE, *(-number for number in WHOLE if number <= 2**63)])
FLOATS = st.sampled_from([*DOUBLES, -0.0, -1.5, -math.inf, 91.25]) | st.floats(-100, 100, width=16)
TEXTS: st.SearchStrategy[Any] = st.sampled_from([*WORDS, *(word.decode() for word in WORDS if word != b"\xff")])
NUMBERS = st.sampled_from([Number(1.5, b"1.50"), Number(5.0, b"5.0"), Number(math.inf, b"1e999"), Number(0, b"-0")])
ANY = SMALL | BIG | FLOATS | TEXTS | st.booleans() | NUMBERS
LISTS = st.builds(ValueList, st.lists(st.none() | ANY, max_size=3).map(tuple), st.booleans())
SHORT = st.builds(ValueList, st.lists(st.none() | SMALL, max_size=1).map(tuple))
KINDS: tuple[st.SearchStrategy[Any], ...] = (
    SMALL,
    BIG,
    FLOATS,
    SMALL | FLOATS,
    TEXTS,
    st.booleans(),
    NUMBERS | FLOATS | SMALL,
    ANY,
    LISTS | ANY,
    SHORT,
)


@st.composite
def rows(draw: st.DrawFn, count: int = 4) -> list[tuple[Any, ...]]:
    """Records of ``count`` slots; most columns have one kind."""
    size = draw(st.integers(0, 12))
    columns = []
    for _ in range(count):
        kind = draw(st.sampled_from(KINDS))
        with_nulls = kind if draw(st.booleans()) else st.none() | kind
        columns.append(draw(st.lists(with_nulls, min_size=size, max_size=size)))
    return list(zip(*columns, strict=True))
