"""``sowctl store reindex``: memo indexes, built before a query waits for them."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Summary, Targets

EXAMPLES = (
    "sowctl store reindex orders",
    "sowctl store reindex --drop",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    drop: Annotated[bool, declare_option("--drop", help="Remove all memo indexes instead.")] = False,
    summary: Summary = None,
) -> int:
    """Build the memo indexes of the fields in Key, HashIndex and Index, and of fields used by queries.

    Queries build indexes as needed; this command builds them in advance, or removes them. Without TARGET, all topics
    with a store are indexed. For the files, see sow-memo(5).
    """
    from sowctl.cli.io.report_output import show_report
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.reindex import rebuild_indexes

    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve_targets(instance, text)]
        if not targets:
            chosen = [
                Target(topic=topic) for topic in instance.topics if topic.file is not None and topic.file.exists()
            ]
        for report in rebuild_indexes(instance, chosen, drop=drop):
            show_report(invocation, report, summary)
    return 0
