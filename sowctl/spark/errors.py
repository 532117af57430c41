"""Our errors on their way through Spark: out of a task, through the virtual machine, and back as what they were.

Spark carries nothing of a task's exception but its text. :func:`carried` puts the whole error into that text, and
:func:`translated` on the driver finds it there, so that a command ends with the same code, words and exit status as
the engine's own. Used by the data sources, the jobs and their commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sowctl.errors import ERROR_CLASSES, SowError

_MARK = "sowctl-error:"
_KINDS: tuple[type[SowError], ...] = (SowError, *ERROR_CLASSES)
_CLASSES = {kind.__name__: kind for kind in _KINDS}


class CarriedError(Exception):
    """An error of ours inside a task; its text holds all of it."""


@contextmanager
def carried() -> Iterator[None]:
    """Around what a task or a data source does: an error of ours leaves as :class:`CarriedError`."""
    try:
        yield
    except SowError as error:
        raise CarriedError(packed(error)) from error


def packed(error: SowError) -> str:
    """The words of the error for people, and all of it for :func:`unpacked`."""
    facts = {
        "class": next(kind.__name__ for kind in type(error).__mro__ if kind in _KINDS),
        "code": error.code,
        "message": error.message,
        "place": error.place,
        "hint": error.hint,
        "excerpt": error.excerpt,
        "facts": {name: value for name, value in error.facts.items() if isinstance(value, str | int | float)},
    }
    return f"{error.code}: {error} {_MARK}{json.dumps(facts)}"


def unpacked(text: str) -> SowError | None:
    """The first error of ours in a text of Spark's, or None."""
    for found in re.finditer(re.escape(_MARK), text):
        try:
            facts: dict[str, Any] = json.JSONDecoder().raw_decode(text, found.end())[0]
            kind = _CLASSES[facts["class"]]
            return kind(
                facts["code"],
                facts["message"],
                place=facts["place"],
                hint=facts["hint"],
                excerpt=facts["excerpt"],
                **facts["facts"],
            )
        except (ValueError, KeyError, TypeError):
            continue
    return None


@contextmanager
def translated() -> Iterator[None]:
    """Around a Spark action on the driver: an error that a task carried is raised as what it was.

    Everything else that Spark raises passes unchanged.
    """
    try:
        yield
    except SowError:
        raise
    except Exception as error:
        found = unpacked(str(error)) or unpacked(repr(error))
        if found is None:
            raise
        raise found from error
