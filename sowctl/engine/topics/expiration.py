"""When a record expires (``behaviour`` 1.5): a function of its stamp, the topic's configuration and a clock.

Expirations are not journalled. An expired record is hidden from every read immediately; writers, or ``expire``, remove
it from the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.config.model import Expiration
from sowctl.store.codec import read_expiration
from sowctl.values.times import MAX_MICROS, MICROS_PER_SECOND, MIN_MICROS, Micros

NO_EXPIRATION = 0
"""The stamp of a record that does not expire."""
MAX_LIFETIME_MICROS: Micros = MAX_MICROS - MIN_MICROS + 1
"""A lifetime that ends after the last representable time whenever it starts; longer ones are equivalent."""


def compute_lifetime(seconds: float) -> Micros:
    """Return a publisher's lifetime in microseconds: at least one, and at most :data:`MAX_LIFETIME_MICROS`."""
    return (
        max(1, round(seconds * MICROS_PER_SECOND))
        if seconds < MAX_LIFETIME_MICROS // MICROS_PER_SECOND
        else MAX_LIFETIME_MICROS
    )


def choose_default_lifetime(rule: Expiration, seconds: float | None) -> Micros | None:
    """Return the default lifetime of messages; ``seconds`` is the publisher's value for all of them (0: unlimited).

    None for unlimited. The stamp is stored even if the topic's expiration is disabled.
    """
    # The publisher's lifetime takes precedence over the topic's (behaviour 1.5).
    if seconds is not None:
        return None if seconds == 0 else compute_lifetime(seconds)
    return min(rule.interval_us, MAX_LIFETIME_MICROS) if rule.kind == "interval" else None


def count_expired(rule: Expiration, expirations: Sequence[Micros], now: Micros) -> int:
    """Return the number of records with these stamps that have expired at ``now``."""
    # One pass over stamps: usually the earliest is in the future, and nothing is counted.
    if rule.kind == "disabled" or min(filter(None, expirations), default=MAX_MICROS) > now:
        return 0
    return sum(is_expired(rule, expiration, now) for expiration in expirations)


def can_expire(rule: Expiration) -> bool:
    """Return whether stamps of this topic have an effect at all."""
    return rule.kind != "disabled"


def is_expired(rule: Expiration, expiration: Micros, now: Micros) -> bool:
    """Return whether a record with this stamp has expired at ``now``: from the stamp's own instant on."""
    return rule.kind != "disabled" and expiration != NO_EXPIRATION and expiration <= now


def find_unexpired(values: Sequence[bytes], now: Micros) -> list[int]:
    """Return the indexes of the stored ``values`` that have not expired at ``now``; for topics with
    :func:`can_expire`."""
    # the rule of is_expired, without a call per record: reads call this for every batch
    return [place for place, value in enumerate(values) if not 0 < read_expiration(value) <= now]
