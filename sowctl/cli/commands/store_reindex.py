"""``sowctl store reindex``: build memo indexes in advance."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Summaries, Targets
from sowctl.declarations import DOCUMENT, declare_option

EXAMPLES = (
    "sowctl store reindex orders",
    "sowctl store reindex --drop",
)


class StoreReindexArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl store reindex``."""

    targets: Targets = None
    drop: Annotated[bool, declare_option("--drop", help="Remove all memo indexes instead.")] = False
    summary: Summaries = None


def run(invocation: Invocation, arguments: StoreReindexArguments) -> int:
    """Build the memo indexes of the fields in Key, HashIndex and Index, and of fields used by queries.

    Queries build indexes as needed; this command builds them in advance, or removes them. Without TARGET, all topics
    with a store are indexed. For the files, see sow-memo(5).
    """
    from sowctl.cli.io.report_output import show_report, write_rows_document
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.reindex import rebuild_indexes
    from sowctl.output.reports import as_dict

    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        if not arguments.targets:
            chosen = [
                Target(topic=topic) for topic in instance.topics if topic.file is not None and topic.file.exists()
            ]
        reports = rebuild_indexes(instance, chosen, drop=arguments.drop)
        if arguments.summary == DOCUMENT:
            write_rows_document(invocation, [as_dict(report) for report in reports])
        else:
            for report in reports:
                show_report(invocation, report, arguments.summary)
    return 0
