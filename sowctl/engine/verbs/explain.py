"""explain: the plan of a query, how each topic's records are found, as plain values (``sowctl-query(1)``,
--explain)."""

from __future__ import annotations

from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from sowctl.values.display import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.plan import Plan


class PlannedQuery(Protocol):
    """A started query: the caller either lists its plans or reads its result; ``statistics`` are counted then."""

    statistics: list[QueryStatistics]

    def list_plans(self) -> list[Plan]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def close(self) -> None: ...


def explain_query(
    start: Callable[[], PlannedQuery], *, analyze: bool = False, timer: Callable[[], float] = perf_counter
) -> list[Plan]:
    """Return the plans of the query that ``start`` starts, one per topic; indexes that it needs are built.

    With ``analyze``, the query is started again and read to its end. ``timer`` returns seconds: the instance's clock
    may be fixed. Raises what the query raises.
    """
    with closing(start()) as planned:
        plans = planned.list_plans()
    if not analyze:
        return plans
    begin = timer()
    with closing(start()) as result:
        for _ in result:
            pass
        taken = (timer() - begin) * 1000
        return [
            replace(
                plan,
                examined=numbers.examined,
                matched=numbers.matched,
                returned=numbers.returned,
                milliseconds=taken,
            )
            for plan, numbers in zip(plans, result.statistics, strict=True)
        ]


def format_plan(plan: Plan) -> list[str]:
    """Return the lines of a plan for people."""
    share = f"{plan.estimated:,} of {format_count(plan.records, 'record')}"
    lines = [f"{plan.topic} ({plan.message_type}): {plan.access}, {share}"]
    lines += [f"  index     {step.condition}: {format_count(step.records, 'record')}" for step in plan.steps]
    lines += [f"  record    {condition}" for condition in plan.residual]
    if plan.behind:
        lines.append(f"  journal   {format_count(plan.behind, 'record')} not yet in the store")
    if plan.processes > 1:
        lines.append(f"  processes {plan.processes}")
    lines.append(f"  order     {plan.order}")
    if plan.milliseconds is not None:
        lines.append(
            f"  actual    {plan.examined:,} examined, {plan.matched:,} matched, {plan.returned:,} returned, "
            f"{plan.milliseconds:,.1f} ms"
        )
    return lines
