"""The option ``pin``: a copy of a topic's state that many readings share (sowctl-spark(7), CONSISTENCY).

The first reading makes the file, every later one reads it as it is; the user who named it deletes it.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sowctl.engine.sources.opener import open_present_source
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.errors import RefusedError
from sowctl.spark.origin import Origin


def pin_state(origin: Origin, at: int | None, path: Path) -> Origin:
    """The state ``at`` an instant (None: now) of ``origin``, as the file at ``path``; made if it is not there.

    Raises what snapshots raise.
    """
    if not path.exists():
        try:
            write_snapshot(origin.build_instance(), origin.target, _latest(origin) if at is None else at, path)
        except RefusedError as error:
            # another planner made the same file at the same time
            if error.code != "SOW-SNP-001":
                raise
    # the configuration stays: message types and functions of expressions come from it
    return Origin(origin.config, None, path, None, origin.now)


def _latest(origin: Origin) -> int:
    """An instant that shows the present: stamps may lie in the future."""
    with closing(open_present_source(origin.build_instance(), origin.target)) as source:
        behind = source.memtable.last_time if source.memtable is not None else 0
        return max(origin.now, source.meta.last_time, behind)
