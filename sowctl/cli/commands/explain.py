"""``sowctl explain``: the meaning of error codes and exit statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = (
    "sowctl explain SOW-STO-024",
    "sowctl explain SOW-JRN-030 SOW-JRN-021",
    "sowctl explain SOW-PUB",
    "sowctl explain 11",
    "sowctl explain disk full",
    "sowctl explain SOW-ENG-011 --format json",
)


class ExplainArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl explain``."""

    codes: Annotated[
        list[str] | None,
        Argument(
            "CODE",
            "Codes, code prefixes such as SOW-STO, exit statuses, or words to search for. Default: list the areas.",
            complete="code",
        ),
    ] = None
    format: Annotated[
        str, declare_option("--format", "-F", help="Output format.", choices=("text", "json"), document=True)
    ] = "text"


def run(invocation: Invocation, arguments: ExplainArguments) -> int:
    """Explain error codes: the cause, the remedy, and the exit status of the command.

    A prefix such as SOW-STO lists the codes of an area, one per line. An exit status such as 11 is explained, followed
    by a list of the codes with that status. Codes are not case-sensitive, SOW- is optional, and IDs and titles of the
    rules of sowctl-lint(7) are accepted, too. Other words list the codes whose text contains all of them. disk-full,
    and the codes of a full disk, also list what can be removed in the instance, in order, with the sizes and the
    commands. With --format
    json, each line is an object; --json prints one array. Without a code, both print all codes. All codes are
    documented in sowctl-errors(7). The exit status is 2 if there is no such code.
    """
    import json

    from sowctl.cli.parsing.codes import explain_code, find_codes, parse_status, search_codes
    from sowctl.cli.parsing.helptext import choose_columns

    statuses = [parse_status(word) for word in arguments.codes or ()]
    try:
        wanted = [find_codes(word) for word in arguments.codes or ()]
    except UsageError:
        if not (found := search_codes(arguments.codes or ())):
            raise
        statuses, wanted = [None], [found]
    lines: list[str] = []
    if arguments.format in ("json", DOCUMENT):
        from sowctl.cli.parsing.codes import list_codes

        chosen = [code for found in wanted for code in found] if arguments.codes else list_codes()
        for code, rule in map(explain_code, chosen):
            parts = {"code": code.code, "exit": code.status, "title": code.title, "why": code.why}
            parts |= {"action": code.action, "page": code.page, "rule": rule.id if rule is not None else None}
            lines.append(json.dumps({name: _strip_quotes(value) for name, value in parts.items()}))
        if arguments.format == DOCUMENT:
            from sowctl.cli.io.report_output import write_lines_document

            write_lines_document(invocation, lines)
            return 0
    elif not arguments.codes:
        lines += _list_areas()
    else:
        for status, found in zip(statuses, wanted, strict=True):
            width = choose_columns(invocation.streams)
            if status is not None:
                lines += ["", *_format_status(status, width), *_list_codes(found)]
                continue
            lines += ["", *(_format_code(found[0], width) if len(found) == 1 else _list_codes(found))]
        lines = lines[1:]
        if _is_disk_full(arguments.codes):
            lines += _list_space(invocation)
    from sowctl.cli.io.output_sink import show_list

    show_list(invocation, lines)
    return 0


def _is_disk_full(words: list[str]) -> bool:
    """Return whether the words name a full disk, or one of its codes."""
    text = " ".join(words).replace("-", " ").lower()
    return text in ("disk full", "full disk") or text in DISK_FULL_CODES


DISK_FULL_CODES = ("sow jrn 021", "jrn 021", "sow sto 040", "sto 040")


def _list_space(invocation: Invocation) -> Iterator[str]:
    """List the space that can be freed in the instance, in order; empty without a configuration."""
    if not invocation.has_config():
        return
    from sowctl.cli.commands.bodies.doctor import format_reclaimable
    from sowctl.engine.maintenance.reclaimable import list_reclaimable
    from sowctl.errors import SowError
    from sowctl.output.display import escape_line

    try:
        with invocation.open_instance() as instance:
            found = list(list_reclaimable(instance))
    except SowError as error:
        invocation.note(f"what can be removed here is not listed: {error.message}")
        return
    yield ""
    yield "What can be removed here, in this order:" if found else "Nothing here can be removed."
    for number, one in enumerate(found, 1):
        yield f"{number}. {escape_line(format_reclaimable(one))}"
        yield f"   {escape_line(one.command)}"


def _list_areas() -> Iterator[str]:
    from sowctl.cli.parsing.codes import list_codes
    from sowctl.codes import ERROR_AREAS

    codes = list_codes()
    for beginning, area in ERROR_AREAS.items():
        count = sum(code.startswith(beginning) for code in codes)
        yield f"{beginning}  {count:>4}  {area.title}"


def _list_codes(codes: list[str]) -> Iterator[str]:
    from sowctl.cli.parsing.codes import explain_code

    return (f"{code}  {explain_code(code)[0].title}" for code in codes)


def _format_status(status: int, width: int) -> list[str]:
    import textwrap

    from sowctl.cli.parsing.codes import EXIT_STATUSES

    text = f"exit status {status}: {dict(EXIT_STATUSES)[status]}"
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False)


def _format_code(name: str, width: int) -> Iterator[str]:
    import textwrap

    from sowctl.cli.parsing.codes import explain_code

    code, rule = explain_code(name)
    yield f"{code.code} {code.title}" + (f" (rule {rule.id})" if rule is not None else "")
    if code.status:
        yield from _format_status(code.status, width)
    else:
        yield "reported as a finding; does not change the exit status"
    yield ""
    for heading, text in (("Why", code.why), ("Do", code.action), ("See", code.page)):
        yield from textwrap.wrap(
            f"{heading}: {_strip_quotes(text)}",
            width,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _strip_quotes(value: object) -> object:
    return value.replace("``", "") if isinstance(value, str) else value
