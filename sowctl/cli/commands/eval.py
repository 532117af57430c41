"""``sowctl eval``: an expression over messages from files and pipes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Framing, NullFraming
from sowctl.declarations import Argument, declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl eval 'CONCAT(/symbol, UPPER(/region))' orders.ndjson",
    "sowctl eval --filter \"/price > 90 AND /region = 'EMEA'\" orders.ndjson",
    "cat fills.ndjson | sowctl eval --filter '/qty >= 1000'",
    "echo '{\"a\":1}' | sowctl eval '/a + 1'",
    "printf '55=IBM\\00138=5\\001' | sowctl eval --message-type fix 'CONCAT(/55, /38)'",
)


class EvalArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl eval``."""

    expression: Annotated[str, Argument("EXPR", "Expression; see sowctl-expressions(7).")]
    files: Annotated[
        list[str] | None, Argument("FILE", "Files with messages; - or none reads standard input.", complete="file")
    ] = None
    filter: Annotated[
        bool, declare_option("--filter", "-f", help="Print the messages for which the expression is true, unchanged.")
    ] = False
    message_type: Annotated[
        str, declare_option("--message-type", help="Type of the messages; see sowctl-messages(7).", metavar="TYPE")
    ] = "json"
    framing: Framing = None
    null: NullFraming = False
    on_error: Annotated[
        str, declare_option("--on-error", help="On an invalid message: stop, or skip it.", choices=("stop", "skip"))
    ] = "stop"
    explain: Annotated[
        bool, declare_option("--explain", help="Print how the expression is evaluated; read no messages.")
    ] = False
    json: Annotated[
        bool,
        declare_option("--json", help="Print one JSON array of the values; with --filter, of the JSON messages."),
    ] = False


def run(invocation: Invocation, arguments: EvalArguments) -> int:
    """Evaluate an expression for each message, without a store.

    A configuration is read only if it is named by --config or if TYPE is not built in; a configuration named by
    --config or SOWCTL_CONFIG also adds the functions of its modules, see sowctl-plugins(7). The output is one JSON
    value per message and line; with --filter, the messages for which the expression is true, with their framing. The
    exit status is 2 if the expression does not compile, 3 if a message was rejected, and 7 if a pattern took too many
    steps.
    """
    from sowctl.cli.commands.bodies.eval import evaluate_inputs, show_plan

    if arguments.json and arguments.explain:
        raise UsageError("SOW-CLI-012", "--json and --explain exclude each other", hint="give one of them")
    if arguments.explain:
        show_plan(invocation, arguments.expression, as_filter=arguments.filter)
        return 0
    return evaluate_inputs(
        invocation,
        arguments.expression,
        arguments.files or ["-"],
        matches=arguments.filter,
        message_type=arguments.message_type,
        framing="nul" if arguments.null else arguments.framing,
        skips=arguments.on_error == "skip",
        as_json=arguments.json,
    )
