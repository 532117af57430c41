"""The global options: those of every command, before or after its name."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.declarations import declare_option

GLOBAL_PANEL = "Global options"


class Settings(Struct, frozen=True):
    """The global options as given."""

    config: Annotated[
        str | None,
        declare_option(
            "--config",
            "-c",
            help="Configuration file, or the directory that has it as sowctl.xml, amps.xml or config.xml. Default: "
            "$SOWCTL_CONFIG, otherwise the working directory.",
            metavar="FILE",
            complete="file",
            panel=GLOBAL_PANEL,
        ),
    ] = None
    root: Annotated[
        str | None,
        declare_option(
            "--root",
            help="Base directory of relative paths in the configuration. Default: the directory of the configuration "
            "file.",
            metavar="DIR",
            complete="directory",
            panel=GLOBAL_PANEL,
        ),
    ] = None
    now: Annotated[
        str | None,
        declare_option(
            "--now",
            help="Time to use as the current time. Default: $SOWCTL_NOW, otherwise the system clock.",
            panel=GLOBAL_PANEL,
        ),
    ] = None
    lock_wait: Annotated[
        str,
        declare_option(
            "--lock-wait", help="How long to wait for a lock: 0, 10s, forever.", metavar="TIME", panel=GLOBAL_PANEL
        ),
    ] = "10s"
    timeout: Annotated[
        str | None,
        declare_option(
            "--timeout",
            help="Stop after TIME, for example 30s, as if interrupted, and exit with status 124.",
            metavar="TIME",
            panel=GLOBAL_PANEL,
        ),
    ] = None
    color: Annotated[
        str, declare_option("--color", help="Color messages.", choices=("auto", "always", "never"), panel=GLOBAL_PANEL)
    ] = "auto"
    error_format: Annotated[
        str,
        declare_option("--error-format", help="Output format of errors.", choices=("text", "json"), panel=GLOBAL_PANEL),
    ] = "text"
    progress: Annotated[
        str,
        declare_option(
            "--progress",
            help="Show progress on standard error; json prints an event about once a second, each a line of JSON.",
            choices=("auto", "always", "never", "json"),
            panel=GLOBAL_PANEL,
        ),
    ] = "auto"
    quiet: Annotated[
        bool,
        declare_option(
            "--quiet",
            "-q",
            help="Suppress notes. diff prints nothing but errors, and doctor only problems.",
            panel=GLOBAL_PANEL,
        ),
    ] = False
    verbose: Annotated[
        int,
        declare_option("--verbose", "-v", help="Print more notes. May be repeated.", counted=True, panel=GLOBAL_PANEL),
    ] = 0
    no_pager: Annotated[
        bool, declare_option("--no-pager", help="Do not use a pager for long tables on a terminal.", panel=GLOBAL_PANEL)
    ] = False
    debug: Annotated[bool, declare_option("--debug", help="Print a traceback with each error.", panel=GLOBAL_PANEL)] = (
        False
    )
