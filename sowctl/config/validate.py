"""``validate``: every error that would stop an instance, as findings in the order of the file.

The engine-level function behind ``sowctl validate``. It never raises for what a file contains, only when there is no
file to read. Structure, types and ranges come from the element table, the rest from the table of rules; warnings and
advice use the same tables and belong to lint. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sowctl.config.document import Document, Node
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.load import load_collecting
from sowctl.config.rules.survey import Survey
from sowctl.config.rules.table import RULES
from sowctl.config.structure import check
from sowctl.config.texts import check_text
from sowctl.findings import Finding, Level

_TOPIC_NAMES = frozenset({"UnderlyingTopic", "Name"})


def validate(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
) -> list[Finding]:
    """All errors of a configuration, sorted by place; an empty list means that nothing would stop an instance.

    With ``fragment`` the file may hold parts of a configuration. Raises :class:`~sowctl.errors.ConfigError`
    SOW-CFG-030 when the file cannot be read at all.
    """
    findings = inspect(path, environment=environment, defines=defines, fragment=fragment, least=Level.ERROR)
    return [finding for finding in findings if finding.level >= Level.ERROR]


def inspect(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    least: Level = Level.ADVICE,
) -> list[Finding]:
    """All findings, sorted by place, each once; rules whose findings are all below ``least`` are not run.

    Raises as :func:`validate` does.
    """
    document, findings = load_collecting(path, environment=environment, defines=defines, fragment=fragment)
    if document is not None:
        findings.extend(_checked(document, least))
    unique = {(finding.id, finding.place, finding.message): finding for finding in findings}
    order = {name: number for number, name in enumerate(dict.fromkeys(f.place.file for f in findings))}
    main = str(path)
    return sorted(
        unique.values(),
        key=lambda f: (f.place.file != main, order[f.place.file], f.place.line or 0, f.place.column or 0, f.id),
    )


def _checked(document: Document, least: Level) -> Iterator[Finding]:
    survey = Survey(document.top, document.root)

    def deep(node: Node, row: Element) -> Iterator[Finding]:
        if row.kind == "regex" and row.tag in _TOPIC_NAMES and not survey.regex_topics:
            return
        yield from check_text(node, row, survey.functions)

    for finding in check(document.top, INSTANCE, deep):
        if not (document.fragment and finding.id == "S004"):
            yield finding
    for rule in RULES:
        if rule.worst >= least:
            yield from rule.run(survey)
