"""``sowctl info``: topics, stores and queues of an instance."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import Argument, declare_part
from sowctl.errors import SowError

EXAMPLES = (
    "sowctl info",
    "sowctl info orders --format json",
    "sowctl info --columns topic,records,file_bytes --format csv",
    "sowctl info sow/orders.json.sow",
)


class InfoArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl info``."""

    targets: Annotated[
        list[str] | None, Argument("TARGET", "Topics, views, .sow files or patterns. Default: all.", complete="target")
    ] = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: InfoArguments) -> int:
    """List topics with type, number of records, size, free pages, position, lag behind the journal and last update.

    The formats for programs also have the size of the memory map of a store, its readers and which of them holds the
    oldest state, how long that process has been running at most, the number of pages kept for it, and the number of
    files left by killed processes. If the journal or sorted runs have changes that a store has not applied, they also
    say what the next command that writes does with these, and why (flush); --verbose prints this for people.

    Without TARGET, all topics of the configuration and those in the transaction log are listed. The number of records
    is that of query --count at the same time; for transient topics and missing stores it is computed from the journals.
    Records of logical topics are counted individually; they share the file of their Pattern topic. For queues, records
    are the pending messages as of the last queue command, with the number of leased messages and the age of the oldest
    one; the lag is the number of journal entries since, which queue info reads. A store that cannot be read is still
    listed, and the exit status is that of the first such error.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.rows import INFO_FIT, build_person_rows, build_topic_row
    from sowctl.engine.verbs.info import find_topic_info, list_topic_info

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance(*(arguments.targets or ())) as instance:
        problems: list[SowError] = []
        found = (
            [find_topic_info(instance, text, problems) for text in arguments.targets]
            if arguments.targets
            else [list_topic_info(instance, None, problems)]
        )
        now = instance.now
    rows = [row for some in found for row in some]
    for row in rows if sink.is_for_person else ():
        if row.flush is not None:
            invocation.note_detail(f"topic {row.topic}: {row.flush}")
    if sink.is_for_person and arguments.output.columns is None:
        sink.write_rows(build_person_rows(rows, now), INFO_FIT)
    else:
        sink.write_rows(
            build_topic_row(row, brief=sink.format == "table" and arguments.output.columns is None) for row in rows
        )
    for problem in problems[1:]:
        invocation.warn(problem.message, code=problem.code, place=problem.place, hint=problem.hint)
    if problems:
        raise problems[0]
    return 0
