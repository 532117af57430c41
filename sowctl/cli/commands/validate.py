"""``sowctl validate``: every error of configurations, with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.configuration import Define, Fragment
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FINDING_FORMATS
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import ConfigError

if TYPE_CHECKING:
    from sowctl.findings import Finding

EXAMPLES = (
    "sowctl validate amps.xml",
    "sowctl validate --define PORT=9000 amps.xml",
    "sowctl validate --fragment topics.xml --format json",
    "sed s/9007/9107/ amps.xml | sowctl validate -",
)


class ValidateArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl validate``."""

    files: Annotated[
        list[str] | None,
        Argument("CONFIG", "Configuration files, or - for standard input. Default: as for --config.", complete="file"),
    ] = None
    define: Define = None
    fragment: Fragment = False
    format: Annotated[
        str, declare_option("--format", "-F", help="Output format of findings.", choices=FINDING_FORMATS, document=True)
    ] = "text"


def run(invocation: Invocation, arguments: ValidateArguments) -> int:
    """Report all errors that would prevent an instance from starting with this configuration.

    Findings are printed to standard output by file, each with file, line, column, the text of the line and a hint; the
    count is printed to standard error. The exit status is 0 if there are no errors, and 4 if there are, or if a file
    cannot be read (the others are still checked).
    """
    from sowctl.cli.configuration import find_main_file, parse_defines
    from sowctl.cli.io.report_output import write_findings, write_findings_document
    from sowctl.config.validate import validate_config

    values = parse_defines(arguments.define)
    inputs = (
        [find_main_file(invocation, file) for file in arguments.files]
        if arguments.files
        else [find_main_file(invocation, None)]
    )

    unread: list[ConfigError] = []

    def findings() -> Iterator[Finding]:
        for path, given in inputs:
            try:
                found = validate_config(
                    path, environment=invocation.environ, defines=values, fragment=arguments.fragment, given=given
                )
            except ConfigError as error:
                unread.append(error)
            else:
                yield from found

    if arguments.format == DOCUMENT:
        tally = write_findings_document(invocation, findings(), lambda _: {"files": len(inputs)})
    else:
        tally = write_findings(invocation, findings(), arguments.format)
    if unread:
        # The other files were checked nevertheless; the error ends the command with status 4, as any finding does.
        raise unread[0]
    where = str(inputs[0][0]) if len(inputs) == 1 else f"{len(inputs)} files"
    invocation.note(str(tally) if tally.counts else f"{where}: no errors")
    return 4 if tally.counts else 0
