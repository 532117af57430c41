"""The rules that a command stops at when it loads a configuration: those marked ``at_load`` in the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sowctl.config.document import Node
from sowctl.config.rules.survey import Survey
from sowctl.config.rules.table import RULES
from sowctl.findings import Finding


def first_error(top: Node) -> Iterator[Finding]:
    """Findings of those rules, lazily, in the order of the table."""
    survey = Survey(top, Path())
    for rule in RULES:
        if rule.at_load:
            yield from rule.run(survey)
