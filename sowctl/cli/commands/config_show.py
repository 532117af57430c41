"""``sowctl config show``: a configuration with includes, variables and defaults resolved."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.configuration import ConfigFile, Define, Fragment
from sowctl.cli.context import Invocation
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl config show",
    "sowctl config show --origin --format table amps.xml",
    "sowctl config show --expanded --format xml amps.xml > resolved.xml",
    "sowctl config show --format json | python3 -m json.tool",
)


class ConfigShowArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config show``."""

    file: ConfigFile = None
    define: Define = None
    fragment: Fragment = False
    expanded: Annotated[
        bool,
        declare_option("--expanded", help="Only resolve includes and variables; keep names and values as written."),
    ] = False
    origin: Annotated[bool, declare_option("--origin", help="Print the file and line of each value, or default.")] = (
        False
    )
    format: Annotated[
        str | None,
        declare_option(
            "--format",
            "-F",
            help="Output format. Default: table on a terminal, otherwise xml.",
            choices=("xml", "json", "table"),
        ),
    ] = None


def run(invocation: Invocation, arguments: ConfigShowArguments) -> int:
    """Print a configuration with current names, normalized values and defaults.

    Includes and variables are resolved. XML and table use the shortest unit; in JSON, sizes are in bytes and intervals
    in nanoseconds. The XML output is an equivalent configuration. The exit status is 4 for errors in names, types or
    ranges that validate would report; with --expanded, nothing is checked.
    """
    from sowctl.cli.configuration import load_document
    from sowctl.cli.streams import is_terminal
    from sowctl.config import show

    document = load_document(invocation, arguments.file, arguments.define, fragment=arguments.fragment)
    item = show.build_expanded_items(document) if arguments.expanded else show.build_typed_items(document)
    stdout = invocation.streams.stdout
    shown = is_terminal(stdout)
    chosen = arguments.format or ("table" if shown else "xml")
    if chosen == "json":
        import json

        from sowctl.output.display import escape_json

        data = json.dumps(show.build_values(item, origins=arguments.origin), indent=2, ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        stdout.write((escape_json(data) if shown else data) + b"\n")
        return 0
    if chosen == "xml":
        from sowctl.output.display import escape_lines

        lines = list(show.format_xml(item, origins=arguments.origin))
        if shown:
            lines = [escape_lines(line) for line in lines]
    else:
        from sowctl.output.outline import OutlineEntry, format_outline

        entries = [
            OutlineEntry(line.depth, line.name, line.value, str(line.origin) if arguments.origin else "")
            for line in show.format_outline(item)
        ]
        lines = list(format_outline(entries, invocation.streams.measure_columns() if shown else None))
    stdout.write("".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace"))
    return 0
