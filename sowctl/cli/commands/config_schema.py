"""``sowctl config schema``: the elements of a configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import NegativeError

EXAMPLES = (
    "sowctl config schema",
    "sowctl config schema Topic/SlabSize",
    "sowctl config schema --format json",
    "sowctl config schema --format relaxng > sowctl.rng",
)


class ConfigSchemaArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config schema``."""

    element: Annotated[str | None, Argument("ELEMENT", "Name, or the end of a path. Default: all.")] = None
    format: Annotated[
        str, declare_option("--format", "-F", help="Output format.", choices=("text", "json", "relaxng"), document=True)
    ] = "text"


def run(invocation: Invocation, arguments: ConfigSchemaArguments) -> int:
    """List the elements of a configuration, or describe one: value, default, unit, range, effect, other names.

    With --format json, each line is an object; --json prints one array. --format relaxng always prints a complete
    grammar for editors, which lists its limitations at the beginning. For the meaning of the elements, see
    sow-config(5). The exit status is 1 if there is no such element.
    """
    from sowctl.config import schema

    if arguments.format == "relaxng":
        from sowctl.config.relaxng import format_grammar

        lines = list(format_grammar())
    else:
        found = list(schema.iterate_rows(arguments.element))
        if not found:
            raise NegativeError(
                "SOW-CLI-034", f"unknown element {arguments.element!r}", hint=_build_hint(arguments.element or "")
            )
        if arguments.format == DOCUMENT:
            from sowctl.cli.io.report_output import write_rows_document

            write_rows_document(invocation, [row.build_facts() for row in found])
            return 0
        if arguments.format == "json":
            import json

            lines = [json.dumps(row.build_facts()) for row in found]
        elif arguments.element is None:
            lines = list(schema.format_row_list(found))
        else:
            lines = [line for row in found for line in schema.format_row_facts(row)]
    from sowctl.cli.io.output_sink import show_list

    show_list(invocation, lines)
    return 0


def _build_hint(element: str) -> str:
    from sowctl.config.schema import iterate_rows
    from sowctl.config.suggestions import find_nearest

    close = find_nearest(element.rpartition("/")[2], dict.fromkeys(row.row.tag for row in iterate_rows()))
    return f"did you mean {close}?" if close else "sowctl config schema lists them all"
