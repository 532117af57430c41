"""Advice on the definition of a topic: its name, its file, and its durability."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sowctl.config.document import ElementNode
from sowctl.config.expression_texts import list_filter_remarks
from sowctl.config.model import format_file_name
from sowctl.config.rules.measures import (
    DAY,
    HOUR,
    SECOND,
    can_compare_all,
    format_interval_text,
    read_count,
    read_interval,
)
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import SubjectEntry, is_transient
from sowctl.config.rules.survey import Survey
from sowctl.config.topic_patterns import is_pattern

SHORT_LIFETIME_NANOSECONDS = HOUR
"""Records that expire within this time are assumed to be a cache that may be lost."""
MANY_RECORDS = 1_000_000


def _is_persistent(node: ElementNode) -> bool:
    return (node.find_text("Durability", "Duration") or "persistent").lower() == "persistent"


def slash_in_file_name(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName has ``%n``, and the topic name has a slash after its first character.

    Why: a server puts the name into the path unchanged, so the slash separates a directory, which is not created;
    sowctl writes ``%2F`` for the slash.
    Example: ``<FileName>./sow/%n.sow</FileName>`` in the topic ``orders/europe``.
    Instead: create the directory, or write a FileName without ``%n``.
    """
    file, name = node.find("FileName"), node.find_text("Name", "Topic") or ""
    if file is not None and "%n" in file.text and "/" in name[1:] and not is_transient(node):
        directory = file.text.replace("%n", name).rpartition("/")[0]
        message = (
            f"%n with the topic name '{name}' needs the directory '{directory}', which is not created automatically"
        )
        yield Problem(file, message, "create it on the server, or name the file without %n")


