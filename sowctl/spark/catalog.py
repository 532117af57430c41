"""Tables of Spark's catalog: their options are stored in the schema (sowctl-spark(7), TABLES AND VIEWS).

Spark 4.3 passes a table's options to a Python data source only when the table is created. Later reads and writes
receive only the schema, with the comments of its columns. So a table has one extra column, whose comment contains the
options of its store or journal. Called only by the data sources.
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
"""Options that are paths. They are stored as absolute paths, because later queries run in other working directories."""
LOCATION_OPTIONS = ("path", "paths", "config", "topic")
"""Options that select what is read or written; with one of them, the options of a table are ignored."""
_OPTION_PREFIX = "option."
_TABLE_COMMENT_PATTERN = re.compile(r"table of (sow|sow-journal): (\S+)")
_MARK_COLUMN_PATTERN = re.compile(r"_table_[0-9a-f]{8}")


def is_new_table(given: Mapping[str, str]) -> bool:
    """Return whether these options are from ``CREATE TABLE``, the only statement that adds the provider."""
    return any(name.lower() == "provider" for name in given)


def select_table_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the source's options of a new table, without its properties, owner and comment, and with absolute paths.

    Spark repeats each option with a prefix, except ``path``, which it treats as the location of the table.
    """
    found = {
        name[len(_OPTION_PREFIX) :]: text for name, text in given.items() if name.lower().startswith(_OPTION_PREFIX)
    }
    found |= {name: text for name, text in given.items() if name.lower() == "path"}
    return {name: _resolve_path(text) if _is_path(name, text) else text for name, text in found.items()}


def _is_path(name: str, text: str) -> bool:
    return name.lower() in PATH_OPTIONS and not (name.lower() == "pin" and text.lower() == AUTOMATIC_PIN)


def is_mark_column(name: str) -> bool:
    """Return whether a column is the extra column of a table, which is always NULL and has the options as comment."""
    return _MARK_COLUMN_PATTERN.fullmatch(name) is not None


def format_mark_column(source: str, options: Mapping[str, str]) -> str:
    """Return the DDL of the extra column of a table with these options.

    Its name is derived from the options. If all columns of inserted rows had the names and types of the target's, Spark
    would pass the rows on with the comments of their source table; a distinct name per table prevents that.
    """
    # The comment is quoted in DDL, and percent-encoding leaves nothing that Spark's parser needs escaped.
    text = f"table of {source}: {urlencode(options, quote_via=quote, safe='/:,')}"
    return f"`{_format_mark_name(text)}` STRING COMMENT '{text}'"


def read_schema_options(source: str, schema: StructType) -> dict[str, str]:
    """Return the options of the table that a schema belongs to, or {} if it is not a table of the catalog.

    Raises UsageError ``SOW-SPK-111`` if the comment was changed or belongs to another table or source.
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
    """Return the options of a read or write, including those stored in its table, and whether it uses a table.

    Options that select a store or topic take precedence: the schema may contain the extra column only because the rows
    were read from a table. Raises UsageError ``SOW-SPK-112`` if a table is used with further options: Spark 4.3 applies
    the options of one scan to other scans of the same table in a query and loses theirs
    (``FROM t WITH (...) JOIN t``).
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
    # URLs are absolute already.
    return text if not text or ":/" in text else str(Path(text).absolute())
