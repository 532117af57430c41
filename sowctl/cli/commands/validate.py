"""``sowctl validate``: every error of a configuration, with its place."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument, option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl validate amps.xml",
    "sowctl validate --define PORT=9000 amps.xml",
    "sowctl validate --fragment topics.xml --format json",
)


def run(
    invocation: Invocation,
    file: Annotated[
        str | None, Argument("CONFIG", "the configuration file; default as for --config", complete="file")
    ] = None,
    define: Annotated[
        list[str] | None, option("--define", "-D", help="the value of ${NAME}; may be repeated", metavar="NAME=VALUE")
    ] = None,
    fragment: Annotated[bool, option("--fragment", help="the file is a part that another one includes")] = False,
    format: Annotated[
        str, option("--format", "-F", help="how findings are written", choices=("text", "json"))
    ] = "text",
) -> int:
    """Report every error that would stop an instance with this configuration.

    Findings go to standard output, each with file, line and column, the line itself and a hint; the count goes to
    standard error. Ends with status 0 where there is no error and 4 where there is one.
    """
    from pathlib import Path

    from sowctl.cli.reporting import show_findings
    from sowctl.config.validate import validate

    path = Path(file) if file is not None else invocation.config_path()
    findings = validate(path, environment=invocation.environ, defines=_defines(define or []), fragment=fragment)
    return show_findings(invocation, findings, as_json=format == "json", status=4, clean=f"{path}: no errors")


def _defines(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UsageError("SOW-CLI-010", f"--define {name!r} is not NAME=VALUE", hint="such as --define PORT=9000")
    return {name: value for name, _, value in pairs}
