"""Advice on the transaction log: sizes, recorded topics, and retention."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from msgspec import Struct

from sowctl.config.document import ElementNode
from sowctl.config.rules.measures import can_compare_all, is_size_within, read_interval, read_size, read_switch
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey
from sowctl.config.topic_patterns import compile_topic_search, is_pattern
from sowctl.errors import ConfigError

DEFAULT_FLUSH_NANOSECONDS = 100_000_000
MAX_EXAMPLES = 3
MAX_NAME_TRIES = 1000


def journal_size_for_production(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: JournalSize is less than 250MB or more than 2GB.

    Why: small files rotate often, which suits development only; large files are slow to remove and to recover.
    Example: ``<JournalSize>10MB</JournalSize>``.
    Instead: 250MB to 2GB, or no JournalSize: the default is 1GB.
    """
    given = node.find("JournalSize", "MinJournalSize")
    if given is not None and read_size(given) is not None and not is_size_within(given, "250MB", "2GB"):
        message = f"{given.tag} {given.text} is outside 250MB to 2GB, the range for production"
        yield Problem(given, message, "remove it to use the default, 1GB; smaller sizes are for development")


def journals_never_removed(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a TransactionLog, and no action that removes journals.

    Why: journals are never removed automatically and grow until the disk is full. Compressing and archiving only delay
    this.
    Example: a TransactionLog with Topics, and no Actions.
    Instead: add an Action with ``amps-action-do-remove-journal`` and an Age, every day.
    """
    if survey.is_complete and node.find("Topic") is not None and not survey.find_steps("do-remove-journal"):
        hint = "add an Action with amps-action-on-schedule and amps-action-do-remove-journal"
        yield Problem(node, "no remove-journal action: journals grow without bound", hint)


def direct_io_off(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: O_DIRECT is disabled.

    Why: writes then pass through the cache of the operating system; acknowledged messages may be lost in a power
    failure.
    Example: ``<O_DIRECT>disabled</O_DIRECT>``.
    Instead: remove the line, unless the file system cannot write directly.
    """
    direct = node.find("O_DIRECT")
    if direct is not None and read_switch(direct) is False:
        message = "O_DIRECT disabled: acknowledged data may be lost when power fails"
        yield Problem(direct, message, "remove it, unless the file system cannot write directly")


def flush_interval_changed(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FlushInterval is not 100ms, the default.

    Why: the default is good for most loads; a smaller one may enlarge the journals, a larger one delays others.
    Example: ``<FlushInterval>1ms</FlushInterval>``.
    Instead: leave the default, unless measurements show that another value is better.
    """
    given = node.find("FlushInterval")
    number = read_interval(given)
    if given is not None and number is not None and number != DEFAULT_FLUSH_NANOSECONDS:
        message = f"FlushInterval changed from 100ms to {given.text}"
        yield Problem(
            given,
            message,
            "keep the default unless measurements support the change; smaller values may enlarge journals",
        )


def journal_name_unanchored(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Name of a journal topic is a regular expression without anchors, and may match more topics than
    intended.

    Why: it matches anywhere in a topic name, and a dot matches any character. A name whose only special characters are
    dots is reported only if it matches another topic of the file that is not logged under its own name.
    Example: ``<Name>ORDERS_.*</Name>`` also records ``OLD_ORDERS_1``.
    Instead: write ``^ORDERS_.*``, or ``^md\\.fx$`` for one name with a dot.
    """
    if not survey.has_regex_topics:
        return
    names = [name for name, _ in survey.journal_topics if is_pattern(name)]
    hard = sum(not _is_dotted(name) for name in names)
    known: dict[str, str] = {}
    # A topic that is recorded by its own name is meant to be recorded, whatever else matches it.
    recorded = set(survey.journal_topics)
    own = [entry for entry in survey.entries if entry.kind not in ("View", "ConflatedTopic")]
    for topic in node.find_all("Topic"):
        name, kind = topic.find("Name"), topic.find_text("MessageType") or ""
        if name is None or not is_pattern(name.text):
            continue
        if kind not in known:
            others = {e.name for e in own if e.type == kind and (e.name, kind) not in recorded}
            known[kind] = "\n".join(sorted(others))
        dotted = _is_dotted(name.text)
        # Too many names or patterns are not compared; the advice is omitted then.
        few = can_compare_all(len(names), len(own), 1) if dotted else can_compare_all(hard, len(own))
        found = _find_surprises(name.text, known[kind] if few else "")
        if found:
            message = (
                f"journal Name '{name.text}' is an unanchored regex; it also matches {', '.join(map(repr, found))}"
            )
            yield Problem(name, message, f"write {_anchor_pattern(name.text)} if only such names are intended")


def _find_surprises(pattern: str, names: str) -> list[str]:
    """Unintended matches of a pattern: names among the lines of the file, else an invented one."""
    if _is_dotted(pattern):
        return _find_dotted_matches(pattern, names)
    # A pattern with alternatives, or with an anchor at either end, is assumed to be intended.
    if "|" in pattern or pattern.startswith("^") or pattern.endswith("$") or not any(_find_open_ends(pattern)):
        return []
    try:
        loose, strict = compile_topic_search(pattern), compile_topic_search(f"^(?:{pattern})$")
        real = islice((name for name in names.split("\n") if name and loose(name) and not strict(name)), MAX_EXAMPLES)
        if found := list(real):
            return found
        # If the file has no example, invent a name that the pattern matches unintentionally.
        plain = pattern.removeprefix(".*").removesuffix(".*")
        invented = f"OLD_{plain}" if _find_open_ends(pattern)[0] else f"{plain}_OLD"
        return [invented] if not is_pattern(plain) and loose(invented) and not strict(invented) else []
    except ConfigError:
        return []


def _is_dotted(pattern: str) -> bool:
    """Return True if a pattern is plain text except for dots."""
    return not is_pattern(pattern.replace(".", ""))


def _find_open_ends(pattern: str) -> tuple[bool, bool]:
    """Return whether a pattern is open at its beginning, and at its end."""
    return not pattern.startswith(("^", ".*", "(")), not pattern.endswith(("$", ".*", ")"))


def _find_dotted_matches(pattern: str, names: str) -> list[str]:
    """The lines of ``names`` that match a text in which each dot matches any character, without the text itself.

    Searched by the rarest part of the text: a thousand texts over a thousand names must not need a million searches.
    """
    parts: list[tuple[int, str]] = []
    at = 0
    for part in pattern.split("."):
        parts += [(at, part)] if part else []
        at += len(part) + 1
    if not parts:
        return []
    # All names are in one text, so its rarest part has the fewest candidates.
    offset, rarest = min(parts, key=lambda pair: names.count(pair[1]))
    found: list[str] = []
    position = names.find(rarest, offset)
    # Limits the work, because a hostile file may have a part that occurs everywhere.
    for _ in range(MAX_NAME_TRIES):
        if position < 0 or len(found) == MAX_EXAMPLES:
            break
        start, end = position - offset, position - offset + len(pattern)
        if all(names.startswith(part, start + at) for at, part in parts) and "\n" not in names[start:end]:
            line = names[names.rfind("\n", 0, start) + 1 : (names.find("\n", start) + 1 or len(names) + 1) - 1]
            found += [line] if line != pattern and end <= len(names) else []
        position = names.find(rarest, position + 1)
    return found


def _anchor_pattern(pattern: str) -> str:
    if _is_dotted(pattern):
        escaped = pattern.replace(".", "\\.")
        return f"^{escaped}$"
    before, behind = _find_open_ends(pattern)
    return f"{'^' if before else ''}{pattern}{'$' if behind else ''}"


def records_nothing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a TransactionLog without Topic.

    Why: it logs nothing, which is valid but rarely intended.
    Example: ``<TransactionLog><JournalDirectory>./journals</JournalDirectory></TransactionLog>``.
    Instead: add the topics, or remove TransactionLog.
    """
    if node.find("Topic") is None and node.complete:
        yield Problem(node, "TransactionLog without Topic records nothing", "add a <Topic> with Name and MessageType")


def acknowledgements_expire_early(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: InactiveClientAckExpiration is shorter than journals are kept.

    Why: once the sequence number of a publisher has expired, its repeated messages count as new, although the originals
    are still in the journals.
    Example: ``<InactiveClientAckExpiration>1d</InactiveClientAckExpiration>`` where journals are removed after 7d.
    Instead: make it longer than the Age of remove-journal.
    """
    given = node.find("InactiveClientAckExpiration")
    number = read_interval(given)
    # The shortest Age decides what is retained.
    kept = min(_read_ages("do-remove-journal", survey), key=attrgetter("nanoseconds"), default=None)
    if given is not None and number is not None and kept is not None and number < kept.nanoseconds:
        message = f"InactiveClientAckExpiration {given.text} is shorter than journal retention ({kept.text})"
        yield Problem(given, f"{message}: duplicates are not detected", f"write {kept.text} or more")


def removed_too_early(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: journals are removed before they are archived, before a queue's messages expire, or inside a History.

    Why: removed journals cannot be archived, and limit how far back a replay or rebuild can reach.
    Example: remove-journal with ``<Age>1d</Age>`` beside a Queue with ``<Expiration>7d</Expiration>``.
    Instead: keep journals longer than the longest of the other periods, and archive them before they are removed.
    """
    removal = min(_read_ages("do-remove-journal", survey), key=attrgetter("nanoseconds"), default=None)
    if removal is None:
        return
    for archive in _read_ages("do-archive-journal", survey):
        # Journals are removed before they are old enough to be archived.
        if archive.nanoseconds >= removal.nanoseconds:
            message = f"archive Age {archive.text} is not below remove Age {removal.text}: archive never happens"
            yield Problem(archive.node, message, "give archive-journal a smaller Age")
    need = max(_find_needs(survey), key=lambda pair: pair[0].nanoseconds, default=None)
    if need is not None and removal.nanoseconds < need[0].nanoseconds:
        message = f"remove-journal Age {removal.text} is shorter than {need[1]} ({need[0].text})"
        yield Problem(removal.node, message, f"keep journals {need[0].text} or longer")


class _Span(Struct, frozen=True):
    """An interval of the file, as written, and its element."""

    nanoseconds: int
    text: str
    node: ElementNode


def _read_span(node: ElementNode | None) -> Iterator[_Span]:
    number = read_interval(node)
    if node is not None and number is not None:
        yield _Span(number, node.text, node)


def _read_ages(module: str, survey: Survey) -> Iterator[_Span]:
    """The Age of each step of a module; an action with an If is for emergencies and does not count."""
    for step in survey.find_steps(module):
        if step.action.find("If") is None:
            yield from _read_span(step.find_option("Age"))


def _find_needs(survey: Survey) -> Iterator[tuple[_Span, str]]:
    """Yield how far back queues and histories of journaled topics reach, and a description of each."""
    for node in survey.find_nodes("Queues"):
        name = survey.find_entry(node).name
        yield from ((span, f"Expiration of queue '{name}'") for span in _read_span(node.find("Expiration")))
    for node in survey.find_nodes("Topic"):
        entry = survey.find_entry(node)
        for history in node.find_all("History"):
            if survey.is_journaled(entry.name, entry.type):
                window = history.find("Window")
                yield from ((span, f"History of topic '{entry.name}'") for span in _read_span(window))
