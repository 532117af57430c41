"""``sowctl info``: what there is."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.options import Columns, Format, Targets

EXAMPLES = (
    "sowctl info",
    "sowctl info orders --format json",
    "sowctl info sow/orders.json.sow",
)


def run(invocation: Invocation, targets: Targets = None, format: Format = None, columns: Columns = None) -> int:
    """List topics with type, number of records, size, position, lag behind the journal and last update.

    Without TARGET every topic of the configuration is listed.
    """
    from sowctl.cli.emit import Choice, Sink
    from sowctl.cli.rows import topic_row
    from sowctl.engine.info import info
    from sowctl.engine.targets import resolve

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        rows = info(instance, chosen if targets else None)
    sink.write_rows(topic_row(row, brief=sink.format == "table") for row in rows)
    return 0
