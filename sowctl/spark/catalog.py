"""Tables of Spark's catalog: their options travel with the schema (sowctl-spark(7), TABLES AND VIEWS).

Spark 4.3 asks a Python data source for the columns of a new table with the table's options, and reads and writes the
table later without them: what comes back is the schema, comments of its columns included. So a table has one column
more, whose comment says which store or journal the table is. Called by the data sources alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from sowctl.errors import UsageError
from sowctl.spark.options import AUTOMATIC_PIN, SPARK_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PATH_OPTIONS = ("path", "config", "root", "archive", "pin", "staging", "rejects", "report")
"""Options that are paths: a table outlives the working directory in which it was made."""
LOCATION_OPTIONS = ("path", "paths", "config", "topic")
"""Options that say what is read or written; a question that gives one of them asks no table."""
_OPTION_PREFIX = "option."
_TABLE_COMMENT_PATTERN = re.compile(r"table of (sow|sow-journal): (\S+)")
_MARK_COLUMN_PATTERN = re.compile(r"_table_[0-9a-f]{8}")


def is_new_table(given: Mapping[str, str]) -> bool:
    """Return whether these options are those of ``CREATE TABLE``: only that adds the provider."""
    return any(name.lower() == "provider" for name in given)


def select_table_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options among what Spark hands over for a new table, beside properties, owner and comment; paths absolute.

    Spark repeats each option with a prefix, and gives the path, which it takes for the place of the table, only once.
    """
    found = {
        name[len(_OPTION_PREFIX) :]: text for name, text in given.items() if name.lower().startswith(_OPTION_PREFIX)
    }
    found |= {name: text for name, text in given.items() if name.lower() == "path"}
    return {name: _resolve_path(text) if _is_path(name, text) else text for name, text in found.items()}


def _is_path(name: str, text: str) -> bool:
    return name.lower() in PATH_OPTIONS and not (name.lower() == "pin" and text.lower() == AUTOMATIC_PIN)


def is_mark_column(name: str) -> bool:
    """Return whether a column is the extra one of a table: it holds nothing, its comment holds the options."""
    return _MARK_COLUMN_PATTERN.fullmatch(name) is not None


def format_mark_column(source: str, options: Mapping[str, str]) -> str:
    """The column of a table with these options, as DDL.

    Its name follows from them. Spark takes rows whose columns have the names and types of the target's as they are,
    with the comments of the table that they came from: only a name of its own keeps each table's comment to itself.
    """
    # A comment in DDL is within quotation marks: nothing of the options needs to be escaped for Spark's parser.
    text = f"table of {source}: {urlencode(options, quote_via=quote, safe='/:,')}"
    return f"`{_format_mark_name(text)}` STRING COMMENT '{text}'"


def read_schema_options(source: str, schema: StructType) -> dict[str, str]:
    """The options of the table that a schema belongs to; none where it is no table of this source.

    Raises UsageError ``SOW-SPK-111`` where the comment was changed, or is that of another table.
    """
    for field in schema.fields:
        if not is_mark_column(field.name):
            continue
        comment = (field.metadata or {}).get("comment", "")
        found = _TABLE_COMMENT_PATTERN.fullmatch(comment)
        if found is None or found[1] != source or _format_mark_name(comment) != field.name:
            raise UsageError(
                "SOW-SPK-111",
                f"the comment of column {field.name} no longer describes the table",
                hint="use DROP TABLE, then CREATE TABLE; to use rows of another table, list the columns",
            )
        return dict(parse_qsl(found[2], keep_blank_values=True))
    return {}


def merge_table_options(source: str, given: Mapping[str, str], schema: StructType) -> tuple[dict[str, str], bool]:
    """The options of one question, those of the table that it asks where it asks one; and whether it does.

    Where the question says which store or topic it means, it asks no table: its rows may have come from one. Raises
    UsageError ``SOW-SPK-112`` for other options of a question to a table: Spark 4.3 gives the options of one scan to
    other scans of the same table in a query, and loses those of the others (``FROM t WITH (...) JOIN t``).
    """
    if {name.lower() for name in given} & set(LOCATION_OPTIONS):
        return dict(given), False
    of_table = read_schema_options(source, schema)
    if not of_table:
        return dict(given), False
    own = {name.lower() for name in SPARK_OPTIONS}
    if more := sorted(name for name in given if name.lower() not in own):
        raise UsageError(
            "SOW-SPK-112",
            f"the options of a table are fixed when it is created, but the query gives {', '.join(more)}",
            hint=f"CREATE TEMPORARY VIEW name USING `{source}` OPTIONS (...) creates a view with its own options",
        )
    return of_table | dict(given), True


def _format_mark_name(text: str) -> str:
    return f"_table_{blake2b(text.encode(), digest_size=4).hexdigest()}"


def _resolve_path(text: str) -> str:
    # A URL says itself where it is.
    return text if not text or ":/" in text else str(Path(text).absolute())
