"""``sowctl doctor``: whether everything that commands need is here."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import asdict

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option

EXAMPLES = (
    "sowctl doctor",
    "sowctl doctor --json",
    'export JAVA_HOME="$(sowctl doctor --java-home)"',
)


def run(
    invocation: Invocation,
    format: Annotated[
        str, option("--format", "-F", help="how the result is written", choices=("text", "json"))
    ] = "text",
    java_home: Annotated[
        bool, option("--java-home", help="print only the directory that Spark needs as JAVA_HOME")
    ] = False,
) -> int:
    """Say which versions, extras, Java and configuration are found here, and what may go wrong with the instance.

    An extra that is not installed, or no configuration, is no fault. Java is looked for as the pipeline does:
    JAVA_HOME, then PATH, then the wheel that the spark extra installs; its line says which was taken and why, and
    where that is another directory, the JAVA_HOME that spark-submit needs.

    With a configuration it looks at the instance, too: whether journal and stores are on a disk of this machine and how
    long a flush takes there, who keeps pages of a store or holds a lock, free pages and free room, what killed
    processes left, permissions, versions of formats, and whether the clock is behind the newest entry. Every finding
    has a next step. Nothing is changed.

    With --json one object: ok, and checks with name, state (ok, absent, warning, problem), detail and hint. Ends with
    status 0 where there is no problem and 1 where there is one; a warning is none.

    With --java-home nothing is looked at: printed is the directory to set as JAVA_HOME for spark-submit, and for
    sessions that sowctl does not make. Without a suitable Java it ends with SOW-SPK-002 and status 4.
    """
    if java_home:
        from sowctl.spark.jvm.java import find_java

        invocation.streams.stdout.write(bytes(find_java(invocation.environ).home) + b"\n")
        invocation.streams.stdout.flush()
        return 0
    from sowctl.cli.commands.bodies.doctor import examine

    checks = list(examine(invocation))
    healthy = all(check.state != "problem" for check in checks)
    if format == "json":
        from json import dumps

        text = dumps({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        from sowctl.output.display import display

        marks = {"ok": "ok", "absent": "--", "warning": "! ", "problem": "!!"}
        width = max(len(check.name) for check in checks)
        lines = []
        for check in checks:
            lines.append(f"{marks[check.state]}  {check.name:{width}}  {display(check.detail)}")
            if check.hint is not None and check.state != "ok":
                lines.append(f"{'':{width + 6}}{display(check.hint)}")
        text = "\n".join(lines)
    invocation.streams.stdout.write(text.encode("utf-8", "backslashreplace") + b"\n")
    invocation.streams.stdout.flush()
    return 0 if healthy else 1
