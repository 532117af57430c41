"""Translation of a statement's WHERE to a filter: records that do not match it need not be decoded.

The filter may accept more rows than WHERE, because DuckDB evaluates WHERE again on every row. It must never reject a
row that WHERE accepts. So only conditions with a certain translation for any record are translated: a column compared
with constants of its own type, joined by AND and OR. Other parts of an AND are dropped; an OR with such a part is
dropped as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    import pyarrow

Node = Mapping[str, Any]
_OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_MIRRORED_OPERATORS = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORD_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_PATTERN = re.compile(r"[ !#$&(-\[\]-~]+")
"""Texts that a filter can contain unchanged: ASCII without quotes, backslashes and percent signs."""
_PREFIX_PATTERN = re.compile(r"([^%_]+)%")
_COMPARE_TOLERANCE = Decimal("1e-9")
"""Relative tolerance in comparisons of numbers with fractions: DuckDB rounds some constants differently."""
_BOTH_SIDES, _LEFT_SIDE = ("INNER",), ("LEFT", "SEMI", "ANTI")
_JOIN_REF_KINDS = ("REGULAR", "NATURAL", "CROSS")


class Occurrence(Struct, frozen=True):
    """One place at which a statement reads a table: its WHERE, and the names of the table's columns there.

    ``qualifier``: the name before the point, in lower case; ``alone``: unqualified names are its columns, too.
    """

    where: Node
    qualifier: str
    alone: bool


def find_occurrences(select: Node) -> Iterator[tuple[Node, Occurrence]]:
    """Yield the tables of a SELECT whose rows its WHERE can drop without another effect."""
    where, source = select.get("where_clause"), select.get("from_table")
    # A sample is taken of all rows, so none may be missing.
    if where is None or source is None or select.get("sample") is not None:
        return
    for table in _iterate_filtered(source):
        renamed = table.get("column_name_alias") or table.get("at_clause") is not None
        if not renamed and table.get("sample") is None:
            name = table.get("alias") or table["table_name"]
            yield table, Occurrence(where, name.lower(), table is source)


def _iterate_filtered(source: Node) -> Iterator[Node]:
    """Yield the tables below a FROM whose rows do not affect others: not those that an outer join fills with NULL."""
    if source.get("type") == "BASE_TABLE":
        yield source
    # A positional join counts rows, and an ASOF join uses the nearest one.
    elif source.get("type") == "JOIN" and source.get("ref_type") in _JOIN_REF_KINDS and source.get("sample") is None:
        if source.get("join_type") in (*_BOTH_SIDES, *_LEFT_SIDE):
            yield from _iterate_filtered(source["left"])
        if source.get("join_type") in _BOTH_SIDES:
            yield from _iterate_filtered(source["right"])


def build_filter(
    occurrences: Sequence[Occurrence | None], fields: pyarrow.StructType, shadowed: frozenset[str], *, binary: bool
) -> str | None:
    """Return the filter for a table with these columns that is read at these places; None if one of them needs all
    records.

    ``shadowed``: names in lower case that a statement defines itself, which may hide columns. ``binary``: messages may
    have bytes, whose columns have the Base64 form of non-text values.
    """
    names: dict[str, list[pyarrow.Field]] = {}
    for field in fields:
        names.setdefault(field.name.lower(), []).append(field)
    # Names that differ only in case are the same name in DuckDB.
    columns = {name: found[0] for name, found in names.items() if len(found) == 1 and name not in shadowed}
    if binary:
        columns = {name: field for name, field in columns.items() if not _is_text(field.type)}
    texts = []
    for one in occurrences:
        text = None if one is None else _Translation(one, columns).translate(one.where)
        if text is None:
            return None
        texts.append(text)
    return _join_conditions(" OR ", dict.fromkeys(texts))


class _Translation:
    def __init__(self, occurrence: Occurrence, columns: Mapping[str, pyarrow.Field]) -> None:
        self._occurrence = occurrence
        self._columns = columns

    def translate(self, node: Node) -> str | None:
        """Return the condition as a filter, or one that accepts more; None if nothing is certain."""
        kind = node.get("type")
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            found = [self.translate(child) for child in node["children"]]
            known = [text for text in found if text is not None]
            if kind == "CONJUNCTION_AND":
                return _join_conditions(" AND ", known)
            return _join_conditions(" OR ", known) if len(known) == len(found) else None
        if kind in _OPERATORS:
            left, right, operator = node["left"], node["right"], _OPERATORS[kind]
            if "column_names" in right:
                left, right, operator = right, left, _MIRRORED_OPERATORS[operator]
            return self._translate_comparison(left, operator, right)
        if kind == "COMPARE_BETWEEN":
            bounds = (("lower", ">="), ("upper", "<="))
            parts = [self._translate_comparison(node["input"], operator, node[side]) for side, operator in bounds]
            return _join_conditions(" AND ", [part for part in parts if part is not None])
        if kind == "COMPARE_IN":
            first, *rest = node["children"]
            found = [self._translate_comparison(first, "=", one) for one in rest]
            return None if None in found else _join_conditions(" OR ", [text for text in found if text is not None])
        if kind == "FUNCTION" and node.get("function_name") == "~~":
            return self._translate_like(*(argument["expression"] for argument in node["arguments"]))
        return None

    def _translate_comparison(self, column: Node, operator: str, constant: Node) -> str | None:
        import pyarrow.types as t

        field, literal = self._field(column), constant.get("literal")
        if field is None or literal is None or constant.get("type") != "VALUE_CONSTANT":
            return None
        kind, text = literal["kind"], literal["text"]
        if t.is_string(field.type):
            # The order of texts is not used: only equality is certainly the same in both.
            return f"/{field.name} = '{text}'" if kind == "STRING" and operator == "=" and _is_own(text) else None
        if kind not in ("INTEGER", "NUMERIC"):
            return None
        number = Decimal(text)
        # Beyond the exact range of doubles, numbers that differ for one may be equal for the other.
        if abs(number) >= MAX_EXACT_INTEGER:
            return None
        if t.is_int64(field.type) and kind == "INTEGER":
            return f"/{field.name} {operator} {text}"
        if t.is_int64(field.type) or t.is_floating(field.type) or t.is_decimal(field.type):
            low, high = number - _COMPARE_TOLERANCE * (abs(number) + 1), number + _COMPARE_TOLERANCE * (abs(number) + 1)
            bounds = {"<": "<= {1:f}", ">": ">= {0:f}"}
            if operator[0] == ">" and t.is_floating(field.type):
                # In DuckDB, NaN is the greatest number.
                return f"(/{field.name} >= {low:f}) OR (/{field.name} IS NAN)"
            if operator == "=":
                return f"(/{field.name} >= {low:f}) AND (/{field.name} <= {high:f})"
            return f"/{field.name} {bounds[operator[0]].format(low, high)}"
        return None

    def _translate_like(self, column: Node, pattern: Node) -> str | None:
        import pyarrow.types as t

        field, literal = self._field(column), pattern.get("literal")
        if field is None or literal is None or literal["kind"] != "STRING" or not t.is_string(field.type):
            return None
        match = _PREFIX_PATTERN.fullmatch(literal["text"])
        # The text of a number, list or object starts like JSON; only a text can start with another prefix.
        if match is None or not match[1][0].isalpha() or not _PLAIN_PATTERN.fullmatch(match[1]):
            return None
        begin = match[1]
        if any(word.startswith(begin) for word in ("true", "false", "null")):
            return None
        return f"/{field.name} BEGINS WITH ('{begin}')"

    def _field(self, node: Node) -> pyarrow.Field | None:
        path = [part.lower() for part in node.get("column_names") or ()]
        if len(path) == 2 and path[0] == self._occurrence.qualifier:
            found = self._columns.get(path[1])
        elif len(path) == 1 and self._occurrence.alone:
            found = self._columns.get(path[0])
        else:
            return None
        return found if found is not None and _WORD_PATTERN.fullmatch(found.name) else None


def _is_text(kind: pyarrow.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(kind))


def _join_conditions(operator: str, texts: Collection[str]) -> str | None:
    """Join conditions to one; None without any."""
    if len(texts) < 2:
        return next(iter(texts), None)
    return operator.join(f"({text})" for text in texts)


def _is_own(text: str) -> bool:
    """Return whether a text can only be a message's text, and no number, boolean, list or object as JSON."""
    if not _PLAIN_PATTERN.fullmatch(text):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
