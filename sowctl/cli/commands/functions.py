"""``sowctl functions``: the functions of the expression language."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.errors import NegativeError

EXAMPLES = (
    "sowctl functions",
    "sowctl functions substr",
    "sowctl functions --format json",
    "sowctl functions -c sowctl.xml",
)


def run(
    invocation: Invocation,
    name: Annotated[
        str | None, Argument("NAME", "one function, in any letter case; default all", complete="function")
    ] = None,
    format: Annotated[str, option("--format", "-F", help="how they are written", choices=("text", "json"))] = "text",
) -> int:
    """List the functions of the expression language by group, or describe one of them.

    For one function: its arguments, its result, what it makes of NULL, and where it may not stand. The language itself
    is described in sowctl-expressions(7). With --config, or where SOWCTL_CONFIG names a configuration, also the
    functions that its modules add; see sowctl-plugins(7). Ends with status 1 where there is no function of that name.
    """
    from sowctl.cli.configuring import added_functions
    from sowctl.expressions.functions.table import TABLE, described, listed
    from sowctl.expressions.syntax.errors import near_names

    table = (*TABLE, *added_functions(invocation))
    chosen = table
    if name is not None:
        wanted = name.upper().removesuffix("()")
        chosen = tuple(entry for entry in table if entry.name == wanted)
        if not chosen:
            near = near_names(wanted, [entry.name for entry in table])
            hint = f"did you mean {' or '.join(near)}?" if near else "sowctl functions lists them all"
            raise NegativeError("SOW-CLI-027", f"there is no function {wanted}", hint=hint)
    if format == "json":
        import json

        lines = [json.dumps(entry.facts()) for entry in chosen]
    else:
        lines = listed(chosen) if name is None else described(chosen[0])
    invocation.streams.stdout.write("\n".join(lines).encode() + b"\n")
    return 0
