"""sowctl-errors(7): every error code with its exit status, its reason and what to do, from :mod:`sowctl.codes`."""

from __future__ import annotations

from pathlib import Path

from sowctl.cli.manual.commandpages import PAGE_SOURCE
from sowctl.cli.manual.roff import Items, ManualPage, Paragraph, Section, format_roff
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.codes import ERROR_AREAS, ErrorCode, load_codes
from sowctl.version import RELEASE_DATE

_ABOUT_TEXT = (
    "Every error has a code, SOW- with three letters for the area and three digits. A code stands for one "
    "reason: scripts may rely on it, and on the exit status that belongs to it. The words of a message may change.",
    "An error is written to standard error, as text or with --error-format json as one line of JSON with the members "
    "code, exit and message, and place and hint where there are any. Refused messages of a publish and findings of "
    "sowctl check have codes of the same table. A finding that is only a warning leaves the exit status as it is.",
    "sowctl explain CODE shows the text of one code, sowctl explain SOW-STO lists an area.",
)
_RULES_TEXT = (
    "A configuration that breaks a rule is refused with the code of the rule, exit status 4: SOW-CFG-001 and on for "
    "the rules X001 and on, SOW-CFG-101 for S001, SOW-CFG-201 for F001, SOW-CFG-301 for R001. They are described with "
    "the rules in sowctl-lint(7); sowctl explain knows them, too."
)
_SEE_ALSO = (
    "sowctl(1), sowctl-explain(1), sow-config(5), sow-journal(5), sow-store(5), sowctl-behaviour(7), "
    "sowctl-expressions(7), sowctl-lint(7), sowctl-messages(7)"
)


def generate_pages(directory: Path) -> dict[str, str]:
    """The page by its name; ``directory`` has no prose for it."""
    return {"sowctl-errors.7": format_roff(build_errors_page())}


def build_errors_page() -> ManualPage:
    """The page as values."""
    codes = load_codes()
    areas = []
    for beginning, area in ERROR_AREAS.items():
        items = Items(tuple(_build_item(code) for code in codes.values() if code.code.startswith(beginning)))
        before = (Paragraph(_RULES_TEXT),) if beginning == "SOW-CFG" else ()
        areas.append(Section(f"{beginning}: {area.title}".upper(), (*before, items)))
    statuses = Items(tuple((str(status), words) for status, words in EXIT_STATUSES))
    sections = (
        Section("NAME", (Paragraph("sowctl-errors - error codes: what they mean, and what to do"),)),
        Section("DESCRIPTION", tuple(Paragraph(text) for text in _ABOUT_TEXT)),
        *areas,
        Section("EXIT STATUS", (statuses,)),
        Section("SEE ALSO", (Paragraph(_SEE_ALSO),)),
    )
    return ManualPage("sowctl-errors", 7, RELEASE_DATE, PAGE_SOURCE, sections, "sowctl/codes")


def _build_item(code: ErrorCode) -> tuple[str, str]:
    """Tag and text: title and exit status, the reason, what to do, a page where it is not the area's."""
    status = f"exit status {code.status}" if code.status else "a finding that changes no exit status"
    lines = [f"{code.title[:1].upper()}{code.title[1:]}; {status}.", code.why, f"What to do: {code.action}"]
    if code.page != ERROR_AREAS[code.code[:7]].page:
        lines.append(f"See {code.page}.")
    return code.code, "\n".join(lines).replace("``", "")
