"""JSON texts for laws: duplicate members at any depth, names with escapes, numbers of all spellings, odd strings."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ["a", "b", "id", "é", "x y", "😀"]
SPELLINGS = [
    *NAMES,
    "\\u0061",
    "\\u0062",
    "i\\u0064",
    "\\u00e9",
    "\\u00E9",
    "\\ud83d\\ude00",
    "\\uD83D\\uDE00",
    "x\\u0020y",
    "\\\\u0061",
    "A",
    "",
    "\\ud800",
    "q\\/",
    "\\u007f",
    "\\\\",
    'a\\"',
    ":a",
]
STRINGS = [
    "", "a", "b", "id", "0", "-0", 'x\\"a', '\\"a\\":', '\\"a', "\\u0061", "\\n", "\\/", "é", "\\u00e9", "\\ud800",
    "\\udc00x", "\\ud800\\u0041", "\\ud83d\\ude00", "\\ud800\\ud83d\\ude00", "{", "[[",
    "\\u0000", "\x7f", "\u2028", "x\\\\", ":", " :", '\\\\\\": 1', '{\\"a\\": 1}',
]  # fmt: skip
NUMBERS = [
    "0", "-0", "1", "-1", "10", "1.0", "1.50", "-0.0", "1e5", "1E+2", "0e0", "1e999", "-1e999", "1e-999", "0.1",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "9" * 25, "9" * 400, "9" * 5000, "5e-324", "2.5e-324",
    "123456789.123456789012345678901234567890",
]  # fmt: skip
SPACE = st.sampled_from(["", "", "", "", " ", "\n", "\t ", "\r\n"])

SCALARS = st.one_of(
    st.sampled_from(["null", "true", "false"]),
    st.sampled_from(NUMBERS),
    st.sampled_from(STRINGS).map(lambda s: f'"{s}"'),
)


def build_object_text(members: list[tuple[str, str, str]]) -> str:
    """Return an object of names, values and the white space around them."""
    return "{" + ",".join(f'{s}"{n}"{s}:{s}{v}{s}' for n, v, s in members) + "}"


NAME = st.one_of(st.sampled_from(NAMES[:3]), st.sampled_from(SPELLINGS))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(st.tuples(NAME, inner, SPACE), max_size=4).map(build_object_text),
        st.lists(inner, max_size=3).map(lambda items: "[" + " ,".join(items) + "]"),
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.tuples(NAME, VALUES, SPACE), max_size=5).map(build_object_text)
TEXTS = st.one_of(OBJECTS, OBJECTS, OBJECTS, VALUES).map(lambda text: text.encode())
