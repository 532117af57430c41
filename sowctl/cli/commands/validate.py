"""``sowctl validate``: every error of a configuration, with its place."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.configuring import ConfigFile, Define, Fragment
from sowctl.cli.context import Invocation
from sowctl.cli.declare import option

EXAMPLES = (
    "sowctl validate amps.xml",
    "sowctl validate --define PORT=9000 amps.xml",
    "sowctl validate --fragment topics.xml --format json",
)


def run(
    invocation: Invocation,
    file: ConfigFile = None,
    define: Define = None,
    fragment: Fragment = False,
    format: Annotated[
        str, option("--format", "-F", help="how findings are written", choices=("text", "json"))
    ] = "text",
) -> int:
    """Report every error that would stop an instance with this configuration.

    Findings go to standard output, each with file, line and column, the line itself and a hint; the count goes to
    standard error. Ends with status 0 where there is no error and 4 where there is one.
    """
    from pathlib import Path

    from sowctl.cli.configuring import defines
    from sowctl.cli.reporting import show_findings
    from sowctl.config.validate import validate

    path = Path(file) if file is not None else invocation.config_path()
    findings = validate(path, environment=invocation.environ, defines=defines(define), fragment=fragment)
    return show_findings(invocation, findings, as_json=format == "json", status=4, clean=f"{path}: no errors")
