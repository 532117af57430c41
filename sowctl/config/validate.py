"""``validate_config``: every error that would stop an instance, as findings in file order.

The function of ``sowctl validate``. It never raises for the content of a file, only if there is no file to read.
Structure, types and ranges come from the element table, the rest from the table of rules; warnings and advice use the
same tables and belong to lint. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from sowctl.config.document import Document, ElementNode, SourceFile
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.expression_texts import check_text
from sowctl.config.load import load_for_checks
from sowctl.config.rules.survey import Survey
from sowctl.config.rules.table import RULES, index_rules
from sowctl.config.structure import check_element
from sowctl.config.suggestions import has_misspelled_child
from sowctl.findings import Finding, Level

_TOPIC_NAMES = frozenset({"UnderlyingTopic", "Name"})
_IMPLIED_RULES = {"F006": ("F016", "S035", "F018")}
"""By a rule about an element, rules not reported for the same element: a Filter to be removed is not checked
further."""
_SECTION_RULES: dict[str, tuple[str, ...]] = {
    "MessageTypes": ("R001",),
    "Modules": ("R002", "F019"),
    "Protocols": ("R003", "R010"),
    "Transports": ("R010", "R011"),
    "SOW": ("R004", "R011", "R017"),
    "TransactionLog": ("R008", "R009", "R014", "R023", "R028", "F029", "F031"),
    "Replication": ("R016",),
}
"""By section, the rules that look there for the target of a reference."""
_OTHER_NAMES = {"SOW": ("TopicMetaData",)}


def validate_config(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    given: bytes | None = None,
) -> list[Finding]:
    """All errors of a configuration, sorted by place; an empty list means that nothing would stop an instance.

    With ``fragment`` the file may hold parts of a configuration; ``given`` is as for
    :func:`sowctl.config.load.read_document`. Raises :class:`~sowctl.errors.ConfigError` SOW-CFG-030 if the file cannot
    be read.
    """
    findings = inspect_config(
        path, environment=environment, defines=defines, fragment=fragment, least=Level.ERROR, given=given
    )
    return [finding for finding in findings if finding.level >= Level.ERROR]


def inspect_config(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    least: Level = Level.ADVICE,
    given: bytes | None = None,
) -> list[Finding]:
    """All findings, sorted by place, without duplicates; rules whose findings are all below ``least`` are not run.

    Raises as :func:`validate_config` does.
    """
    # Decided by the highest level of a rule: one that is mild at one place may be an error at another.
    wanted = frozenset(rule.id for rule in RULES if rule.worst_level >= least)
    findings, document = examine_config(
        path, wanted, environment=environment, defines=defines, fragment=fragment, given=given
    )
    return sort_findings(findings, () if document is None else document.sources, str(path))


def examine_config(
    path: str | Path,
    wanted: frozenset[str],
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    given: bytes | None = None,
) -> tuple[list[Finding], Document | None]:
    """The unsorted findings and the document; of the table of rules only the ``wanted`` ones are run.

    Findings of the loader, the element table and the expressions are always included. The document is None if it is
    unusable. Raises as :func:`validate_config` does.
    """
    document, findings = load_for_checks(path, environment=environment, defines=defines, fragment=fragment, given=given)
    if document is None:
        return findings, None
    # A value with a missing variable is not the final value, so other findings about it are dropped.
    unset = {finding.place.element or "" for finding in findings if finding.id == "X009"}
    findings.extend(found for found in _check_document(document, wanted, unset) if found.place.element not in unset)
    return _drop_implied(findings), document


def _drop_implied(findings: list[Finding]) -> list[Finding]:
    """The findings without those implied by another one about the same element."""
    spoken = {(echo, f.place.element) for f in findings for echo in _IMPLIED_RULES.get(f.id, ())}
    return [finding for finding in findings if (finding.id, finding.place.element) not in spoken]


def sort_findings(findings: Iterable[Finding], sources: Iterable[SourceFile], main: str) -> list[Finding]:
    """Return each finding once, with a hint: those of the main file by line and column, then those of each include."""
    # Several checks of one rule may yield the same finding.
    unique = {(finding.id, finding.place, finding.message): finding for finding in findings}
    order = {file: number for number, file in enumerate(dict.fromkeys((main, *(source.file for source in sources))))}
    for finding in unique.values():
        order.setdefault(finding.place.file, len(order))
    chosen = sorted(unique.values(), key=lambda f: (order[f.place.file], f.place.line or 0, f.place.column or 0, f.id))
    return [finding if finding.hint else replace(finding, hint=_find_advice(finding.id)) for finding in chosen]


def _find_advice(rule: str) -> str | None:
    """The text under ``Instead`` on the page of a rule."""
    from sowctl.config.rules.pages import find_page

    known = index_rules().get(rule)
    return None if known is None else find_page(known).instead.replace("``", "").removesuffix(".")


def _check_document(document: Document, wanted: frozenset[str], unset: Collection[str]) -> Iterator[Finding]:
    """The findings of the table and the rules, except about elements that were added around a fragment."""
    made_up = document.synthetic_paths
    return (finding for finding in _run_checks(document, wanted, unset) if finding.place.element not in made_up)


def _run_checks(document: Document, wanted: frozenset[str], unset: Collection[str]) -> Iterator[Finding]:
    survey = Survey(document.top, document.root)

    def deep(node: ElementNode, row: Element) -> Iterator[Finding]:
        # Without RegexTopicSupport these are names, whatever characters they have.
        if row.kind == "regex" and row.tag in _TOPIC_NAMES and not survey.has_regex_topics:
            return
        yield from check_text(node, row, survey.functions)

    yield from check_element(document.top, INSTANCE, deep)
    judged = wanted - find_unknowable_rules(document, unset)
    for rule in RULES:
        if rule.id in judged:
            yield from rule.run(survey)


def find_unknowable_rules(document: Document, unset: Iterable[str] = ()) -> frozenset[str]:
    """The rules that cannot be checked in this document; ``unset`` are the elements with an unset variable.

    A rule about undefined names is not checked if the section that would define them is unknown: absent from a
    fragment, added around its loose entries, misspelled, or incomplete because an include could not be read or a
    variable is not set. Ruled by ``sow-config(5)``, fragments.
    """
    # The section is the second step of a path, /AMPSConfig/SOW/..., without its number.
    holes = {element.split("/")[2].partition("[")[0] for element in unset if element.count("/") > 1}
    whole = document.top.complete and not document.fragment
    silent: set[str] = set()
    for section, rules in _SECTION_RULES.items():
        nodes = list(document.top.find_all(section, *_OTHER_NAMES.get(section, ())))
        if not nodes:
            # A misspelt section may hold the targets of references.
            known = whole and not has_misspelled_child(document.top, section)
        else:
            known = all(node.complete and node.inner >= 0 and node.tag not in holes for node in nodes)
        if not known:
            silent.update(rules)
    return frozenset(silent)
