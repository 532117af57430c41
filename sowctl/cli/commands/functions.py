"""``sowctl functions``: the functions of the expression language."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import NegativeError

EXAMPLES = (
    "sowctl functions",
    "sowctl functions substr",
    "sowctl functions --format json",
    "sowctl functions -c sowctl.xml",
)


class FunctionsArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl functions``."""

    name: Annotated[
        str | None, Argument("NAME", "Name of a function; not case-sensitive. Default: all.", complete="function")
    ] = None
    format: Annotated[
        str,
        declare_option(
            "--format",
            "-F",
            help="Output format.",
            choices=("text", "json"),
            document=True,
        ),
    ] = "text"


def run(invocation: Invocation, arguments: FunctionsArguments) -> int:
    """List the functions of the expression language by group, or describe one of them.

    The description of a function has its arguments, its result, its handling of NULL, and where it cannot be used. For
    the language itself, see sowctl-expressions(7). If --config or SOWCTL_CONFIG names a configuration, the functions of
    its modules are included; see sowctl-plugins(7). The exit status is 1 if there is no such function.
    """
    from sowctl.cli.configuration import list_added_functions
    from sowctl.expressions.functions.table import FUNCTION_TABLE, format_entry, format_entry_list
    from sowctl.expressions.syntax.errors import find_near_names

    table = (*FUNCTION_TABLE, *list_added_functions(invocation))
    chosen = table
    if arguments.name is not None:
        wanted = arguments.name.upper().removesuffix("()")
        chosen = tuple(entry for entry in table if entry.name == wanted)
        if not chosen:
            near = find_near_names(wanted, [entry.name for entry in table])
            hint = f"did you mean {' or '.join(near)}?" if near else "sowctl functions lists them all"
            raise NegativeError("SOW-CLI-027", f"unknown function {wanted}", hint=hint)
    if arguments.format == DOCUMENT:
        from sowctl.cli.io.report_output import write_rows_document

        write_rows_document(invocation, [entry.build_facts() for entry in chosen])
        return 0
    if arguments.format == "json":
        import json

        lines = [json.dumps(entry.build_facts()) for entry in chosen]
    else:
        lines = format_entry_list(chosen) if arguments.name is None else format_entry(chosen[0])
    from sowctl.cli.io.output_sink import show_list

    show_list(invocation, lines)
    return 0
