"""Findings as workflow commands of GitHub Actions, which shows them beside the lines of the file."""

from __future__ import annotations

from sowctl.config.rules.table import index_rules
from sowctl.findings import Finding, Level
from sowctl.output.display import escape_line

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "notice", Level.ADVICE: "notice"}


def as_github(finding: Finding) -> str:
    """``::error file=amps.xml,line=4,col=7,title=S022 persistent-without-file::message (hint)``."""
    rule = index_rules().get(finding.id)
    title = finding.id if rule is None else f"{finding.id} {rule.title}"
    named = {"file": finding.place.file, "line": finding.place.line, "col": finding.place.column, "title": title}
    properties = ",".join(
        f"{name}={_escape_property(escape_line(str(value)))}" for name, value in named.items() if value is not None
    )
    message = finding.message if finding.hint is None else f"{finding.message} ({finding.hint})"
    return f"::{_COMMANDS[finding.level]} {properties}::{_escape_data(escape_line(message))}"


def _escape_data(text: str) -> str:
    # The percent sign first, because the other escapes contain it.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
