"""When a record expires (``semantics`` 1.5): a function of its stamp, the topic's configuration and a clock.

Expiry is never journalled. A record past its stamp is hidden from every read at once and leaves the file when a writer
opens it or ``expire`` runs.
"""

from __future__ import annotations

from sowctl.config.model import Expiration
from sowctl.values.times import Micros

NEVER = 0
"""The stamp of a record that does not expire."""


def stamp(rule: Expiration, time: Micros, seconds: float | None) -> Micros:
    """The absolute expiry of a message published at ``time``; ``seconds`` is what its publisher asked for (0: never).

    The stamp is kept even where the topic's expiration is disabled.
    """
    if seconds is not None:
        return NEVER if seconds == 0 else time + round(seconds * 1_000_000)
    if rule.kind == "interval":
        return time + rule.interval_us
    return NEVER


def expires(rule: Expiration) -> bool:
    """Whether stamps of this topic have an effect at all."""
    return rule.kind != "disabled"


def is_expired(rule: Expiration, expiration: Micros, now: Micros) -> bool:
    """Whether a record with this stamp is gone at ``now``: from the stamp's own instant on."""
    return rule.kind != "disabled" and expiration != NEVER and expiration <= now
