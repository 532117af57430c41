"""Update memo indexes after a bulk load, in its process, after the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.search.figures import needs_reindex

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation


def update_indexes(invocation: Invocation, loaded: Sequence[tuple[str, str, int]]) -> None:
    """Update the existing indexes of topics, given by name, message type and number of loaded records.

    Raises OSError if the report cannot be written.
    """
    # A small load does not import the module of indexes.
    if not needs_reindex(loaded):
        return
    from sowctl.engine.verbs.reindex import reindex_loaded

    # A reader of the report at the other end of a pipe need not wait for the indexes.
    invocation.streams.stdout.flush()
    with invocation.open_instance() as instance:
        reindex_loaded(instance, loaded)
