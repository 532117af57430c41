"""Finding a queue by its name, and the digest of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.config.derived_entries import Queue
from sowctl.engine.topics.queuestates import list_configured_queues
from sowctl.engine.topics.targets import split_target
from sowctl.errors import ConfigError, MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_MAX_LISTED_QUEUES = 8
"""Maximum number of queue names in an error message."""


def find_queue(instance: Instance, text: str, message_type: str | None = None) -> Queue:
    """Return the queue of this name.

    Raises MissingError ``SOW-QUE-001``, UsageError ``SOW-ENG-030`` (several message types), ConfigError ``SOW-ENG-020``
    without a TransactionLog.
    """
    name, message_type = split_target(text, message_type)
    found = [
        one for one in list_configured_queues(instance) if one.name == name and message_type in (None, one.message_type)
    ]
    if len(found) > 1:
        forms = ", ".join(f"[{one.message_type}].[{name}]" for one in found)
        raise UsageError(
            "SOW-ENG-030", f"{name!r} is ambiguous: it exists with several message types", hint=f"write one of {forms}"
        )
    if not found:
        hint = _format_queue_hint(name, list_configured_queues(instance))
        of = f" of type {message_type}" if message_type is not None else ""
        raise MissingError(
            "SOW-QUE-001",
            f"queue {name!r}{of} does not exist in this configuration",
            hint=hint,
        )
    if instance.log is None:
        raise ConfigError(
            "SOW-ENG-020", "this configuration has no TransactionLog", hint="queues require a TransactionLog"
        )
    return found[0]


def _format_queue_hint(name: str, queues: Sequence[Queue]) -> str:
    """Return the hint for an unknown queue name: queues with similar names, or all of them."""
    from difflib import get_close_matches

    names = [queue.name for queue in queues]
    if name in names:
        return f"it is of type {next(queue.message_type for queue in queues if queue.name == name)}"
    if near := get_close_matches(name, names, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(near)}?"
    if not names:
        return "the configuration has no queues"
    return (
        f"the queues are: {', '.join(names)}"
        if len(names) <= _MAX_LISTED_QUEUES
        else "sowctl queue list lists the queues"
    )


def compute_definition_digest(queue: Queue) -> bytes:
    """Return a digest of the settings that determine a queue's messages and their order; if it changes, the state is
    stale.

    Limits, LeasePeriod, Leasing and FairnessModel are not included: their current values apply.
    """
    from xxhash import xxh3_128_digest

    parts = (
        queue.name,
        queue.message_type,
        queue.underlying,
        queue.filter,
        queue.priority,
        queue.barrier,
        queue.expiration_us,
        queue.expiration_model,
        queue.recovery_point,
    )
    return xxh3_128_digest(repr(parts).encode())
