"""When a record expires (``behaviour`` 1.5): a function of its stamp, the topic's configuration and a clock.

Expiry is never journalled. A record past its stamp is hidden from every read at once and leaves the file with what
writers write, or when ``expire`` runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.config.model import Expiration
from sowctl.store.codec import read_expiration
from sowctl.values.times import MAX_MICROS, MICROS_PER_SECOND, MIN_MICROS, Micros

NO_EXPIRATION = 0
"""The stamp of a record that does not expire."""
MAX_LIFETIME_MICROS: Micros = MAX_MICROS - MIN_MICROS + 1
"""A lifetime that ends beyond the last time that there is, whenever it begins; longer ones are no other."""


def compute_lifetime(seconds: float) -> Micros:
    """The microseconds of a lifetime that a publisher asked for: at least one, and at most
    :data:`MAX_LIFETIME_MICROS`."""
    return (
        max(1, round(seconds * MICROS_PER_SECOND))
        if seconds < MAX_LIFETIME_MICROS // MICROS_PER_SECOND
        else MAX_LIFETIME_MICROS
    )


def choose_default_lifetime(rule: Expiration, seconds: float | None) -> Micros | None:
    """Return the default lifetime of messages; ``seconds`` is what holds for all of them (0: for ever).

    None where they live for ever. The stamp is kept even where the topic's expiration is disabled.
    """
    # The publisher's own lifetime comes before the topic's (behaviour 1.5).
    if seconds is not None:
        return None if seconds == 0 else compute_lifetime(seconds)
    return min(rule.interval_us, MAX_LIFETIME_MICROS) if rule.kind == "interval" else None


def count_expired(rule: Expiration, expirations: Sequence[Micros], now: Micros) -> int:
    """Count the records with these stamps that are gone at ``now``."""
    # One pass over stamps: mostly the earliest lies ahead, and nothing is counted.
    if rule.kind == "disabled" or min(filter(None, expirations), default=MAX_MICROS) > now:
        return 0
    return sum(is_expired(rule, expiration, now) for expiration in expirations)


def can_expire(rule: Expiration) -> bool:
    """Return whether stamps of this topic have an effect at all."""
    return rule.kind != "disabled"


def is_expired(rule: Expiration, expiration: Micros, now: Micros) -> bool:
    """Return whether a record with this stamp is gone at ``now``: from the stamp's own instant on."""
    return rule.kind != "disabled" and expiration != NO_EXPIRATION and expiration <= now


def find_unexpired(values: Sequence[bytes], now: Micros) -> list[int]:
    """Indexes of the stored ``values`` that have not expired at ``now``; for topics with :func:`can_expire`."""
    # the rule of is_expired, without a call for every record: reads ask this of each batch
    return [place for place, value in enumerate(values) if not 0 < read_expiration(value) <= now]
