"""Advice on Logging and Admin: log levels, retention of logs and statistics, and access."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.globs import glob_matches
from sowctl.config.rules.measures import can_compare_all
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey

INFO_LEVELS = frozenset({"developer", "trace", "stats", "info", "debug"})
DATA_LEVELS = frozenset({"developer", "trace"})
LOGON_MESSAGE = "12-0010"
"""The message that logs the commands of clients, including logon."""
_ESCAPE = r"%[A-Za-z]"
_NOT_PRODUCTION = r"(?i)\b(dev\w*|test\w*|qa|uat|demo|local|sandbox|staging)\b"


def statistics_grow(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Admin keeps its statistics in a file, and no action truncates them.

    Why: the database grows for as long as the instance runs.
    Example: ``<FileName>stats.db</FileName>`` in Admin, and no Actions.
    Instead: add an Action with ``amps-action-do-truncate-statistics`` and an Age, or remove FileName to keep the
    statistics in memory.
    """
    file = node.find("FileName")
    if file is None or file.text in ("", ":memory:") or not survey.is_complete:
        return
    if not survey.find_steps("do-truncate-statistics"):
        message = f"statistics file '{file.text}' without truncate-statistics action: the database grows without bound"
        yield Problem(file, message, "add an Action with amps-action-do-truncate-statistics, or remove <FileName>")


