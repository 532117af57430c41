"""What the process of a bulk load does once its report is out: memo indexes follow what was loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine import options

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation


def follow(invocation: Invocation, loaded: Sequence[tuple[str, str, int]]) -> None:
    """Bring the indexes up to date that there are of topics, given by name, message type and how much came.

    Raises OSError where the report cannot be written.
    """
    # A small load does not even load what knows of indexes.
    if not options.is_bulk(loaded):
        return
    from sowctl.engine.verbs.reindex import follow_load

    # Who waits for the report, at the other end of a pipe, waits for nothing more.
    invocation.streams.stdout.flush()
    with invocation.open_instance() as instance:
        follow_load(instance, loaded)
