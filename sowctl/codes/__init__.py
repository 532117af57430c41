"""Meanings of the error codes: the only table, used by ``sowctl explain`` and sowctl-errors(7).

A code represents one reason and never changes its meaning. Its text is in the module of its area, written like the
pages of lint rules: exit status and title in the first line, then the cause, the remedy, and the manual page if it is
not that of the area. Lint rules have pages of their own (:mod:`sowctl.config.rules.pages`), and so no text here. No
code that reads or writes data imports this package; tests compare it with the codes that the source raises.

Each module has a dictionary ``CODES``, by the areas of :data:`ERROR_AREAS`:

* ``backup``: backups and restoring.
* ``bookmarks``: bookmark stores.
* ``cli``: the command line and output formats.
* ``configuration``: commands on configurations.
* ``engine``: instances, topics, findings of ``check``.
* ``exchange``: formats with columns, ``export``, ``publish --from``, ``sql``.
* ``expressions``: the expression language.
* ``subscriptions``: subscriptions.
* ``journal``: the transaction log.
* ``inspect``: schemas, statistics, the browser.
* ``messages``: message types, framings, keys, bookmarks, paths, times.
* ``publish``: publishing and deleting.
* ``queries``: queries, comparing, replay, snapshots.
* ``queues``: queues.
* ``remote``: files at URLs.
* ``spark``: the pipeline on Spark and the data sources.
* ``store``: stores.
* ``maintenance``: maintenance of files.
* ``views``: views and conflated topics.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

from msgspec import Struct

_CODE_TEXT_PATTERN = re.compile(
    r"(?P<status>\d+) (?P<title>\S.*)\n\n\s+Why: (?P<why>.+?)\n\s+Do: (?P<action>.+?)(?:\n\s+See: (?P<page>.+?))?\s*",
    re.DOTALL,
)


class ErrorArea(Struct, frozen=True):
    """The codes with one prefix: their subject, the module of their texts, the manual page with more."""

    title: str
    module: str
    page: str


class ErrorCode(Struct, frozen=True):
    """One code. ``status``: the exit status, 0 for a finding of ``check`` that does not change the status."""

    code: str
    status: int
    title: str
    why: str
    action: str
    page: str


ERROR_AREAS: dict[str, ErrorArea] = {
    "SOW-BAK": ErrorArea("Backups", "backup", "sow-backup(5)"),
    "SOW-BKM": ErrorArea("Bookmark stores", "bookmarks", "sowctl-behaviour(7)"),
    "SOW-CFG": ErrorArea("Configuration", "configuration", "sow-config(5)"),
    "SOW-CHK": ErrorArea("Stores and their configuration", "engine", "sowctl-check(1)"),
    "SOW-CLI": ErrorArea("Command line", "cli", "sowctl(1)"),
    "SOW-DEL": ErrorArea("Deletes", "publish", "sowctl-delete(1)"),
    "SOW-DIF": ErrorArea("Comparing", "queries", "sowctl-diff(1)"),
    "SOW-ENG": ErrorArea("Instances and topics", "engine", "sowctl-behaviour(7)"),
    "SOW-EXC": ErrorArea("Exchange", "exchange", "sowctl-export(1)"),
    "SOW-EXP": ErrorArea("Expressions", "expressions", "sowctl-expressions(7)"),
    "SOW-FOL": ErrorArea("Subscriptions", "subscriptions", "sow-events(5)"),
    "SOW-IDN": ErrorArea("Keys and bookmarks", "messages", "sowctl-behaviour(7)"),
    "SOW-INP": ErrorArea("Framing of input", "messages", "sowctl-publish(1)"),
    "SOW-JRN": ErrorArea("Transaction log", "journal", "sow-journal(5)"),
    "SOW-MSG": ErrorArea("Messages", "messages", "sowctl-messages(7)"),
    "SOW-OUT": ErrorArea("Output formats", "cli", "sowctl-query(1)"),
    "SOW-PUB": ErrorArea("Publishing", "publish", "sowctl-publish(1)"),
    "SOW-QRY": ErrorArea("Queries", "queries", "sowctl-query(1)"),
    "SOW-QUE": ErrorArea("Queues", "queues", "sowctl-behaviour(7)"),
    "SOW-RMT": ErrorArea("Files at URLs", "remote", "sow-archive(5)"),
    "SOW-RPL": ErrorArea("Rebuilding and verifying", "queries", "sowctl-replay(1)"),
    "SOW-SNP": ErrorArea("Snapshots", "queries", "sowctl-snapshot(1)"),
    "SOW-SPK": ErrorArea("Spark", "spark", "sowctl-spark(7)"),
    "SOW-STA": ErrorArea("Schemas and statistics", "inspect", "sowctl-stats(1)"),
    "SOW-STO": ErrorArea("Stores", "store", "sow-store(5)"),
    "SOW-TUI": ErrorArea("The terminal browser", "inspect", "sowctl-browse(1)"),
    "SOW-UPK": ErrorArea("Maintenance of files", "maintenance", "sow-journal(5)"),
    "SOW-VAL": ErrorArea("Paths and times", "messages", "sowctl-expressions(7)"),
    "SOW-VIW": ErrorArea("Views", "views", "sowctl-behaviour(7)"),
}
"""The areas by the prefix of their codes."""


@cache
def load_codes() -> dict[str, ErrorCode]:
    """All codes in ascending order. Raises LookupError for a text that is not in the form of this package."""
    modules = dict.fromkeys(area.module for area in ERROR_AREAS.values())
    texts: dict[str, str] = {}
    for name in modules:
        texts |= import_module(f"{__name__}.{name}").CODES
    return {code: parse_code(code, text) for code, text in sorted(texts.items())}


def parse_code(code: str, text: str) -> ErrorCode:
    """Parse a code and its text. Raises LookupError if a part is missing or the area is unknown."""
    parts = _CODE_TEXT_PATTERN.fullmatch(text)
    if parts is None:
        raise LookupError(f"the text of {code} does not have status, title, Why and Do")
    why, action, page = (" ".join((parts[name] or "").split()) for name in ("why", "action", "page"))
    return ErrorCode(code, int(parts["status"]), parts["title"], why, action, page or ERROR_AREAS[code[:7]].page)