def logs_grow(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a log is written to files, and no action removes or compresses them.

    Why: the disk fills. A log that overwrites one file at each rotation does not grow and is not reported.
    Example: ``<FileName>./logs/%Y%m%d-%n.log</FileName>``, and no Actions.
    Instead: add an Action with ``amps-action-do-remove-files``, an Age, and a Pattern such as ``./logs/*.log``.
    """
    if not survey.is_complete:
        return
    patterns = [
        pattern.text
        for step in survey.find_steps("do-remove-files", "do-compress-files")
        if (pattern := step.find_option("Pattern")) is not None
    ]
    targets = list(node.find_all("Target"))
    for target in targets if can_compare_all(len(targets), len(patterns)) else ():
        file = target.find("FileName")
        if file is None or not file.text or (target.find_text("Protocol") or "").lower() not in ("file", "gzip"):
            continue
        # Without a counter or a time in its name the file is overwritten at each rotation and does not grow further.
        rotates_in_place = target.find("RotationThreshold") is not None and not re.search(_ESCAPE, file.text)
        if not rotates_in_place and not any(_is_covered(file.text, pattern, survey) for pattern in patterns):
            message = f"log files '{file.text}' without remove-files or compress-files action: the disk fills"
            if re.search(_ESCAPE, file.text):
                hint = f"add an Action with amps-action-do-remove-files and Pattern {_build_glob(file.text)}"
            else:
                hint = "add %n to FileName, <RotationThreshold>, and an Action with amps-action-do-remove-files"
            yield Problem(file, message, hint)


def _is_covered(file: str, pattern: str, survey: Survey) -> bool:
    # A counter or a time expands to some text without a slash; one character is enough to test a pattern.
    name = os.path.normpath(survey.root / re.sub(_ESCAPE, "0", file))
    glob = os.path.normpath(survey.root / pattern)
    # A text that is filled in when the action runs may match anything, and servers append suffixes to the name.
    return "{{" in pattern or any(glob_matches(glob, name + suffix) for suffix in ("", ".log", ".gz", ".1"))


def _build_glob(file: str) -> str:
    directory, slash, name = file.rpartition("/")
    before, _, rest = name.partition("%")
    behind = rest.rpartition("%")[2][1:] if "%" in rest else rest[1:]
    return f"{directory}{slash}{before}*{behind}"


def nothing_logged(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an instance that listens has no Logging target, or none that writes messages of level info.

    Why: by default nothing is logged; without info, the log of a production instance does not show what happened.
    Example: ``<Level>error</Level>`` in the only Target.
    Instead: add a Target with ``<Level>info</Level>``.
    """
    if not survey.is_complete or not survey.has_listener:
        return
    hint = "add a <Target> with <Level>info</Level>"
    sections = list(node.find_all("Logging"))
    targets = [target for section in sections for target in section.find_all("Target")]
    if not targets:
        yield Problem(sections[0] if sections else node, "no Logging target: nothing is logged", hint)
    elif not any(_list_levels(target) & INFO_LEVELS for target in targets):
        yield Problem(sections[0], "no Logging target at info or more verbose", hint)


def _list_levels(target: ElementNode) -> set[str]:
    texts = (target.find_text("Level") or "", target.find_text("Levels") or "")
    return {word.strip().lower() for text in texts for word in text.split(",")}


def rotation_overwrites(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: RotationThreshold in a Target whose FileName is always the same.

    Why: each rotation overwrites the previous log.
    Example: ``<FileName>./logs/amps.log</FileName>`` beside ``<RotationThreshold>1GB</RotationThreshold>``.
    Instead: put a counter or the time into the name: ``./logs/amps-%Y%m%d-%n.log``.
    """
    file = node.find("FileName")
    if file is None or not file.text or node.find("RotationThreshold") is None or re.search(_ESCAPE, file.text):
        return
    directory, slash, name = file.text.rpartition("/")
    stem, dot, extension = name.partition(".")
    message = f"RotationThreshold with the constant FileName '{file.text}': each rotation overwrites the last log"
    yield Problem(node, message, f"write <FileName>{directory}{slash}{stem}-%Y%m%d-%n{dot}{extension}</FileName>")


def admin_open(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Admin listens on all addresses without Authentication.

    Why: anyone who can reach the port can disconnect clients and shut down the server.
    Example: ``<InetAddr>8085</InetAddr>`` without Authentication.
    Instead: write ``<InetAddr>localhost:8085</InetAddr>``, or add Authentication.
    """
    address = node.find("InetAddr")
    if address is None or not address.text:
        return
    host, _, port = address.text.rpartition(":")
    modules = [
        section.find_text("Module") or ""
        for place in (node, survey.top)
        for section in place.find_all("Authentication")
    ]
    everywhere = port.isdecimal() and host in ("", "0.0.0.0", "[::]")
    if everywhere and all(name in ("", "amps-default-authentication-module") for name in modules):
        message = f"Admin listens on all addresses ({address.text}) without Authentication"
        yield Problem(address, message, f"write localhost:{port}, or add <Authentication>")


def log_shows_data(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a log of level trace or developer, or one that includes message 12-0010.

    Why: the log contains the data of messages, and the commands of clients with their logon. If Environment names a
    test or development instance, only 12-0010 is reported.
    Example: ``<Level>trace</Level>`` in a Target.
    Instead: write info. To investigate a problem, use trace for a short time and add
    ``<ExcludeErrors>12-0010</ExcludeErrors>``.
    """
    excluded = _names_logon(node.find_text("ExcludeErrors"))
    verbose = sorted(_list_levels(node) & DATA_LEVELS)
    production = not re.search(_NOT_PRODUCTION, survey.top.find_text("Environment") or "")
    where = node.find("Level", "Levels") or node
    if verbose and (production or not excluded):
        also = "" if excluded else f" and logon commands ({LOGON_MESSAGE})"
        hint = "write info in production" if excluded else f"write info; if more is needed, exclude {LOGON_MESSAGE}"
        yield Problem(where, f"level {verbose[0]} logs message data{also}", hint)
    elif not verbose and not excluded and _names_logon(node.find_text("IncludeErrors")):
        included = node.find("IncludeErrors") or node
        yield Problem(
            included, f"IncludeErrors has {LOGON_MESSAGE}, which logs logon commands", f"remove {LOGON_MESSAGE}"
        )


def _names_logon(text: str | None) -> bool:
    """Return True if a list of message numbers or patterns includes that of logon commands."""
    for word in (text or "").split(","):
        try:
            if word.strip() and re.fullmatch(word.strip(), LOGON_MESSAGE):
                return True
        except re.error:
            continue
    return False
