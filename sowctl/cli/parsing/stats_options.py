"""Options of ``sowctl stats``: statistics of fields, and messages of the journal."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.parsing.options import OfPublisher, Sample, Since, Txids, Until
from sowctl.declarations import declare_option


class FieldOptions(Struct, frozen=True):
    """The level of detail of field statistics."""

    sample: Sample = None
    top: Annotated[
        int, declare_option("--top", help="Number of most frequent values to print.", metavar="COUNT", minimum=0)
    ] = 5
    bars: Annotated[
        int,
        declare_option("--bars", help="Approximate number of histogram bars.", metavar="COUNT", minimum=1, maximum=200),
    ] = 10


class RateOptions(Struct, frozen=True):
    """Options of ``stats --journal``: the counted entries, and the intervals."""

    interval: Annotated[
        float | None,
        declare_option(
            "--interval", help="With --journal: length of the intervals. Default: 1m.", metavar="TIME", unit="seconds"
        ),
    ] = None
    since: Since = None
    until: Until = None
    txid: Txids = None
    client: OfPublisher = None
    last: Annotated[
        float | None,
        declare_option(
            "--last",
            help="With --journal: only messages of the last TIME, for example 1d.",
            metavar="TIME",
            unit="seconds",
        ),
    ] = None
    by_topic: Annotated[
        bool, declare_option("--by-topic", help="With --journal: count all clients of a topic together.")
    ] = False
