"""Rules of TransactionLog, Logging and Admin, and of files used for two purposes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.includes import REFERENCE_VERSION
from sowctl.config.model import format_file_name
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import is_transient
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child
from sowctl.findings import Level
from sowctl.remote.place import is_url, parse_local_path


def archive_is_journal(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: JournalArchiveDirectory is the JournalDirectory (an error), or is below it (a warning).

    Why: archiving frees the journal's device by moving files to another; within one directory tree it frees nothing.
    Example: ``./journals`` and ``./journals/old``.
    Instead: name a directory on another device.
    """
    archive, journal = node.find("JournalArchiveDirectory"), node.find_text("JournalDirectory")
    if archive is None or not archive.text or not journal or is_url(archive.text):
        return
    old, new = os.path.normpath(survey.root / journal), os.path.normpath(survey.root / parse_local_path(archive.text))
    hint = "name a directory on another device"
    if old == new:
        yield Problem(archive, "JournalArchiveDirectory equals JournalDirectory", hint, level=Level.ERROR)
    # A path below the journal is assumed to be on its device.
    elif new.startswith(old + os.sep):
        yield Problem(archive, "JournalArchiveDirectory shares a device with JournalDirectory", hint)


def log_without_file(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Logging target to a file without FileName.

    Why: there is no file to write the log to.
    Example: only ``<Protocol>file</Protocol>``.
    Instead: add FileName.
    """
    protocol = (node.find_text("Protocol") or "").lower()
    if protocol in ("file", "gzip") and node.find("FileName") is None and not has_misspelled_child(node, "FileName"):
        yield Problem(node, f"Logging Target protocol {protocol} requires FileName", "add <FileName>")


def not_a_websocket(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: SQLTransport names no Transport, or one whose protocol is not websocket.

    Why: the browser interface uses websocket.
    Example: ``<SQLTransport>any-tcp</SQLTransport>``.
    Instead: name a Transport whose Protocol is, or is defined as, websocket.
    """
    reference = node.find("SQLTransport")
    if reference is None or not reference.text:
        return
    websockets = {"websocket"} | {
        protocol.find_text("Name") or ""
        for protocol in survey.find_nodes("Protocol")
        if protocol.find_text("Module") == "websocket"
    }
    found = [other for other in survey.find_nodes("Transport") if other.find_text("Name") == reference.text]
    if not any(other.find_text("Protocol") in websockets for other in found):
        message = f"SQLTransport '{reference.text}' is not a Transport with a websocket protocol"
        yield Problem(reference, message, "name a Transport with <Protocol>websocket</Protocol>")


def two_purposes(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: one file used for two purposes: statistics, a log, a socket, the chains of a key generator, a store.

    Why: one would overwrite the other.
    Example: Admin and a Logging target with the same FileName.
    Instead: give each its own file.
    """
    uses: dict[str, str] = {}
    # In file order: the finding is reported at the second use.
    for purpose, file, text in sorted(_iterate_files(survey), key=lambda use: survey.find_order(use[1])):
        path = os.path.normpath(survey.root / text)
        other = uses.setdefault(path, purpose)
        if other != purpose:
            yield Problem(file, f"{text} is used for two purposes: {other} and {purpose}", "use different files")


def _iterate_files(survey: Survey) -> Iterator[tuple[str, ElementNode, str]]:
    sections = [("statistics", node) for node in survey.find_nodes("Admin")]
    sections += [("the log", node) for node in survey.find_nodes("Target")]
    sections += [("a socket", node) for node in survey.find_nodes("Transport")]
    sections += [
        ("key chains", options)
        for entry in survey.entries
        for generator in entry.node.find_all("KeyGenerator")
        for options in generator.find_all("Options")
    ]
    for purpose, node in sections:
        file = node.find("FileName")
        # ``:memory:`` is no file, so several elements may have it.
        if file is not None and file.text and file.text != ":memory:":
            yield purpose, file, file.text
    for entry in survey.entries:
        file = entry.node.find("FileName")
        if entry.kind == "Topic" and file is not None and file.text and not is_transient(entry.node):
            yield "a store", file, format_file_name(file.text, entry.name, entry.type)


def version_needed(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the file asks for a later version of the dialect than this program knows.

    Why: it may use features that this program does not support.
    Example: ``<RequiredMinimumVersion>6.0</RequiredMinimumVersion>``.
    Instead: lower the number if the file needs nothing newer.
    """
    known = tuple(int(part) for part in REFERENCE_VERSION.split("."))
    for asked in node.find_all("RequiredMinimumVersion", "SuggestedMinimumVersion"):
        parts = asked.text.split(".")
        numbers = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
        if numbers and tuple(map(int, parts))[:3] > known:
            message = f"file needs version {asked.text}; this program supports up to {REFERENCE_VERSION}"
            level = Level.WARNING if asked.tag.startswith("Suggested") else None
            yield Problem(asked, message, "it may use features that this program does not support", level=level)


def challenge_without_authentication(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: WWWAuthenticate in an Admin section without Authentication.

    Why: it specifies how a browser is asked for credentials; without Authentication, no browser is asked.
    Example: only ``<WWWAuthenticate>Negotiate</WWWAuthenticate>``.
    Instead: add Authentication with its Module, or remove WWWAuthenticate.
    """
    challenge = node.find("WWWAuthenticate")
    if challenge is not None and node.find("Authentication") is None:
        message = "WWWAuthenticate without Authentication has no effect"
        yield Problem(challenge, message, "add <Authentication>, or remove it")
