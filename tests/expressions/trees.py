"""Random expression trees for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from sowctl.expressions.syntax import nodes as n
from sowctl.values.paths import Path, Step

NAMES = st.from_regex(r"@?[A-Za-z0-9_é][A-Za-z0-9_.:é-]{0,4}", fullmatch=True)
ODD = st.text(st.characters(exclude_characters="]/", exclude_categories=["Cs"]), min_size=1, max_size=4)
STEPS = st.builds(Step, NAMES, st.none() | st.integers(0, 5))
PLAIN_PATHS = st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: Path(tuple(steps)))
ODD_PATHS = st.lists(ODD.map(Step), min_size=1, max_size=2).map(lambda steps: Path(tuple(steps)))
PATHS = PLAIN_PATHS | ODD_PATHS
QUALIFIERS = st.lists(st.from_regex(r"[a-z ./]{1,5}", fullmatch=True), max_size=2).map(tuple)
FIELDS = st.builds(n.Field, PATHS, QUALIFIERS, st.sampled_from([None, "CURRENT", "PREVIOUS"]), st.just(0))
NUMBERS = st.integers(0, 2**64 - 1) | st.floats(min_value=0) | st.just(float("nan"))
LITERALS = st.builds(n.Literal, NUMBERS | st.booleans() | st.none() | st.binary(max_size=6))
PATTERN_TEXTS = st.lists(st.sampled_from(["a", "é", "\\\\", "\\d", '"', "'", "\n", ".", "\\x41"]), max_size=5).map(
    "".join
)
PATTERNS = st.builds(n.Pattern, PATTERN_TEXTS.map(str.encode), st.just(False)) | st.builds(
    n.Pattern, st.text("a\\é'\n", max_size=4).map(str.encode), st.just(True)
)
CALLS = ("UPPER", "CONCAT", "IF", "NO_SUCH", "SUM")


def _chain(kind: str, below: st.SearchStrategy[n.Node]) -> st.SearchStrategy[n.Node]:
    operators = st.sampled_from(kind)
    return st.lists(st.tuples(operators, below), min_size=1, max_size=3).flatmap(
        lambda rest: below.map(
            lambda first: n.Arithmetic(tuple(sign for sign, _ in rest), (first, *(operand for _, operand in rest)))
        )
    )


def _above(below: st.SearchStrategy[n.Node]) -> st.SearchStrategy[n.Node]:
    several = st.lists(below, min_size=1, max_size=3).map(tuple)
    two = st.lists(below, min_size=2, max_size=4).map(tuple)
    flag = st.booleans()
    return st.one_of(
        st.builds(n.Unary, st.sampled_from("+-"), below),
        _chain("+-", below),
        _chain("*/%", below),
        st.builds(n.Logic, st.sampled_from(["AND", "OR"]), two),
        st.builds(n.Not, below),
        st.builds(n.Compare, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), below, below),
        st.builds(n.Is, st.sampled_from(["NULL", "NAN"]), below, flag),
        st.builds(n.Like, below, PATTERNS, flag),
        st.builds(n.In, below, several, flag),
        st.builds(n.Affix, st.sampled_from(["BEGINS", "ENDS"]), below, several, flag),
        st.builds(n.Between, below, below, below, flag),
        st.builds(n.Call, st.sampled_from(CALLS), several),
    )


TREES: st.SearchStrategy[n.Node] = st.recursive(LITERALS | FIELDS, _above, max_leaves=12)
