"""Findings as text for people or as JSON lines for programs, in the order of discovery."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sowctl.findings import Finding, Level
from sowctl.output.display import escape_line, escape_lines
from sowctl.output.facts import wrap_words

Style = Callable[[str, str], str]
"""``(kind, text) -> text``, in colour or not; kinds are error, warning, note and hint."""

_KINDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note", Level.ADVICE: "note"}
_PLURALS = {
    Level.ERROR: ("error", "errors"),
    Level.WARNING: ("warning", "warnings"),
    Level.INFO: ("note", "notes"),
    Level.ADVICE: ("piece of advice", "pieces of advice"),
}


def as_text(finding: Finding, style: Style, columns: int | None = None) -> str:
    """``file:line:column: error[ID]: message``, the excerpt and the hint, without a trailing line feed.

    Lines longer than ``columns`` are broken between words, except those of the excerpt.
    """
    head = f"{finding.level.name.lower()}[{finding.id}]"
    element = f" {escape_line(finding.place.element)}:" if finding.place.element else ""
    first = f"{escape_line(str(finding.place))}:{element} {head}: {escape_line(finding.message)}"
    # The label contains no space, so it is never broken.
    lines = ["\n".join(_fold_line(first, columns)).replace(head, style(_KINDS[finding.level], head), 1)]
    if finding.excerpt:
        lines += ["  " + line for line in escape_lines(finding.excerpt).split("\n")]
    if finding.hint:
        folded = "\n".join(_fold_line(f"hint: {escape_line(finding.hint)}", columns, "  "))
        lines.append(folded.replace("hint", style("hint", "hint"), 1))
    return "\n".join(lines)


def _fold_line(text: str, columns: int | None, indent: str = "") -> Iterator[str]:
    return iter([indent + text]) if columns is None else wrap_words(text, columns, indent, indent + "  ")


def as_json(finding: Finding) -> str:
    """One line of JSON, ASCII only; the keys are those of :meth:`Finding.as_dict` and ``excerpt``."""
    row = finding.as_dict()
    if finding.excerpt is not None:
        row["excerpt"] = finding.excerpt
    return json.dumps(row)


class FindingCounter:
    """Counts the findings that pass through it by level."""

    def __init__(self) -> None:
        self.counts: Counter[Level] = Counter()

    def count_findings(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings unchanged, counting them."""
        for finding in findings:
            self.counts[finding.level] += 1
            yield finding

    def count_by_name(self) -> dict[str, int]:
        """The counts, zeros too: errors, warnings, notes."""
        notes = self.counts[Level.INFO] + self.counts[Level.ADVICE]
        return {"errors": self.counts[Level.ERROR], "warnings": self.counts[Level.WARNING], "notes": notes}

    def __str__(self) -> str:
        """``2 errors, 1 warning``; ``no findings`` if there were none."""
        parts = [f"{count} {_PLURALS[level][count != 1]}" for level, count in sorted(self.counts.items(), reverse=True)]
        return ", ".join(parts) or "no findings"
