"""Pass errors of this program through Spark: from a task through the virtual machine to the driver.

Spark transfers only the text of a task's exception. :func:`carry_errors` encodes the error as readable lines, and
:func:`translate_errors` decodes them on the driver, so that a command ends with the same code, message and exit status
as commands without Spark. Used by the data sources, the jobs and their commands; sowctl-spark(7), ERRORS.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sowctl.errors import ERROR_CLASSES, SowError

_KINDS: tuple[type[SowError], ...] = (SowError, *ERROR_CLASSES)
# Exit statuses of the classes are distinct, so the status in the text identifies the class.
_CLASSES = {kind.exit_status: kind for kind in _KINDS}
_PARTS = ("place", "hint", "excerpt")
# The status is the last part and mandatory, so a text that Spark truncated does not match as half an error.
_ERROR_PATTERN = re.compile(
    r"(?P<code>SOW-[A-Z]+-\d+): (?P<message>.*)\n"
    + "".join(rf"(?:  {name}: (?P<{name}>.*)\n)?" for name in _PARTS)
    + r"(?:  facts: (?P<facts>.*)\n)?  status: (?P<status>\d+)\b"
)


class CarriedError(Exception):
    """An error of this program raised in a task, encoded as text."""


@contextmanager
def carry_errors() -> Iterator[None]:
    """Raise errors of this program within the block, in a task or data source, as :class:`CarriedError`."""
    try:
        yield
    except SowError as error:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            # The worker process ends with the error, so Spark's switch hides only this traceback, which would not help
            # the user.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise CarriedError(encode_error(error)) from None


def encode_error(error: SowError) -> str:
    """Encode an error as lines: code and message, then place, hint, excerpt and facts if set, then the status."""
    lines = [f"{error.code}: {_escape_line(error.message)}"]
    for name in _PARTS:
        if (text := getattr(error, name)) is not None:
            lines.append(f"  {name}: {_escape_line(text)}")
    # Facts whose type JSON does not preserve are dropped; the message does not depend on them.
    facts = {name: value for name, value in error.facts.items() if isinstance(value, str | int | float)}
    if facts:
        lines.append(f"  facts: {json.dumps(facts)}")
    return "\n".join([*lines, f"  status: {error.exit_status}"])


def decode_error(text: str) -> SowError | None:
    """Return the first error of this program that is encoded in a text from Spark, or None."""
    # Spark repeats the text in the traces of both sides; the first copy that decodes is the error.
    for found in _ERROR_PATTERN.finditer(text):
        try:
            kind = _CLASSES[int(found["status"])]
            parts = {name: None if found[name] is None else _unescape_line(found[name]) for name in _PARTS}
            facts: dict[str, Any] = json.loads(found["facts"] or "{}")
            return kind(found["code"], _unescape_line(found["message"]), **parts, **facts)
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _escape_line(text: str) -> str:
    """Return a text as one line with JSON's escapes; quotation marks are not escaped, because the line is unquoted."""
    line = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return line.encode("utf-8", "backslashreplace").decode()


def _unescape_line(line: str) -> str:
    text: str = json.loads('"' + line.replace('"', '\\"') + '"')
    return text


_ALTERNATIVES = (
    (
        re.compile(r"does not support (?:deletes|DELETE)|DELETE TABLE|delete by expression", re.IGNORECASE),
        "to delete records, write rows with the option operation=delete; to delete by filter, use sowctl delete",
    ),
    (
        re.compile(r"does not support (?:UPDATE|MERGE INTO) TABLE"),
        "to merge fields into records, write rows with the option operation=delta",
    ),
    (
        re.compile(r"PARSE_SYNTAX_ERROR.*`payload` STRUCT<", re.DOTALL),
        "option payloadSchema requires fields and types, for example id BIGINT, who STRUCT<name: STRING>",
    ),
    (
        re.compile(r"No module named 'sowctl'"),
        "the Python processes of Spark run the python3 on the PATH: activate the environment "
        "that has sowctl, or set PYSPARK_PYTHON to its python, before starting the session or "
        "the Spark Connect server",
    ),
    (
        re.compile(r"provided partitioning or clustering columns do not match"),
        "a topic has no partitions: remove partitionBy; pipeline export --partition-by creates directories by field",
    ),
    (
        re.compile(r"DATA_SOURCE_NOT_FOUND.*\bsow\b", re.DOTALL),
        "call sowctl.spark.register(spark) once, and in each thread that writes sowctl.spark.activate_session(spark)",
    ),
    (re.compile(r"does not support truncates"), "to delete all records, use INSERT OVERWRITE with no rows"),
    (
        re.compile(r"UNSUPPORTED_FEATURE\.TIME_TRAVEL"),
        "give the time in option at: CREATE TEMPORARY VIEW name USING sow OPTIONS (..., at '2026-01-01T00:00:00Z')",
    ),
)
"""Operations that Spark rejects, mostly for tables of Python data sources, and the hint for each."""


def find_alternative(text: str) -> str | None:
    """Return the hint for an operation that Spark rejected with this text, or None."""
    return next((way for refused, way in _ALTERNATIVES if refused.search(text)), None)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Decode errors of Spark actions within the block, on the driver: an error of a task is raised with its own class.

    Other errors of Spark pass unchanged; a hint is added as a note if an alternative is known.
    """
    try:
        yield
    # Raised on the driver, so it needs no decoding.
    except SowError:
        raise
    except Exception as error:
        found = decode_error(str(error))
        # An error of Spark itself, which translate_spark_errors() rewords for commands.
        if found is None:
            if (way := find_alternative(str(error))) is not None:
                error.add_note(f"hint: {way}")
            raise
        raise found from None


translated = translate_errors
"""The name of :func:`translate_errors` that sowctl-spark(7) documents."""
