"""``sowctl doctor``: check the environment and the instance."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl doctor",
    "sowctl doctor --json",
    'export JAVA_HOME="$(sowctl doctor --java-home)"',
)


class DoctorArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl doctor``."""

    format: Annotated[str, declare_option("--format", "-F", help="Output format.", choices=("text", "json"))] = "text"
    java_home: Annotated[
        bool, declare_option("--java-home", help="Print only the directory that Spark needs as JAVA_HOME.")
    ] = False


def run(invocation: Invocation, arguments: DoctorArguments) -> int:
    """Report versions, extras, Java and configuration of this environment, and potential problems of the instance.

    A missing extra or configuration is not a problem. Java is searched for as the pipeline does: JAVA_HOME, then PATH,
    then the wheel installed by the spark extra; the output has the result and the reason and, if the directories
    differ, the JAVA_HOME that spark-submit needs.

    With a configuration, the command also examines the instance: whether the journal and the stores are on a local disk
    and how long a flush takes there, readers that retain pages of a store, lock holders, free pages and free space,
    files left by killed processes, permissions, format versions, and whether the clock is behind the newest entry.
    Every finding has a next step. Nothing is changed.

    With --json, the output is one object: ok, and checks with name, state (ok, absent, warning, problem), detail and
    hint. The exit status is 0 if there are no problems, and 1 if there are; warnings do not count. With --quiet, only
    the problems are printed.

    With --java-home, nothing is examined: the output is the directory to set as JAVA_HOME for spark-submit, and for
    sessions not created by sowctl. Without a suitable Java, the command fails with SOW-SPK-002 and status 4.
    """
    if arguments.java_home:
        from sowctl.spark.jvm.java import find_java

        invocation.streams.stdout.write(bytes(find_java(invocation.environ).home) + b"\n")
        invocation.streams.stdout.flush()
        return 0
    from sowctl.cli.commands.bodies.doctor import STATE_MARKS, examine_environment, show_checks

    checks = list(examine_environment(invocation))
    healthy = all(check.state != "problem" for check in checks)
    if invocation.settings.quiet:
        checks = [check for check in checks if check.state == "problem"]
        if not checks and arguments.format != "json":
            return 0
    if arguments.format == "json":
        from json import dumps

        text = dumps({"ok": healthy, "checks": [asdict(check) for check in checks]})
    elif is_terminal(invocation.streams.stdout):
        show_checks(invocation, checks)
        return 0 if healthy else 1
    else:
        from sowctl.output.display import escape_line

        width = max(len(check.name) for check in checks)
        lines = []
        for check in checks:
            lines.append(f"{STATE_MARKS[check.state]}  {check.name:{width}}  {escape_line(check.detail)}")
            if check.hint is not None and check.state != "ok":
                lines.append(f"{'':{width + 6}}{escape_line(check.hint)}")
        text = "\n".join(lines)
    invocation.streams.stdout.write(text.encode("utf-8", "backslashreplace") + b"\n")
    invocation.streams.stdout.flush()
    return 0 if healthy else 1
