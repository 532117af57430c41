"""Query options, checked and compiled before any store is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.keytext import parse_key, parse_keys
from sowctl.engine.topics.targets import Target
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.expressions.syntax.actions import OrderKey

MAX_BATCH_RECORDS = 10_000


def check_options(options: QueryOptions, targets: Sequence[Target]) -> None:
    """Raise UsageError ``SOW-QRY-010`` to ``SOW-QRY-012`` or ``SOW-QRY-015`` for invalid or conflicting options."""
    if options.skip_n is not None and options.top_n is None:
        raise UsageError("SOW-QRY-010", "an offset (skip_n) requires a limit (top_n)", hint="add --limit")  # C61
    if not 1 <= options.batch_size <= MAX_BATCH_RECORDS:
        raise UsageError(
            "SOW-QRY-011", f"the batch size must be from 1 to {MAX_BATCH_RECORDS}, not {options.batch_size}"
        )  # C62
    if (options.top_n or 0) < 0 or (options.skip_n or 0) < 0:
        raise UsageError("SOW-QRY-012", "top_n and skip_n must not be negative")
    check_aggregation(options.projection, options.grouping, options.select, targets)


def check_aggregation(
    projection: str | None, grouping: str | None, select: str | None, targets: Sequence[object]
) -> None:
    """Raise UsageError ``SOW-QRY-015`` for a projection that is incomplete or conflicts with other options."""
    if (projection is None) != (grouping is None):  # C71
        missing = "projection" if projection is None else "grouping"
        more = (
            ""
            if projection is None
            else "; --grouping '' makes one group of all records; to select fields of each record, use --select"
        )
        raise UsageError("SOW-QRY-015", f"an aggregated query also requires a {missing}", hint=f"add --{missing}{more}")
    if projection is not None and select is not None:
        hint = "name the fields in --projection"
        raise UsageError("SOW-QRY-015", "an aggregated query has no select list", hint=hint)
    if projection is not None and len(targets) != 1:
        hint = "name a single topic instead of a pattern"
        raise UsageError("SOW-QRY-015", "an aggregated query requires a single topic", hint=hint)


def parse_order_keys(text: str | None) -> tuple[OrderKey, ...]:
    """Parse the keys of an order. Raises ExpressionError."""
    if text is None:
        return ()
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.parser import parse_order_by

    try:
        return parse_order_by(text)
    except ExpressionError as error:
        from sowctl.expressions.translation import add_list_suggestion  # loaded only after an error

        raise add_list_suggestion(error, text, parse_order_by) from None


def parse_select_list(text: str | None) -> list[tuple[bool, tuple[str, ...]]] | None:
    """Parse the directives of a select list: include or exclude, and names. Raises ExpressionError."""
    if text is None:
        return None
    from sowctl.expressions.syntax.selectlist import parse_select

    return [(include, path.names if path is not None else ()) for include, path in parse_select(text).directives]


def parse_start_key(options: QueryOptions, targets: Sequence[Target]) -> bytes | None:
    """Return the key after which the result begins. Raises UsageError ``SOW-QRY-016`` if it is not in key order."""
    if options.after_key is None:
        return None
    if options.order_by is not None or options.by_time or len(targets) != 1:
        reason = "a single topic in key order"
        hint = "remove --order-by, or page with --top-n and --skip-n"
        raise UsageError("SOW-QRY-016", f"continuing after a key requires {reason}", hint=hint)
    topic = targets[0].topic
    return parse_key(options.after_key, "fields") if topic is None else parse_keys((options.after_key,), topic)[0]
