"""Comments that disable rules: ``<!-- sowctl: ignore B012, D003 because the logs go to a ramdisk -->``.

Before the root element such a comment applies to its whole file, elsewhere to the element that follows it and all
descendants. It names rules as ``--select`` does; words after ``because`` are for people. Only lint obeys it: errors
that stop an instance do so whatever a comment says, so ``validate`` ignores it. A comment that names an unknown rule,
or that has no effect, is itself a finding. Ruled by ``sowctl-lint(7)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from sowctl.config.directives import DIRECTIVE_START_PATTERN
from sowctl.config.document import SourceFile
from sowctl.config.problems import UNKNOWN_WORD_CODE, UNUSED_WORD_CODE
from sowctl.config.recorded_client import CLIENT_HINT, find_client_fault
from sowctl.config.rules.facts import ASSUME_HINT, find_comment_faults
from sowctl.config.rules.table import select_rules
from sowctl.errors import UsageError
from sowctl.findings import Finding, Level

_PIECE_PATTERN = re.compile(
    r"(?s)<!--(.*?)-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(/?)[^\s<>/]+(?:[^\"'<>]|\"[^\"]*\"|'[^']*')*?(/?)>"
)
_DIRECTIVE_PATTERN = re.compile(rf"(?s){DIRECTIVE_START_PATTERN}([a-z]+)\b(.*)")
_IGNORE_HINT = "write <!-- sowctl: ignore RULE, RULE -->"
_ELSEWHERE_MESSAGE = "assumptions are read only in the main file, but this is an included file"
_CLIENT_ELSEWHERE_MESSAGE = "the client to record is read only in the main file, but this is an included file"
_MOVE_HINT = "move the comment to the main file"
_WORDS_PATTERN = re.compile(r"(?s)(.*?)(?:\bbecause\b.*)?")


class Suppression(Struct, frozen=True):
    """One comment: its place, the rules it names, and the range of lines and columns in which it applies."""

    source: SourceFile
    offset: int
    word: str
    rules: frozenset[str]
    first: tuple[int, int]
    last: tuple[int, int]


def apply_suppressions(
    findings: Iterable[Finding], sources: Iterable[SourceFile], active: frozenset[str]
) -> Iterator[Finding]:
    """The findings that no comment disables, and the findings about the comments.

    The first of ``sources`` is the main file, the only one in which ``assume`` counts. ``active`` are the ids of the
    selected rules: a comment about another rule is neither used nor unused.
    """
    suppressions: list[Suppression] = []
    for number, source in enumerate({source.file: source for source in sources}.values()):
        # Most files have no such comment and skip the search.
        if "sowctl" not in source.text:
            continue
        for found in _read_suppressions(source, main=number == 0):
            if isinstance(found, Suppression):
                suppressions.append(found)
            elif found.id in active:
                yield found
    used: set[tuple[int, int, str]] = set()
    for finding in findings:
        matching = [suppression for suppression in suppressions if _covers(suppression, finding)]
        used.update((id(found.source), found.offset, found.word) for found in matching)
        if not matching:
            yield finding
    if UNUSED_WORD_CODE in active:
        for found in suppressions:
            # Whether a comment about a rule that did not run is used is unknown.
            if found.rules <= active and (id(found.source), found.offset, found.word) not in used:
                message = f"the comment has no effect: nothing here violates {found.word}"
                yield _build_finding(
                    found.source, found.offset, UNUSED_WORD_CODE, Level.INFO, message, "remove the comment, or move it"
                )


def _covers(suppression: Suppression, finding: Finding) -> bool:
    place = finding.place
    if finding.id not in suppression.rules or place.file != suppression.source.file:
        return False
    return suppression.first <= (place.line or 1, place.column or 1) <= suppression.last


def _read_suppressions(source: SourceFile, *, main: bool) -> Iterator[Suppression | Finding]:
    """The suppressions of one file, and the findings about words that name no rule."""
    reach: list[tuple[int, list[tuple[int, str]]]] = []
    waiting: list[tuple[int, str]] = []
    rooted = False
    for piece in _PIECE_PATTERN.finditer(source.text):
        start, end = piece.span()
        if piece[1] is not None:
            words = _DIRECTIVE_PATTERN.fullmatch(piece[1])
            if words is not None and words[1] == "ignore":
                waiting.append((start, words[2]))
            elif words is not None and words[1] == "assume":
                for message in find_comment_faults(words[2]) if main else [_ELSEWHERE_MESSAGE]:
                    yield _build_finding(
                        source, start, UNKNOWN_WORD_CODE, Level.WARNING, message, ASSUME_HINT if main else _MOVE_HINT
                    )
            elif words is not None and words[1] == "client":
                fault = find_client_fault(words[2]) if main else _CLIENT_ELSEWHERE_MESSAGE
                if fault is not None:
                    hint = CLIENT_HINT if main else _MOVE_HINT
                    yield _build_finding(source, start, UNKNOWN_WORD_CODE, Level.WARNING, fault, hint)
            elif words is not None:
                message = f"unknown word '{words[1]}' in a comment for sowctl"
                yield _build_finding(source, start, UNKNOWN_WORD_CODE, Level.WARNING, message, _IGNORE_HINT)
        elif piece[2] == "":
            if not rooted:
                # Comments before the root apply to the whole file, so they get an entry below that of the root.
                reach.append((0, waiting))
                rooted, waiting = True, []
            reach.append((start, waiting))
            waiting = []
        if piece[2] == "/" or piece[3] == "/":
            # A comment that no element follows applies to nothing.
            for offset, names in waiting:
                yield from _parse_rules(source, offset, names, (offset, offset))
            # The element that ends here: comments before it apply from its start tag to this place.
            begin, inside = reach.pop()
            for offset, names in inside:
                yield from _parse_rules(source, offset, names, (begin, end))
            waiting = []
    # Still open: the entry of the whole file, and elements cut off by the end of a broken file.
    for begin, inside in reach:
        for offset, names in inside:
            yield from _parse_rules(source, offset, names, (begin, len(source.text)))
    for offset, names in waiting:
        yield from _parse_rules(source, offset, names, (offset, offset))


def _parse_rules(
    source: SourceFile, offset: int, words: str, reach: tuple[int, int]
) -> Iterator[Suppression | Finding]:
    """One suppression for each word, so that each can be unused by itself."""
    match = _WORDS_PATTERN.fullmatch(words)
    names = re.findall(r"[^\s,;]+", match[1] if match is not None else words)
    if not names:
        message = "the comment names no rule"
        yield _build_finding(source, offset, UNKNOWN_WORD_CODE, Level.WARNING, message, _IGNORE_HINT)
    for name in names:
        try:
            rules = select_rules([name])
        except UsageError as error:
            yield _build_finding(
                source, offset, UNKNOWN_WORD_CODE, Level.WARNING, error.message, error.hint or "sowctl lint --list"
            )
            continue
        yield Suppression(source, offset, name, rules, *map(source.find_position, reach))


def _build_finding(source: SourceFile, offset: int, rule: str, level: Level, message: str, hint: str) -> Finding:
    place = source.find_place(offset)
    return Finding(rule, level, place, message, hint, source.build_excerpt(place.line or 1, place.column or 1))
