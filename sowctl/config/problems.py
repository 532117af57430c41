"""From a rule and a place to a finding, and from a finding to the error that stops a command.

Rules have the published numbers of ``sow-config(5)``; the error code of a rule follows from its number: X001 is
SOW-CFG-001, S001 SOW-CFG-101, F001 SOW-CFG-201, R001 SOW-CFG-301. Reasons without a rule have a code of their own.
"""

from __future__ import annotations

from sowctl.config.document import ElementNode
from sowctl.errors import ConfigError
from sowctl.findings import Finding, Level, Place

TOO_LARGE = "SOW-CFG-020"
TOO_DEEP = "SOW-CFG-021"
TOO_MANY = "SOW-CFG-022"
UNREADABLE = "SOW-CFG-030"
UNKNOWN_WORD = "SOW-CFG-040"
UNUSED_WORD = "SOW-CFG-041"
NO_STAND_IN = "SOW-CFG-042"
_LONGEST = 600
_FAMILIES = {"X": 0, "S": 100, "F": 200, "R": 300, "D": 400, "B": 500}


def code_of(rule: str) -> str:
    """The error code of a rule id; a code stays as it is."""
    if rule.startswith("SOW-"):
        return rule
    return f"SOW-CFG-{_FAMILIES[rule[0]] + int(rule[1:]):03d}"


def at_node(
    rule: str,
    node: ElementNode,
    message: str,
    hint: str | None = None,
    *,
    level: Level = Level.ERROR,
    place: Place | None = None,
) -> Finding:
    """A finding at a node, or at a ``place`` inside its text, with the source line as its excerpt.

    The middle of a message is left out where a value of the file makes it too long to be read.
    """
    where = node.place if place is None else place
    excerpt = None
    # The excerpt is cut out of this node's file; a place in another one has none here.
    if where.line is not None and where.column is not None and where.file == node.source.file:
        excerpt = node.source.excerpt(where.line, where.column)
    return Finding(rule, level, where, clipped(message), None if hint is None else clipped(hint), excerpt)


def clipped(text: str) -> str:
    """The text, without its middle where it is too long for a message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 4 :]}"


def as_error(finding: Finding) -> ConfigError:
    """The error with which a command stops at this finding."""
    # A reason without a rule has a code of its own, and no page of rules to look it up in.
    facts = {} if finding.id.startswith("SOW-") else {"rule": finding.id}
    if finding.place.element is not None:
        facts["element"] = finding.place.element
    return ConfigError(
        code_of(finding.id),
        finding.message,
        place=str(finding.place),
        hint=finding.hint,
        excerpt=finding.excerpt,
        **facts,
    )
