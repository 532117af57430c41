"""``lint --fix``: fix findings that have one safe fix in the text of the file.

A fix changes only the words that the finding is about: comments, indentation and the order of elements stay. Each fix
is a row of :data:`FIXES`; a finding of any other rule needs a decision by the user. Values from ``${...}`` are not
changed, because the text does not contain them. Ruled by ``sowctl-lint(7)``, FIXES.
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
"""Maximum number of rounds of lint and fixes: a fix may reveal further findings."""


class Edit(Struct, frozen=True, order=True):
    """The characters from ``begin`` to ``end`` become ``text``."""

    begin: int
    end: int
    text: str


Fix = Callable[[str, int], list[Edit]]
"""``(text, place) -> edits``; the place is the first character of the element. No edits unless the fix is certain."""


class Fixed(Struct, frozen=True):
    """A text with its fixes, and the number of fixed findings by rule."""

    text: str
    mended: Counter[str]


def build_rename_fix(old: str, new: str) -> Fix:
    """Rename the start tag at the place and its end tag."""
    tags = re.compile(rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?P<end>/?){old}(?=[\s/>])[^<>]*?(?P<empty>/?)>", re.DOTALL)

    def fix(text: str, place: int) -> list[Edit]:
        depth = 0
        edits = [Edit(place + 1, place + 1 + len(old), new)]
        for tag in tags.finditer(text, place):
            if tag["end"] is None:
                continue  # a comment or CDATA: tags in it do not count
            if tag.start() == place and tag["empty"]:
                return edits
            depth += -1 if tag["end"] else 0 if tag["empty"] else 1
            # An element of the same name may be nested, such as Topic in a TopicDefinition's Topic.
            if depth <= 0:
                return [*edits, Edit(tag.start() + 2, tag.start() + 2 + len(old), new)] if tag["end"] else []
        return []

    return fix


def build_word_fix(element: str, words: Mapping[str, str]) -> Fix:
    """Replace the element's whole text if it is one of ``words``; space around it stays."""
    known = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    pattern = re.compile(rf"<{element}\s*>\s*(?P<word>{known})\s*</{element}\s*>")

    def fix(text: str, place: int) -> list[Edit]:
        found = pattern.match(text, place)
        return [] if found is None else [Edit(*found.span("word"), words[found["word"]])]

    return fix


def build_removal_fix(element: str) -> Fix:
    """Remove the element, and its line if nothing else is in it."""
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
    """Remove the byte order mark and convert line ends to line feeds."""
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
"""The fix of a rule's findings, by the id of the rule."""


def fix_text(text: str, name: str, judge: Callable[[str], Sequence[Finding]]) -> Fixed:
    """Return ``text`` of the file ``name`` with all findings of ``judge`` fixed that have a row in ``FIXES``.

    A round that would increase the number of errors is discarded.
    """
    mended: Counter[str] = Counter()
    findings = judge(text)
    for _ in range(MAX_FIX_ROUNDS):
        rules, edits = _collect_edits(text, name, findings)
        if not edits:
            break
        changed = apply_edits(text, edits)
        judged = judge(changed)
        # The proof that a fix was safe is the judge, not the table. A module with its corrected name may lack an
        # option: the number of errors stays equal, and the new error is more useful.
        if _count_errors(judged) > _count_errors(findings):
            break
        mended.update(rules)
        text, findings = changed, judged
    return Fixed(text, mended)


def _collect_edits(text: str, name: str, findings: Sequence[Finding]) -> tuple[list[str], list[Edit]]:
    """The rules fixed in one round, and their edits in the order of the text, without overlaps."""
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
    """The text after ``edits``, which are in its order and do not overlap."""
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
