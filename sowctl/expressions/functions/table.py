"""The table of all functions: name, arguments, NULL rule, documentation, group.

Printed by ``sowctl functions`` and the source of ``sowctl-expressions(7)``. Counts, results and descriptions come from
the declarations that the compiler uses; this module adds only the spelling of arguments and of NULL rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.functions.groups import FUNCTION_GROUPS
from sowctl.expressions.functions.signature import UNLIMITED_ARGUMENTS, Function

NULL_STRICT_TEXT = "any NULL argument gives NULL"
NULL_ALLOWED_TEXT = "NULL has no special effect"
NO_ARGUMENTS_TEXT = "takes no arguments"
NOT_NESTED_TEXT = "allowed only in projections, and not nested"
NULL_SKIPPED_TEXT = "NULL inputs are skipped; NULL if there are no others"
_RESULT_WORDS = {"text": "String", "number": "number", "scalar": "value", "truth": "Boolean"}


class FunctionEntry(Struct, frozen=True):
    """One line of the table. ``most`` is None if there is no limit."""

    name: str
    arguments: str
    group: str
    least: int
    most: int | None
    result: str
    null: str
    doc: str
    notes: tuple[str, ...] = ()

    @property
    def call_text(self) -> str:
        """The syntax of the call: ``SUBSTR(s, start [, len])``."""
        return f"{self.name}({self.arguments})"

    def build_facts(self) -> dict[str, Any]:
        """The entry as plain values."""
        return {**asdict(self), "call": self.call_text, "notes": list(self.notes)}


_ARGUMENT_NAMES: dict[str, str] = {
    "INSTR": "s, t",
    "INSTR_I": "s, t",
    "STREQUAL_I": "s, t",
    "LENGTH": "s",
    "CONCAT": "v, ...",
    "SUBSTR": "s, start [, len]",
    "LEFT": "s, n",
    "RIGHT": "s, n",
    "TRIM": "s [, set]",
    "LTRIM": "s [, set]",
    "RTRIM": "s [, set]",
    "REVERSE": "s",
    "UPPER": "s",
    "LOWER": "s",
    "REPLACE": "s, t, r",
    "REGEXP_REPLACE": "s, pattern, r",
    "REGEXP_MATCH": "s, pattern",
    "ARRAY_COUNT": "x",
    "ARRAY_MIN": "x",
    "ARRAY_MAX": "x",
    "ARRAY_SUM": "x",
    "ARRAY_TO_STRING": "x, delim, null_text",
    "ROUND": "n [, places]",
    "POWER": "b, e",
    "GREATEST": "n, ...",
    "LEAST": "n, ...",
    "WIDTH_BUCKET": "n, min, max, count",
    "ATAN2": "y, x",
    "GEO_DISTANCE": "lat1, lon1, lat2, lon2",
    "STRFTIME": "fmt, t",
    "STRPTIME": "s, fmt",
    "CRC32": "s",
    "CRC64": "s",
    "MD5": "s",
    "COALESCE": "v, ...",
    "CHAR_VALUE": "n",
    "IF": "condition, a, b",
    "VALUE_LOOKUP": "name, v, ...",
}
_NULL_RULES: dict[str, str] = {
    "CONCAT": "a NULL argument adds nothing; NULL if all are NULL",
    "TRIM": "a NULL set removes nothing",
    "LTRIM": "a NULL set removes nothing",
    "RTRIM": "a NULL set removes nothing",
    "REPLACE": "a NULL t changes nothing; a NULL r deletes every t",
    "REGEXP_REPLACE": "a NULL r deletes every match",
    "REGEXP_MATCH": "NULL gives NULL, and so does an empty match",
    "ARRAY_COUNT": "NULL elements count; a NULL field gives 0",
    "ARRAY_MIN": "NULL elements are skipped; NULL if there are no others",
    "ARRAY_MAX": "NULL elements are skipped; NULL if there are no others",
    "ARRAY_SUM": "NULL elements are skipped; NULL if there are no others",
    "ARRAY_TO_STRING": "NULL elements become null_text; NULL if there are no elements",
    "GREATEST": "NULL, NaN and texts without a number are skipped; NaN if there are no others",
    "LEAST": "NULL, NaN and texts without a number are skipped; NaN if there are no others",
    "CRC32": "NULL counts as an empty text: 4294967295",
    "CRC64": "NULL counts as an empty text: 18446744073709551615",
    "COALESCE": "NULL if all arguments are; NaN is not NULL",
    "IF": "a NULL condition gives b",
}
GROUP_TITLES: dict[str, str] = {
    "choice": "Choice",
    "string": "Strings and patterns",
    "array": "Arrays",
    "numeric": "Numbers",
    "trigonometry": "Trigonometry and distances",
    "date": "Dates and times",
    "checksum": "Checksums",
    "typed": "Typed values",
    "message": "Message, client, instance, clock",
    "aggregate": "Aggregates",
}
"""Headings of the groups, in display order."""
ADDED_TITLES = {"module": "Functions of the configuration's modules"}


def _function_entries(group: str) -> list[FunctionEntry]:
    return build_entries(FUNCTION_GROUPS[group], group)


def build_entries(functions: Iterable[Function], group: str = "module") -> list[FunctionEntry]:
    """Entries for functions as declared; those that a configuration adds have their own group."""
    entries = []
    for function in functions:
        default = ", ".join(kind[0] for kind in function.parameters)
        notes = []
        if not function.deterministic:
            notes.append(
                "not deterministic: not allowed in views, queues, conflated topics, replication and aggregates"
            )
        if function.gets == "header":
            notes.append("NULL if the record has none")
        if function.lookup:
            notes.append("allowed only in preprocessing and enrichment")
        null = NULL_STRICT_TEXT if function.strict else NULL_ALLOWED_TEXT
        null = _NULL_RULES.get(function.name, null if function.parameters else NO_ARGUMENTS_TEXT)
        entries.append(
            FunctionEntry(
                function.name,
                _ARGUMENT_NAMES.get(function.name, default),
                group,
                function.least,
                None if function.most == UNLIMITED_ARGUMENTS else function.most,
                _RESULT_WORDS[function.result],
                null,
                function.doc,
                tuple(notes),
            )
        )
    return entries


def _build_table() -> tuple[FunctionEntry, ...]:
    branch = "value of a if the condition is TRUE, otherwise of b; only one of them is evaluated"
    entries = [FunctionEntry("IF", _ARGUMENT_NAMES["IF"], "choice", 3, 3, "value", _NULL_RULES["IF"], branch)]
    for group in FUNCTION_GROUPS:
        entries += _function_entries(group)
    for one in AGGREGATES.values():
        null = NULL_SKIPPED_TEXT if one.null is None else one.null
        counts = (one.least, one.most)
        entries.append(
            FunctionEntry(one.name, one.arguments, "aggregate", *counts, one.result, null, one.doc, (NOT_NESTED_TEXT,))
        )
    return tuple(entries)


FUNCTION_TABLE: tuple[FunctionEntry, ...] = _build_table()
"""Every function, by group and then as declared."""

assert {entry.name for entry in FUNCTION_TABLE} == {"IF", *FUNCTIONS, *AGGREGATES}


def format_entry_list(entries: Sequence[FunctionEntry]) -> list[str]:
    """Lines that list entries under the headings of their groups."""
    width = max(len(entry.call_text) for entry in entries)
    lines: list[str] = []
    for group, title in (GROUP_TITLES | ADDED_TITLES).items():
        own = [entry for entry in entries if entry.group == group]
        if own:
            lines += ([""] if lines else []) + [f"{title}:"]
            lines += [f"  {entry.call_text:{width}}  {entry.doc}" for entry in own]
    return lines


def format_entry(entry: FunctionEntry) -> list[str]:
    """Lines with all details of one entry."""
    count = f"{entry.least}" if entry.most == entry.least else f"{entry.least} to {entry.most}"
    if entry.most is None:
        count = f"{entry.least} or more"
    facts = {
        "": entry.doc,
        "group": (GROUP_TITLES | ADDED_TITLES)[entry.group],
        "arguments": count,
        "result": entry.result,
        "NULL": entry.null,
    }
    lines = [entry.call_text, *(f"  {name + ':':11}{text}" if name else f"  {text}" for name, text in facts.items())]
    return lines + [f"  {'note:':11}{note}" for note in entry.notes]
