"""Work of a bulk load's process after its report: memo indexes follow what was loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.search.figures import needs_reindex

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation


def update_indexes(invocation: Invocation, loaded: Sequence[tuple[str, str, int]]) -> None:
    """Bring the indexes up to date that there are of topics, given by name, message type and how much came.

    Raises OSError where the report cannot be written.
    """
    # A small load does not even load what knows of indexes.
    if not needs_reindex(loaded):
        return
    from sowctl.engine.verbs.reindex import reindex_loaded

    # Who waits for the report, at the other end of a pipe, waits for nothing more.
    invocation.streams.stdout.flush()
    with invocation.open_instance() as instance:
        reindex_loaded(instance, loaded)
