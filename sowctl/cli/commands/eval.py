"""``sowctl eval``: an expression over messages from files and pipes."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Framing, NullFraming

EXAMPLES = (
    "sowctl eval 'CONCAT(/symbol, UPPER(/region))' orders.ndjson",
    "sowctl eval --filter \"/price > 90 AND /region = 'EMEA'\" orders.ndjson",
    "cat fills.ndjson | sowctl eval --filter '/qty >= 1000'",
    "echo '{\"a\":1}' | sowctl eval '/a + 1'",
    "printf '55=IBM\\00138=5\\001' | sowctl eval --message-type fix 'CONCAT(/55, /38)'",
)


def run(
    invocation: Invocation,
    expression: Annotated[str, Argument("EXPR", "the expression; see sowctl-expressions(7)")],
    files: Annotated[
        list[str] | None, Argument("FILE", "files with messages; - or none: standard input", complete="file")
    ] = None,
    filter: Annotated[
        bool, option("--filter", "-f", help="print the messages for which the expression is true, as they came")
    ] = False,
    message_type: Annotated[
        str, option("--message-type", help="the type of the messages; see sowctl-messages(7)", metavar="TYPE")
    ] = "json",
    framing: Framing = None,
    null: NullFraming = False,
    on_error: Annotated[
        str, option("--on-error", help="at a bad message: stop there, or skip it", choices=("stop", "skip"))
    ] = "stop",
    explain: Annotated[
        bool, option("--explain", help="print how the expression is evaluated, and read no message")
    ] = False,
) -> int:
    """Evaluate an expression over every message, without a store.

    A configuration is read only for message types that it defines, where --config names it or TYPE is not built in,
    and, where --config or SOWCTL_CONFIG names it, for the functions that its modules add; see sowctl-plugins(7).
    Prints the value for each message as one JSON value a line; with --filter the messages themselves for which the
    expression is true, framed as they came. Ends with status 2 for an expression that does not compile, 3 where a
    message was refused, 7 where a pattern needed too many steps.
    """
    from sowctl.cli.commands.bodies.eval import evaluate_inputs, show_plan

    if explain:
        show_plan(invocation, expression, as_filter=filter)
        return 0
    return evaluate_inputs(
        invocation,
        expression,
        files or ["-"],
        matches=filter,
        message_type=message_type,
        framing="nul" if null else framing,
        skips=on_error == "skip",
    )
