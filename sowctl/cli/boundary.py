"""Format errors for standard error. Only ``main.py`` calls this module; the error itself has the exit status.

Text: ``error[SOW-XXX-NNN]: place: message``, then the excerpt, the durable part, how to resume, and a hint. With
``--error-format json`` the same as one object in one line. Every value is escaped by ``escape_line``.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from sowctl.cli.streams import Streams
from sowctl.errors import SowError, StorageError, UsageError
from sowctl.output.display import escape_line, escape_lines

_OSERROR_TEXTS = {
    errno.ENOSPC: ("no space left on the device", "free space on the device; messages reported as durable are safe"),
    errno.EDQUOT: ("the disk quota is exceeded", "free space on the device; messages reported as durable are safe"),
    errno.EFBIG: ("file size limit reached", "increase the limit on file sizes (ulimit -f)"),
    errno.EACCES: ("permission denied", "check the owner and permissions: ls -l"),
    errno.EPERM: ("operation not permitted", "check the owner and permissions: ls -l"),
    errno.EROFS: ("the file system is read-only", "choose a path on another file system, or mount it read-write"),
    errno.ENOENT: ("no such file or directory", None),
    errno.EEXIST: ("a file with this name exists", "name a directory, or a path that does not exist"),
    errno.EISDIR: ("it is a directory", "name a file"),
    errno.ENOTDIR: ("a part of the path is not a directory", None),
    errno.EMFILE: ("too many open files", "increase the limit: ulimit -n"),
    errno.EIO: ("the device reported an input/output error", "check the system log first"),
}


_URL_PATTERN = re.compile(r"[a-z][a-z0-9+.-]+:/")


def convert_oserror(error: OSError) -> StorageError:
    """An error of the operating system in plain words: code ``SOW-CLI-060``, exit status 6."""
    text, hint = _OSERROR_TEXTS.get(error.errno or 0, (error.strerror or str(error) or type(error).__name__, None))
    name = error.filename
    if name is None and error.errno == errno.ENOENT and (gone := _find_removed_directory()) is not None:
        name, text, hint = gone, "the working directory was removed", "change to an existing directory: cd"
    place = os.fsdecode(name) if isinstance(name, str | bytes) else None
    if place is not None and error.errno == errno.ENOENT and _URL_PATTERN.match(place):
        # A Path has one slash where the URL had two.
        hint = "use a local path; sowctl pipeline export TOPIC --output URL and sowctl pipeline load take a URL"
    return StorageError("SOW-CLI-060", text, place=place, hint=hint, errno=errno.errorcode.get(error.errno or 0))


def add_hint(error: SowError, command: str) -> SowError:
    """The error, with a hint for the command if a view, conflated topic or queue was given instead of a topic, if an
    SQLite table does not support some columns, or if the input file is missing."""
    if error.code == "SOW-EXC-025":
        error.hint = _SQLITE_HINTS.get(command, error.hint)
    if error.code == "SOW-CLI-062" and error.hint is None:
        error.hint = "give the path of a file, or - for standard input"
    words = _KIND_HINTS.get(command, {})
    hint = words.get(error.facts.get("kind", "")) or words.get("") if error.code == "SOW-ENG-031" else None
    if hint is not None:
        error.hint = hint.format(name=error.facts["topic"])
    return error


_SQLITE_HINTS = {
    "export": "choose members with --select, or use .parquet, .arrow or .ndjson",
    "sql": "rename columns in the statement: SELECT a AS b, or use .parquet, .arrow or .ndjson",
}
"""How to choose the columns in commands without --columns, or whose statement names them."""


_KIND_HINTS: dict[str, dict[str, str]] = {
    "check": {
        "View": "sowctl view check {name} compares it with its topics",
        "ConflatedTopic": "sowctl query {name} --fresh recomputes it from the journal; check its topic",
        "": "sowctl queue info {name} shows its state; check its topics",
    },
    "replay": {
        "View": "it is derived from its topics: replay these; sowctl view refresh {name} --fresh rebuilds its cache",
        "ConflatedTopic": "it is derived from its topic: replay that; sowctl query {name} --fresh recomputes it",
        "": "it is read from the journal; sowctl queue info {name} shows its state",
    },
    "store reindex": {
        "View": "sowctl view refresh {name} --fresh rebuilds its cache; queries build its indexes",
        "ConflatedTopic": "sowctl query {name} --fresh recomputes it; queries build its indexes",
    },
    "expire": {
        "View": "its rows follow the records of its topics: expire these",
        "ConflatedTopic": "expired records of its topic are removed at the end of an interval: sowctl conflate {name}",
        "": "sowctl queue expire {name} removes its expired messages",
    },
    "key": {
        "View": "its keys are computed from its Grouping; sowctl query {name} --meta prints them",
        "ConflatedTopic": "its records have the keys of its topic: use that topic",
    },
}
"""Alternatives if an entry is not a topic, by command and kind of entry; the kind ``""`` covers all others."""


def _find_removed_directory() -> str | None:
    """The former name of the working directory if it was removed; None if it exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        try:
            # The kernel appends this suffix to the name of a removed directory.
            return str(Path("/proc/self/cwd").readlink()).removesuffix(" (deleted)")
        except OSError:
            return "."
    return None


def find_encoding_error(argv: Sequence[str]) -> UsageError | None:
    """Return error ``SOW-CLI-078`` for the first argument that is not UTF-8; None if all are."""
    for word in argv:
        # Python represents the bytes of an argument that are not UTF-8 by these surrogates.
        if any("\udc80" <= letter <= "\udcff" for letter in word):
            return UsageError("SOW-CLI-078", f"the argument {word!r} is not UTF-8", hint="encode it as UTF-8")
    return None


def report_error(error: SowError, streams: Streams, error_format: str) -> None:
    """Write ``error`` to standard error."""
    if error_format == "json":
        streams.write_stderr_json(build_error_row(error))
        return
    place = f"{escape_line(error.place)}: " if error.place else ""
    lines = streams.fold_labelled("error", f"error[{error.code}]", f"{place}{escape_line(error.message)}")
    if error.excerpt:
        lines += ["  " + line for line in escape_lines(error.excerpt).split("\n")]
    lines += [f"  {escape_line(str(error.facts[name]))}" for name in ("durable", "resume") if error.facts.get(name)]
    if error.hint:
        lines += streams.fold_labelled("hint", "hint", escape_line(error.hint), "  ")
    streams.write_stderr_painted("\n".join(lines))


def build_error_row(error: SowError) -> dict[str, object]:
    """The error as a JSON object."""
    row: dict[str, object] = {"level": "error", "code": error.code, "exit": error.exit_status, "message": error.message}
    for name in ("place", "hint", "excerpt"):
        if (value := getattr(error, name)) is not None:
            row[name] = value
    for name, value in error.facts.items():
        if value is not None:
            # A fact must not replace a member that every error has.
            row.setdefault(name, value)
    return row
