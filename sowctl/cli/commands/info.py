"""``sowctl info``: what there is."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument
from sowctl.cli.words.options import Columns, Format
from sowctl.errors import SowError

EXAMPLES = (
    "sowctl info",
    "sowctl info orders --format json",
    "sowctl info sow/orders.json.sow",
)


def run(
    invocation: Invocation,
    targets: Annotated[
        list[str] | None, Argument("TARGET", "topics, views, .sow files, or patterns; default all", complete="target")
    ] = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List topics with type, number of records, size, free pages, position, lag behind the journal and last update.

    Formats for programs also say how large the map of a store is, who reads it and has the oldest state, for how long
    that process runs at most, how many pages are kept for it, and how many files of killed processes lie beside it.

    Without TARGET every topic of the configuration is listed, and what the transaction log alone names. Records are
    those that query --count counts at the same clock; of a transient topic, and where a store is missing, that takes
    reading the journals. Of logical topics the records are counted one by one; their file is the Pattern topic's. Of a
    queue the records are its pending messages as the last command on it left them, with how many are leased and the age
    of the oldest; the lag is how many entries may have come since, which queue info reads. A store that cannot be read
    is listed all the same, and the status at the end is that of the first such error.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.rows import topic_row
    from sowctl.engine.verbs.info import info, named

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance(*(targets or ())) as instance:
        problems: list[SowError] = []
        found = [named(instance, text, problems) for text in targets] if targets else [info(instance, None, problems)]
    sink.write_rows(topic_row(row, brief=sink.format == "table") for rows in found for row in rows)
    for problem in problems[1:]:
        invocation.warn(problem.message, code=problem.code, place=problem.place, hint=problem.hint)
    if problems:
        raise problems[0]
    return 0
