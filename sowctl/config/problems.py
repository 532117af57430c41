"""From a rule and a place to a finding, and from a finding to the error that stops a command.

Rules have the published numbers of ``sow-config(5)``; the error code of a rule follows from its number: X001 is
SOW-CFG-001, S001 SOW-CFG-101, F001 SOW-CFG-201, R001 SOW-CFG-301. Reasons without a rule have a code of their own.
"""

from __future__ import annotations

from sowctl.config.document import ElementNode
from sowctl.errors import ConfigError
from sowctl.findings import Finding, Level, Place

TOO_LARGE_CODE = "SOW-CFG-020"
TOO_DEEP_CODE = "SOW-CFG-021"
TOO_MANY_CODE = "SOW-CFG-022"
UNREADABLE_CODE = "SOW-CFG-030"
UNKNOWN_WORD_CODE = "SOW-CFG-040"
UNUSED_WORD_CODE = "SOW-CFG-041"
NO_STAND_IN_CODE = "SOW-CFG-042"
_MAX_MESSAGE_CHARACTERS = 600
_FAMILY_CODE_OFFSETS = {"X": 0, "S": 100, "F": 200, "R": 300, "D": 400, "B": 500}


def find_error_code(rule: str) -> str:
    """The error code of a rule id; a code is returned unchanged."""
    if rule.startswith("SOW-"):
        return rule
    return f"SOW-CFG-{_FAMILY_CODE_OFFSETS[rule[0]] + int(rule[1:]):03d}"


def build_node_finding(
    rule: str,
    node: ElementNode,
    message: str,
    hint: str | None = None,
    *,
    level: Level = Level.ERROR,
    place: Place | None = None,
) -> Finding:
    """A finding at a node, or at a ``place`` inside its text, with the source line as its excerpt.

    The middle of the message is omitted if a value of the file makes it too long.
    """
    where = node.place if place is None else place
    excerpt = None
    # The excerpt is cut from this node's file; a place in another file has none here.
    if where.line is not None and where.column is not None and where.file == node.source.file:
        excerpt = node.source.build_excerpt(where.line, where.column)
    return Finding(rule, level, where, clip_text(message), None if hint is None else clip_text(hint), excerpt)


def clip_text(text: str) -> str:
    """The text, without its middle if it is too long for a message."""
    return (
        text
        if len(text) <= _MAX_MESSAGE_CHARACTERS
        else f"{text[: _MAX_MESSAGE_CHARACTERS // 2]}...{text[-_MAX_MESSAGE_CHARACTERS // 4 :]}"
    )


def build_config_error(finding: Finding) -> ConfigError:
    """The error of a command that stops at this finding."""
    # A reason without a rule has a code of its own, and no page of rules.
    facts = {} if finding.id.startswith("SOW-") else {"rule": finding.id}
    if finding.place.element is not None:
        facts["element"] = finding.place.element
    return ConfigError(
        find_error_code(finding.id),
        finding.message,
        place=str(finding.place),
        hint=finding.hint,
        excerpt=finding.excerpt,
        **facts,
    )
