"""``sowctl config diff``: differences in meaning between two configurations."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.configuration import Define, Fragment
from sowctl.cli.context import Invocation
from sowctl.declarations import DOCUMENT, Argument, declare_option

EXAMPLES = (
    "sowctl config diff sowctl.xml amps.xml",
    "sowctl config diff sowctl.xml other.xml",
    "sowctl config diff sowctl.xml other.xml --format json",
)


class ConfigDiffArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config diff``."""

    before: Annotated[str, Argument("A", "Configuration file.", complete="file")]
    after: Annotated[str, Argument("B", "Configuration file to compare A with.", complete="file")]
    define: Define = None
    fragment: Fragment = False
    format: Annotated[
        str,
        declare_option("--format", "-F", help="Output format of differences.", choices=("text", "json"), document=True),
    ] = "text"


def run(invocation: Invocation, arguments: ConfigDiffArguments) -> int:
    """Compare two configurations by their meaning.

    Units, old and current names, defaults, includes, comments, white space, and order where it is insignificant make no
    difference; expressions are compared in parsed form. Each difference is a line: ~ changed, - only in A, + only in B,
    > moved. With --format json, each line is an object; --json prints one array. The exit status is 0 if there are no
    differences, 1 if there are, and 4 if a configuration has an error.
    """
    from sowctl.cli.configuration import load_document
    from sowctl.cli.streams import is_terminal
    from sowctl.config.difference import find_differences
    from sowctl.config.show import build_typed_items
    from sowctl.output.differences import changes

    first, second = (
        build_typed_items(load_document(invocation, file, arguments.define, fragment=arguments.fragment))
        for file in (arguments.before, arguments.after)
    )
    streams = invocation.streams
    columns = streams.measure_columns() if is_terminal(streams.stdout) else None
    count = 0
    document: list[str] = []
    for found in find_differences(first, second):
        count += 1
        change = changes.MemberChange(
            found.change,
            found.path,
            found.before,
            found.after,
            str(found.before_origin) if found.before_origin is not None else None,
            str(found.after_origin) if found.after_origin is not None else None,
        )
        if arguments.format == DOCUMENT:
            document.append(changes.encode_change(change))
            continue
        lines = (
            [changes.encode_change(change)] if arguments.format == "json" else changes.format_change(change, columns)
        )
        streams.stdout.write("".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace"))
    if arguments.format == DOCUMENT:
        from sowctl.cli.io.report_output import write_lines_document

        write_lines_document(invocation, document)
    streams.stdout.flush()
    invocation.note(f"{count} difference{'s' if count != 1 else ''}" if count else "no differences")
    return 1 if count else 0
