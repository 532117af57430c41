"""Printing the plan of a query (``sowctl-query(1)``, --explain)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from sowctl.cli.context import Invocation
from sowctl.engine.verbs.explain import explain, plan_lines
from sowctl.output.display import display_lines

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import Target


def show_plans(
    invocation: Invocation,
    instance: Instance,
    targets: Sequence[Target],
    options: QueryOptions,
    *,
    analyze: bool,
    format: str | None,
) -> int:
    """Print the plan of each topic: text, or an object a line with the formats json and ndjson."""
    for plan in explain(instance, targets, options, analyze=analyze):
        if format in ("json", "ndjson"):
            line = json.dumps(asdict(plan), ensure_ascii=False)
        else:
            line = display_lines("\n".join(plan_lines(plan)))
        invocation.streams.stdout.write(line.encode() + b"\n")
    return 0
