"""``sowctl demo``: an instance for trying the commands."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.errors import RefusedError
from sowctl.output.display import escape_line

EXAMPLES = ("sowctl demo", "sowctl demo /tmp/morning && cd /tmp/morning && sowctl info")
NEXT_COMMANDS = (
    "sowctl info",
    "sowctl query orders \"/status = 'filled'\" -o '/price DESC' -n 5",
    "sowctl get customers C0042 --at 2026-01-05T10:00:00Z",
    "sowctl query quotes --now 2026-01-05T11:30:00Z",
)


class DemoArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl demo``."""

    directory: Annotated[str, Argument("DIR", "Directory to create. Default: demo.", complete="directory")] = "demo"
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object: the directory and the reports of publishing.")
    ] = False


def run(invocation: Invocation, arguments: DemoArguments) -> int:
    """Create a directory with a configuration and the published orders, customers and quotes of a trading morning.

    Data and timestamps are the same every time, so digests can be compared. Quotes expire after ten minutes: to see
    them, query a time of that morning, for example sowctl query quotes --now 2026-01-05T10:00:00Z.
    """
    from msgspec.structs import replace

    from sowctl.cli.commands.bodies import demo
    from sowctl.cli.io.report_output import show_report
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.verbs.publish import publish_messages
    from sowctl.messages.framing.frames import FrameReader
    from sowctl.output.reports import as_dict
    from sowctl.remote.place import require_local_path
    from sowctl.values.jsonline import format_json_line
    from sowctl.values.times import build_fixed_clock

    place = require_local_path(arguments.directory)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise RefusedError("SOW-CLI-019", "the directory exists and is not empty", place=arguments.directory)
    demo.write_demo(place)
    # The clock of that morning, so that every demo has the same timestamps and digests.
    morning = build_fixed_clock(int(demo.START_TIME.timestamp()) * 1_000_000)
    reports = []
    with Instance.open(place / "sowctl.xml", environment={}, seam=invocation.seam, clock=morning) as instance:
        for topic in demo.TOPIC_GENERATORS:
            with (place / f"{topic}.ndjson").open("rb") as stream:
                source = topic + ".ndjson", FrameReader(stream, "lines")
                publisher = replace(instance, client=demo.CLIENTS[topic])
                report = publish_messages(publisher, topic, [source], PublishOptions(timestamp_field="/time"))
            reports.append(as_dict(report))
            show_report(invocation, report, None)
    if arguments.json:
        document = format_json_line({"path": str(place), "reports": reports})
        invocation.streams.stdout.write(document.encode() + b"\n")
    invocation.note(f"try in {escape_line(arguments.directory)}:")
    for line in NEXT_COMMANDS:
        invocation.note(f"  {line}")
    return 0
