"""``sowctl store clean``: remove files of killed processes beside stores and in temporary directories."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Targets
from sowctl.declarations import declare_part
from sowctl.engine.options import DryRun
from sowctl.values.display import format_count

EXAMPLES = (
    "sowctl store clean --dry-run",
    "sowctl store clean orders --format json",
)


class StoreCleanArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl store clean``."""

    targets: Targets = None
    dry_run: DryRun = False
    output: Annotated[OutputChoice, declare_part("format")]


def run(invocation: Invocation, arguments: StoreCleanArguments) -> int:
    """Remove unfinished files of processes that were killed while building a store, a sorted run or an index.

    A file is removed if no process has the number in its name and none holds its lock; files of running processes are
    kept, as is everything else. Without TARGET, the stores of all topics are cleaned, and the temporary directories
    that killed processes of the same user left, $TMPDIR/sowctl-work-... and sowctl-spark-..., are removed: they hold
    the input of publish --replace-all, for example. Unfinished stores are also removed by the next process that builds
    a store, and temporary directories by the next one that makes one; this command does it now, and prints the space
    freed.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.upkeep.clean import clean_stores, clean_work_directories
    from sowctl.output.reports import as_dict
    from sowctl.values.display import format_bytes

    sink = Sink(invocation, arguments.output)
    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        if not arguments.targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        gone = list(clean_stores(instance, chosen, dry_run=arguments.dry_run))
        if not arguments.targets:
            gone += clean_work_directories(dry_run=arguments.dry_run)
    sink.write_rows(as_dict(one) for one in gone)
    what = "would be removed" if arguments.dry_run else "removed"
    files = format_count(len(gone), "leftover")
    invocation.note(f"{files} {what}, {format_bytes(sum(one.bytes for one in gone))}" if gone else "no leftovers")
    return 0
