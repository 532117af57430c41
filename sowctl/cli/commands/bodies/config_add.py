"""The body of ``sowctl config add``: write new elements into the configuration and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Struct

from sowctl.cli.configuration import Define
from sowctl.cli.context import Invocation
from sowctl.declarations import declare_option
from sowctl.engine.options import DryRun
from sowctl.errors import RefusedError

if TYPE_CHECKING:
    from sowctl.config.additions import Addition, ConfigText, NewPart

EntryType: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--message-type",
        help="Message type. Default: that of the source, otherwise json.",
        metavar="TYPE",
        complete="message type",
    ),
]
NoJournal: TypeAlias = Annotated[
    bool, declare_option("--no-journal", help="Do not add the topic to the transaction log.")
]


class Writing(Struct, frozen=True, kw_only=True):
    """Options of every ``config add``."""

    define: Define = None
    dry_run: DryRun = False
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object with the new elements and their places.")
    ] = False


def open_config(invocation: Invocation, writing: Writing) -> ConfigText:
    """Open the configuration file to change. Raises the errors of finding and reading it."""
    from sowctl.cli.configuration import parse_defines
    from sowctl.config.additions import ConfigText

    return ConfigText(
        invocation.find_config_path(), environment=invocation.environ, defines=parse_defines(writing.define)
    )


def add_journal_part(config: ConfigText, parts: list[NewPart], name: str, message_type: str) -> None:
    """Add a Topic of the transaction log to ``parts`` if there is a log that does not record this topic."""
    from sowctl.config.additions import NewPart
    from sowctl.config.instance import build_coverage
    from sowctl.config.new_elements import build_journal_topic

    log = config.config.transaction_log
    if log is not None and not build_coverage(log)(name, message_type):
        parts.append(NewPart("TransactionLog", build_journal_topic(name, message_type)))


def write_addition(
    invocation: Invocation, config: ConfigText, addition: Addition, writing: Writing, change: str
) -> int:
    """Replace the file, unless this is a dry run, and print the new elements; ``change`` describes them.

    Returns the exit status. Raises OSError, and RefusedError ``SOW-CFG-070`` if the file has changed since it was
    read.
    """
    from sowctl.output.display import escape_line

    if not writing.dry_run:
        from sowctl.output_file import open_whole_file

        # The target of a link is replaced; a rename would replace the link by a file.
        with open_whole_file(config.path.resolve(), force=True, seam=invocation.seam) as stream:
            stream.write(addition.content)
            # Checked last, because validation takes a while: changes of an editor or another command meanwhile would be
            # lost.
            if config.path.read_bytes() != config.content:
                raise RefusedError(
                    "SOW-CFG-070",
                    "the file was changed by another program meanwhile",
                    place=str(config.path),
                    hint="run the command again",
                )
    stdout = invocation.streams.stdout
    if writing.json:
        from sowctl.values.jsonline import format_json_line

        elements = [{"section": part.section, "line": part.line, "xml": part.xml} for part in addition.parts]
        row = {"path": str(config.path), "written": not writing.dry_run, "new_elements": elements}
        stdout.write(format_json_line(row).encode() + b"\n")
    else:
        for part in addition.parts:
            lines = [f"<!-- line {part.line}, in {part.section} -->", *map(escape_line, part.xml.splitlines())]
            stdout.write("".join(f"{line}\n" for line in lines).encode())
    for finding in addition.findings:
        invocation.warn(finding.message, code=finding.id, place=str(finding.place), hint=finding.hint)
    unwritten = "dry run, nothing was written: " if writing.dry_run else ""
    invocation.note(f"{unwritten}{escape_line(str(config.path))}: {escape_line(change)}")
    return 0
