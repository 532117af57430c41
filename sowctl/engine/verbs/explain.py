"""The plan of a query: how each topic's records are found, as plain values (``sowctl-query(1)``, --explain)."""

from __future__ import annotations

from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.search.plan import Plan
    from sowctl.engine.topics.targets import Target


def explain(
    instance: Instance,
    targets: Sequence[Target],
    options: QueryOptions,
    *,
    analyze: bool = False,
    timer: Callable[[], float] = perf_counter,
) -> list[Plan]:
    """The plans of a query, topic by topic; indexes that it needs are built. ``analyze`` runs it, too.

    ``timer`` tells seconds: the instance's clock may stand still. Raises what the query raises.
    """
    from sowctl.engine.verbs.query import query

    with closing(query(instance, targets, options)) as result:
        plans = result.plans()
    if not analyze:
        return plans
    start = timer()
    with closing(query(instance, targets, options)) as result:
        for _ in result:
            pass
        taken = (timer() - start) * 1000
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


def plan_lines(plan: Plan) -> list[str]:
    """A plan for people."""
    lines = [f"{plan.topic} ({plan.message_type}): {plan.access}, {plan.estimated:,} of {plan.records:,} records"]
    lines += [f"  index     {step.condition}: {step.records:,} records" for step in plan.steps]
    lines += [f"  record    {condition}" for condition in plan.residual]
    if plan.behind:
        lines.append(f"  journal   {plan.behind:,} records that the store has not yet")
    if plan.processes > 1:
        lines.append(f"  processes {plan.processes}")
    lines.append(f"  order     {plan.order}")
    if plan.milliseconds is not None:
        lines.append(
            f"  actual    {plan.examined:,} examined, {plan.matched:,} matched, {plan.returned:,} returned, "
            f"{plan.milliseconds:,.1f} ms"
        )
    return lines
