"""``lint --fix``: findings that have one safe fix are fixed in the text of the file.

A fix changes nothing but the words that the finding is about: comments, indentation and the order of elements stay. It
is a row of :data:`FIXES`; a rule without one needs somebody who decides. Values that come from ``${...}`` are left, as
the text does not hold them. Ruled by ``sowctl-lint(7)``, FIXES.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from sowctl.config.elements.modules import MODULE_CORRECTIONS
from sowctl.findings import Finding, Level

MAX_FIX_ROUNDS = 10
"""How often a text is judged again: what was mended may show what stood behind it."""


class Edit(Struct, frozen=True, order=True):
    """The characters from ``begin`` to ``end`` become ``text``."""

    begin: int
    end: int
    text: str


Fix = Callable[[str, int], list[Edit]]
"""``(text, place) -> edits``; the place is the first character of the element. No edits where nothing is sure."""


class Fixed(Struct, frozen=True):
    """A text with what could be mended, and how many findings of which rule that were."""

    text: str
    mended: Counter[str]


def build_rename_fix(old: str, new: str) -> Fix:
    """The start tag at the place, and the end tag that belongs to it, get another name."""
    tags = re.compile(rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?P<end>/?){old}(?=[\s/>])[^<>]*?(?P<empty>/?)>", re.DOTALL)

    def fix(text: str, place: int) -> list[Edit]:
        depth = 0
        edits = [Edit(place + 1, place + 1 + len(old), new)]
        for tag in tags.finditer(text, place):
            if tag["end"] is None:
                continue  # a comment or CDATA: what looks like a tag in it is none
            if tag.start() == place and tag["empty"]:
                return edits
            depth += -1 if tag["end"] else 0 if tag["empty"] else 1
            # An element of the same name may stand inside, such as Topic in a TopicDefinition's Topic.
            if depth <= 0:
                return [*edits, Edit(tag.start() + 2, tag.start() + 2 + len(old), new)] if tag["end"] else []
        return []

    return fix


def build_word_fix(element: str, words: Mapping[str, str]) -> Fix:
    """The element's whole text, if it is one of ``words``, becomes the other one; space around it stays."""
    known = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    pattern = re.compile(rf"<{element}\s*>\s*(?P<word>{known})\s*</{element}\s*>")

    def fix(text: str, place: int) -> list[Edit]:
        found = pattern.match(text, place)
        return [] if found is None else [Edit(*found.span("word"), words[found["word"]])]

    return fix


def build_removal_fix(element: str) -> Fix:
    """The element goes, with its line where it has one to itself."""
    pattern = re.compile(rf"<{element}\s*>[^<]*</{element}\s*>|<{element}\s*/>")

    def fix(text: str, place: int) -> list[Edit]:
        found = pattern.match(text, place)
        if found is None:
            return []
        begin, end = found.span()
        line = text.rfind("\n", 0, begin) + 1
        if not text[line:begin].strip() and text[end : end + 1] in ("\n", ""):
            begin, end = line, end + 1
        return [Edit(begin, end, "")]

    return fix


def fix_plain_text(text: str, place: int) -> list[Edit]:
    """Remove the byte order mark, and end lines with line feeds only."""
    mark = [Edit(0, 1, "")] if text.startswith("\ufeff") else []
    return mark + [Edit(*found.span(), "\n") for found in re.finditer("\r\n?", text)]


FIXES: Mapping[str, Fix] = {
    "X017": fix_plain_text,
    "D001": build_rename_fix("TopicDefinition", "Topic"),
    "D002": build_rename_fix("Topic", "Name"),
    "D003": build_rename_fix("ViewDefinition", "View"),
    "D004": build_rename_fix("QueueDefinition", "Queue"),
    "D005": build_rename_fix("ReplicaDefinition", "ConflatedTopic"),
    "D006": build_rename_fix("TopicMetaData", "SOW"),
    "D007": build_rename_fix("Duration", "Durability"),
    "D009": build_rename_fix("MinJournalSize", "JournalSize"),
    "D010": build_word_fix("Protocol", {"json": "amps"}),
    "D011": build_word_fix("Level", {"debug": "info"}),
    "D015": build_removal_fix("FileName"),
    "D016": build_rename_fix("Type", "Module"),
    "D019": build_word_fix("Module", MODULE_CORRECTIONS),
}
"""By the id of a rule, what mends its findings."""


def fix_text(text: str, name: str, judge: Callable[[str], Sequence[Finding]]) -> Fixed:
    """Return ``text`` of the file ``name`` with all findings of ``judge`` fixed that a row of ``FIXES`` can fix.

    A round after which there would be more errors is not taken.
    """
    mended: Counter[str] = Counter()
    findings = judge(text)
    for _ in range(MAX_FIX_ROUNDS):
        rules, edits = _collect_edits(text, name, findings)
        if not edits:
            break
        changed = apply_edits(text, edits)
        judged = judge(changed)
        # The proof that a fix was safe is the judge itself, not the table. A module whose name is right at last may
        # lack an option: as many errors as before, and one that is closer to the truth.
        if _count_errors(judged) > _count_errors(findings):
            break
        mended.update(rules)
        text, findings = changed, judged
    return Fixed(text, mended)


def _collect_edits(text: str, name: str, findings: Sequence[Finding]) -> tuple[list[str], list[Edit]]:
    """The rules mended in one round, and their edits in the order of the text, none upon another."""
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    rules: list[str] = []
    edits: list[Edit] = []
    for finding in findings:
        line, column = finding.place.line, finding.place.column
        if finding.id not in FIXES or finding.place.file != name or line is None or line > len(lines):
            continue
        made = FIXES[finding.id](text, lines[line - 1] + (column or 1) - 1)
        both = sorted([*edits, *made])
        if made and all(one.end <= other.begin for one, other in pairwise(both)):
            rules.append(finding.id)
            edits = both
    return rules, edits


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text after edits that are in its order, none upon another."""
    return "".join(_iterate_pieces(text, edits))


def _iterate_pieces(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    done = 0
    for edit in edits:
        yield text[done : edit.begin]
        yield edit.text
        done = edit.end
    yield text[done:]


def _count_errors(findings: Sequence[Finding]) -> int:
    return sum(finding.level >= Level.ERROR for finding in findings)