def file_outside(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName is outside the directory of the configuration, through ``..`` or a link.

    Why: a copy of the directory is then not a copy of the instance, and two copies write to one store.
    Example: ``<FileName>../sow/%n.sow</FileName>``.
    Instead: keep stores below the directory, or write an absolute path to show that another place is intended.
    """
    file, name = node.find("FileName"), node.find_text("Name", "Topic") or ""
    if file is None or not file.text or is_transient(node) or file.text.startswith(("{{", "${")):
        return
    root = survey.root.absolute()
    named = Path(os.path.normpath(root / format_file_name(file.text, name, node.find_text("MessageType") or "")))
    hint = "keep the store below it, or write an absolute path if another place is intended"
    if not named.is_relative_to(root):
        # An absolute path shows that another place is intended.
        if not Path(file.text).is_absolute():
            yield Problem(file, f"FileName '{file.text}' leaves the directory of the configuration", hint)
    elif not named.resolve().is_relative_to(root.resolve()):
        yield Problem(file, f"FileName '{file.text}' leaves the directory of the configuration through a link", hint)


def name_like_a_pattern(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the name of a SOW entry has characters of a regular expression, such as a dot.

    Why: in the SOW the name is literal, but a subscription treats it as a pattern that also matches other names.
    Example: ``<Name>md.fx</Name>``: a subscription to it also receives ``md-fx``.
    Instead: use letters, digits, ``-``, ``_`` and ``/``. To define many topics, write Pattern.
    """
    name = node.find_text("Name", "Topic") or ""
    if survey.has_regex_topics and is_pattern(name):
        found = " ".join(sorted({character for character in name if is_pattern(character)}))
        message = f"topic name '{name}' contains regex characters ({found}); a subscription treats it as a pattern"
        yield Problem(node, message, "use letters, digits, - _ and /; to define many topics, write <Pattern>")


def lost_on_restart(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a transient topic that the transaction log does not record.

    Why: a transient topic is rebuilt from the log at start; without it, its contents are lost. This is by design, but
    often not intended. Topics whose records expire within an hour count as caches and are not reported.
    Example: ``<Durability>transient</Durability>`` in ``positions``, and no such Topic in TransactionLog.
    Instead: add the topic to TransactionLog, or make it persistent.
    """
    if not survey.is_complete or not _can_compare(survey):
        return
    for entry in survey.entries:
        lifetime = read_interval(entry.node.find("Expiration"))
        if (
            entry.kind == "Topic"
            and entry.name
            and entry.type
            and is_transient(entry.node)
            and not survey.is_journaled(entry.name, entry.type)
            and not (lifetime and lifetime <= SHORT_LIFETIME_NANOSECONDS)
        ):
            message = f"transient topic '{entry.name}' is not journaled: its contents are lost on restart"
            yield Problem(entry.node, message, "add it to TransactionLog, or make it persistent with a FileName")


def _can_compare(survey: Survey) -> bool:
    """Return True if checking whether each topic is journaled takes only moments."""
    patterns = [name for name, _ in survey.journal_topics if is_pattern(name)]
    hard = sum(is_pattern(name.replace(".", "").strip("^*$")) for name in patterns)
    topic_count = len(survey.entries)
    return can_compare_all(len(patterns), topic_count, 1) and can_compare_all(hard, topic_count)


def file_of_transient_topic(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName in a transient topic.

    Why: a transient topic has no file; the line is misleading.
    Example: ``<FileName>./sow/%n.sow</FileName>`` beside ``<Durability>transient</Durability>``.
    Instead: remove FileName, or remove Durability to keep the records.
    """
    file = node.find("FileName")
    if file is not None and is_transient(node):
        name = node.find_text("Name", "Topic") or ""
        message = f"FileName on the transient topic '{name}' is ignored"
        yield Problem(node, message, "remove <FileName>, or remove <Durability> to keep the records")


def topic_not_journaled(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a persistent topic that the transaction log does not record.

    Why: its records cannot be replayed or replicated, and if its file is lost, nothing can rebuild it.
    Example: a Topic ``orders`` with FileName, and no Topic ``orders`` in TransactionLog.
    Instead: add the topic to TransactionLog if you need any of this. If a file has no TransactionLog at all, only the
    first topic is reported.
    """
    if not survey.is_complete or not _can_compare(survey):
        return
    logged = any(True for _ in survey.find_nodes("TransactionLog"))
    missing = [entry for entry in survey.entries if _is_unjournaled(entry, survey)]
    # Without a log every topic would have the same finding.
    for entry in missing if logged else missing[:1]:
        others = "" if logged or len(missing) == 1 else f" (and {len(missing) - 1} more)"
        message = f"persistent topic '{entry.name}'{others} is not journaled: no replay, replication or rebuild"
        yield Problem(entry.node, message, "add it as a Topic of TransactionLog if you need this")


def _is_unjournaled(entry: SubjectEntry, survey: Survey) -> bool:
    if entry.kind != "Topic" or not entry.name or not entry.type or not _is_persistent(entry.node):
        return False
    stored = entry.node.find("FileName") is not None and entry.node.find("Pattern") is None
    return stored and not survey.is_journaled(entry.name, entry.type)


def history_too_fine(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a History that keeps versions less than a second apart for more than a day.

    Why: nearly every update becomes a version of its own, so storage grows with the update rate times the window.
    Example: ``<Window>1w</Window><Granularity>0s</Granularity>``.
    Instead: write the coarsest Granularity that your queries of the past allow, or a shorter Window.
    """
    for history in node.find_all("History"):
        step = history.find("Granularity")
        window, granularity = read_interval(history.find("Window")), read_interval(step)
        if step is None or window is None or granularity is None:
            continue
        if granularity < SECOND and window > DAY:
            length = format_interval_text(window)
            message = f"History with a very small Granularity ({step.text}) and a long Window ({length})"
            yield Problem(step, f"{message} keeps nearly every update", "write a Granularity such as 1m")


def crowded_pattern(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Pattern topic that expects a million records or more, by its ExpectedKeyCountHint.

    Why: all logical topics share one store and its indexes; with many records in each, separate topics are faster.
    Example: ``<Pattern>^/desk/</Pattern>`` beside ``<ExpectedKeyCountHint>4M</ExpectedKeyCountHint>``.
    Instead: give the large logical topics entries of their own, before the Pattern topic.
    """
    pattern, hint = node.find("Pattern"), node.find("ExpectedKeyCountHint")
    expected = read_count(hint)
    if pattern is not None and hint is not None and expected is not None and expected >= MANY_RECORDS:
        name = node.find_text("Name", "Topic") or ""
        message = f"Pattern topic '{name}' expects {hint.text} records; separate topics perform better"
        yield Problem(pattern, message, "define large logical topics by name, before this entry")


def filter_like_sql(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Filter or BarrierExpression with a condition that means something else than in SQL.

    Why: LIKE requires a regular expression, so % matches a percent sign; a comparison with NULL is never TRUE; text in
    double quotes is a string and not a name; a date without quotes is a subtraction. Such a condition matches no
    message, or all of them.
    Example: ``/name LIKE 'ACME%'``, ``/closed = NULL``.
    Instead: write what the hint shows, here ``/name LIKE '^ACME'`` and ``/closed IS NULL``.
    """
    for text in node.find_all("Filter", "BarrierExpression"):
        for remark in list_filter_remarks(text.text):
            yield Problem(text, f"{text.tag}: {remark.words}", f"write {remark.suggestion}")
