"""``sowctl browse``: an instance in the terminal browser."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, LiteralTopic, MessageType
from sowctl.cli.streams import is_terminal
from sowctl.declarations import Argument
from sowctl.errors import UsageError
from sowctl.extras import build_missing_package_error

EXAMPLES = (
    "sowctl browse",
    "sowctl browse orders",
)


class BrowseArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl browse``."""

    target: Annotated[str | None, Argument("TARGET", "Topic or view to open first.", complete="target")] = None
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    fix_names: FixNames = False


def run(invocation: Invocation, arguments: BrowseArguments) -> int:
    """Browse topics, their records, the history of a record, queues and the journal on a terminal.

    The bottom line shows the keys of each screen, ? explains them. The arrows, j, k, PageUp and PageDown move; beyond
    the last line, further records are read. Enter opens the selected item, Escape goes back, q quits. Among records, /
    edits a filter, which is applied while you type, with errors and their position below; o edits the sort order, s
    sorts by the selected column. A record shows its versions, newest first, with the changes of each. In the list of
    topics, J follows the journal, and u lists the queues; a queue shows its messages by state, without leasing them.

    Data is read in the background, so large stores do not block the keyboard; a new request cancels the previous one.
    Nothing is changed except for memo indexes, which queries build, and the states of queues, which follow the journal.
    The command requires the extra tui.
    """
    streams = invocation.streams
    if not (is_terminal(streams.stdin) and is_terminal(streams.stdout)) or invocation.environ.get("TERM") == "dumb":
        raise UsageError(
            "SOW-TUI-002",
            "the browser requires a terminal that can position text",
            hint="sowctl query, history and journal tail print the same",
        )
    try:
        from sowctl.browse.app import run_browser
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        words = "the browser requires the package textual, which is not installed"
        raise build_missing_package_error("SOW-TUI-001", words, "tui") from None
    with invocation.open_instance(
        *([arguments.target] if arguments.target else []), fix_names=arguments.fix_names
    ) as instance:
        if arguments.target is None:
            return run_browser(instance, None, "")
        from sowctl.engine.topics.targets import resolve_targets

        (first, *others) = resolve_targets(
            instance, arguments.target, arguments.message_type, literal=arguments.literal_topic, derived=True
        )
        if others or first.topic is None:
            raise UsageError(
                "SOW-TUI-003",
                f"{arguments.target!r} is not a single topic",
                hint="name one topic, or none for the list",
            )
        return run_browser(instance, f"[{first.topic.message_type}].[{first.topic.label}]", first.topic.label)
