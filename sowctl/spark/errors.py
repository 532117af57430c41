"""Our errors on their way through Spark: out of a task, through the virtual machine, and back as what they were.

Spark carries nothing of a task's exception but its text. :func:`carry_errors` writes the error in lines that people
read and from which :func:`translate_errors` makes it again on the driver, so that a command ends with the same code,
words and exit status as the engine's own. Used by the data sources, the jobs and their commands; sowctl-spark(7),
ERRORS.
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
# Every class has an exit status of its own, so the status in the text is enough to find the class again.
_CLASSES = {kind.exit_status: kind for kind in _KINDS}
_PARTS = ("place", "hint", "excerpt")
# The status is the last part and always there: a text that Spark has cut short matches nothing, rather than half an
# error.
_ERROR_PATTERN = re.compile(
    r"(?P<code>SOW-[A-Z]+-\d+): (?P<message>.*)\n"
    + "".join(rf"(?:  {name}: (?P<{name}>.*)\n)?" for name in _PARTS)
    + r"(?:  facts: (?P<facts>.*)\n)?  status: (?P<status>\d+)\b"
)


class CarriedError(Exception):
    """An error of ours inside a task; its text holds all of it."""


@contextmanager
def carry_errors() -> Iterator[None]:
    """Around what a task or a data source does: an error of ours leaves as :class:`CarriedError`."""
    try:
        yield
    except SowError as error:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            # An error ends the worker process, so this switch of Spark's hides the trace of this one error and no
            # other: the lines say what happened, and where in this package they were written is of no use.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise CarriedError(encode_error(error)) from None


def encode_error(error: SowError) -> str:
    """The error in lines: code and message, then what there is of place, hint, excerpt and facts, then the status."""
    lines = [f"{error.code}: {_escape_line(error.message)}"]
    for name in _PARTS:
        if (text := getattr(error, name)) is not None:
            lines.append(f"  {name}: {_escape_line(text)}")
    # What JSON would not give back with its type stays behind; the words of the error do not depend on it.
    facts = {name: value for name, value in error.facts.items() if isinstance(value, str | int | float)}
    if facts:
        lines.append(f"  facts: {json.dumps(facts)}")
    return "\n".join([*lines, f"  status: {error.exit_status}"])


def decode_error(text: str) -> SowError | None:
    """The first error of ours in a text of Spark's, or None."""
    # Spark repeats the text in the traces of both sides, so the first copy that can be read is the error.
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
    """A text as one line of UTF-8, by JSON's escapes; quotation marks stay, because nothing encloses it."""
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
"""What Spark refuses, mostly to do with tables of Python data sources, and what does the same here."""


def find_alternative(text: str) -> str | None:
    """The other way to what Spark's text refuses, or None."""
    return next((way for refused, way in _ALTERNATIVES if refused.search(text)), None)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of a Spark action on the driver within the block: an error of a task is raised as what it was.

    Everything else that Spark raises passes unchanged, with a hint where there is another way.
    """
    try:
        yield
    # Raised on the driver itself: it is already what it was.
    except SowError:
        raise
    except Exception as error:
        found = decode_error(str(error))
        # An error of Spark's own, which translate_spark_errors() puts into words for commands.
        if found is None:
            if (way := find_alternative(str(error))) is not None:
                error.add_note(f"hint: {way}")
            raise
        raise found from None


translated = translate_errors
"""The name of :func:`translate_errors` that sowctl-spark(7) documents."""
