"""When a record expires (``behaviour`` 1.5): a function of its stamp, the topic's configuration and a clock.

Expiry is never journalled. A record past its stamp is hidden from every read at once and leaves the file with what
writers write, or when ``expire`` runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.config.model import Expiration
from sowctl.store.codec import expiration_of
from sowctl.values.times import MAX_MICROS, MICROS_PER_SECOND, MIN_MICROS, Micros

NO_EXPIRATION = 0
"""The stamp of a record that does not expire."""
MAX_LIFETIME_MICROS: Micros = MAX_MICROS - MIN_MICROS + 1
"""A lifetime that ends beyond the last time that there is, whenever it begins; longer ones are no other."""


def lifetime_of(seconds: float) -> Micros:
    """The microseconds of a lifetime that a publisher asked for: at least one, and at most
    :data:`MAX_LIFETIME_MICROS`."""
    return (
        max(1, round(seconds * MICROS_PER_SECOND))
        if seconds < MAX_LIFETIME_MICROS // MICROS_PER_SECOND
        else MAX_LIFETIME_MICROS
    )


def usual(rule: Expiration, seconds: float | None) -> Micros | None:
    """How long messages live that say nothing themselves; ``seconds`` is what holds for all of them (0: for ever).

    None where they live for ever. The stamp is kept even where the topic's expiration is disabled.
    """
    # The publisher's own lifetime comes before the topic's (behaviour 1.5).
    if seconds is not None:
        return None if seconds == 0 else lifetime_of(seconds)
    return min(rule.interval_us, MAX_LIFETIME_MICROS) if rule.kind == "interval" else None


def count_expired(rule: Expiration, expirations: Sequence[Micros], now: Micros) -> int:
    """How many records with these stamps are gone at ``now``."""
    # One pass over stamps: mostly the earliest lies ahead, and nothing is counted.
    if rule.kind == "disabled" or min(filter(None, expirations), default=MAX_MICROS) > now:
        return 0
    return sum(is_expired(rule, expiration, now) for expiration in expirations)


def expires(rule: Expiration) -> bool:
    """Whether stamps of this topic have an effect at all."""
    return rule.kind != "disabled"


def is_expired(rule: Expiration, expiration: Micros, now: Micros) -> bool:
    """Whether a record with this stamp is gone at ``now``: from the stamp's own instant on."""
    return rule.kind != "disabled" and expiration != NO_EXPIRATION and expiration <= now


def unexpired(values: Sequence[bytes], now: Micros) -> list[int]:
    """Indexes of the stored ``values`` that have not expired at ``now``; for topics with :func:`expires`."""
    # the rule of is_expired, without a call for every record: reads ask this of each batch
    return [place for place, value in enumerate(values) if not 0 < expiration_of(value) <= now]
