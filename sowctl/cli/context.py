"""The context of a command besides its options: streams, environment, clock, seam and the global settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.cli.settings import Settings
from sowctl.cli.streams import Streams, is_terminal
from sowctl.config.default_config import CONFIG_NAMES, find_config_file, find_default_config
from sowctl.errors import ConfigError, UsageError, shorten_words
from sowctl.seam import Seam
from sowctl.values.times import Clock, Micros, build_fixed_clock, format_time, parse_instant
from sowctl.values.units import parse_seconds

if TYPE_CHECKING:
    from sowctl.cli.configuration_cache import ConfigurationCache
    from sowctl.cli.progress import ProgressMeter
    from sowctl.engine.instance import Instance

FOREVER_SECONDS = 3_000_000_000.0
"""Seconds; about a century, which every lock call still accepts."""
SELF_REPORTING_COMMANDS = frozenset(
    {"publish", "subscribe", "tail", "browse", "conflate", "journal tail", "queue lease", "queue run", "shell"}
)
"""Commands that report their own progress, or that have no end."""


class Invocation:
    """One run of one command. ``durable`` describes at any time what an interruption would leave, and ``resume`` at the
    end how to resume; with ``own_process`` the process runs only this program. ``limit`` starts the clock of --timeout
    with its seconds. ``kept``: configurations that other commands of this process have read. An ``endless`` run has no
    progress to show; ``meter`` shows that of others. ``left`` is the exit status if the user leaves the pager early."""

    def __init__(self, streams: Streams, environ: Mapping[str, str], seam: Seam, clock: Clock) -> None:
        self.streams = streams
        self.environ = environ
        self.seam = seam
        self.clock = clock
        self.command = ""
        self.settings = Settings()
        self.durable: str | None = None
        self.resume: str | None = None
        self.own_process = False
        self.endless = False
        self.meter: ProgressMeter | None = None
        self.limit: Callable[[float], None] | None = None
        self.left = 0
        self.lock_wait = 10.0
        self._noted: set[str] = set()
        self.kept: ConfigurationCache | None = None

    def apply_settings(self, settings: Settings) -> None:
        """Apply the global options: ``clock`` becomes that of --now, ``lock_wait`` its seconds, --timeout begins.

        Raises :class:`~sowctl.errors.UsageError` for an unreadable time or interval (``SOW-CLI-006``).
        """
        self.settings = settings
        # First, so that errors about the following options have the requested colours.
        self.streams.color = settings.color
        if settings.now:
            self.clock = build_fixed_clock(parse_instant(settings.now, self.clock))
        self.lock_wait = self._parse_seconds("lock_wait", settings.lock_wait)
        if settings.timeout is None or self.limit is None:
            return
        allowed = self._parse_seconds("timeout", settings.timeout)
        if allowed < FOREVER_SECONDS:
            # Nothing can be done in zero time, and the timer interprets 0 as "never".
            self.limit(max(allowed, 0.001))

    def _parse_seconds(self, option: str, text: str) -> float:
        if text == "forever":
            return FOREVER_SECONDS
        try:
            return parse_seconds(text)
        except ValueError as error:
            # The message names the option or the variable that the user set.
            variable = f"SOWCTL_{option.upper()}"
            name = variable if self.environ.get(variable) == text else f"--{option.replace('_', '-')}"
            raise UsageError(
                "SOW-CLI-006", f"{name}: {error}", hint="use for example 0, 500ms, 10s or forever"
            ) from None

    def find_config_path(self, named: str | None = None) -> Path:
        """The configuration file: ``named``, by --config or SOWCTL_CONFIG, or the default one in the working directory.

        If a directory is named, the file in it with a usual name.

        Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-004`` if several have one and ``SOW-CLI-090`` for ``-``, and
        :class:`~sowctl.errors.ConfigError` ``SOW-CLI-005`` if none has.
        """
        named = named or self.settings.config or self.environ.get("SOWCTL_CONFIG")
        if named == "-":
            raise UsageError(
                "SOW-CLI-090",
                "--config cannot be standard input: relative paths in a configuration are relative to its directory",
                hint="'sowctl validate -', 'sowctl lint -' and 'sowctl config show -' read a configuration "
                "from standard input",
            )
        if named:
            return find_config_file(named)
        found = find_default_config(self.environ, Path())
        if found is not None:
            return found
        raise ConfigError(
            "SOW-CLI-005",
            f"no configuration found: {Path.cwd()} has none of {', '.join(CONFIG_NAMES)}",
            hint="use --config FILE or set SOWCTL_CONFIG; 'sowctl config init' creates a configuration, 'sowctl demo' "
            "a demo instance",
        )

    def open_instance(
        self, *targets: str, fix_names: bool = False, watch: Callable[[str, int, int], None] | None = None
    ) -> Instance:
        """The instance of the configuration, for use in a ``with`` statement. Raises the errors of opening it.

        If there is no configuration and all ``targets`` are files, an instance without a configuration. ``fix_names``:
        it shows FIX messages with the names of their tags. ``watch`` receives the progress instead of the meter.
        """
        instance = self._open_configured(targets)
        if fix_names:
            instance = replace(instance, fix_names=True)
        from sowctl.engine.instance import ignore_progress

        # A copy only if there is progress to show: files that a shell keeps open between commands belong to the
        # original instance.
        watch = watch or self.make_watch()
        return instance if watch is ignore_progress else replace(instance, watch=watch)

    def make_watch(self) -> Callable[[str, int, int], None]:
        """Return the progress callback for an instance: a meter if progress is shown and the command ends."""
        from sowctl.engine.instance import ignore_progress

        wanted = self.settings.progress
        if self.endless or self.command in SELF_REPORTING_COMMANDS or not (wanted == "json" or self.shows_progress()):
            return ignore_progress
        from sowctl.cli.progress import ProgressMeter

        self.meter = ProgressMeter(self.streams, self.command, wanted, shown=self.shows_progress())
        return self.meter.show_progress

    def _open_configured(self, targets: tuple[str, ...]) -> Instance:
        from sowctl.engine.instance import Instance

        # Before any store is opened: from then on, pages of a file can end the process.
        if self.own_process:
            from sowctl.cli.crash import install_handlers

            install_handlers(as_json=self.settings.error_format == "json")
        # An existing configuration is used for files, too: it may have more information about their topics.
        if targets and not self.has_config() and all(map(_is_path, targets)):
            self.note_detail("no configuration; the targets are files")
            return Instance(
                None,
                self.clock,
                self.seam,
                self.lock_wait,
                notify=self.note_once,
                holder=f"sowctl {self.command}",
                tell_more=self.note_detail,
            )
        root = Path(self.settings.root) if self.settings.root is not None else None
        return self.open_other_instance(self.find_config_path(), root)

    def open_other_instance(self, path: Path, root: Path | None = None) -> Instance:
        """The instance of another configuration than the command's own, with the same clock and notes."""
        from sowctl.engine.instance import Instance

        self.note_detail(f"configuration {path}, clock {format_time(self.clock())}")
        if self.kept is not None:
            from sowctl.cli.configuration_cache import SharedInstance

            config = self.kept.load(path, self.environ, root)
            return SharedInstance(
                config,
                self.clock,
                self.seam,
                self.lock_wait,
                notify=self.note_once,
                holder=f"sowctl {self.command}",
                tell_more=self.note_detail,
                client=self.environ.get("SOWCTL_CLIENT") or None,
            )
        instance = Instance.open(
            path,
            root=root,
            environment=self.environ,
            clock=self.clock,
            seam=self.seam,
            lock_wait=self.lock_wait,
            notify=self.note_once,
            holder=f"sowctl {self.command}",
            client=self.environ.get("SOWCTL_CLIENT") or None,
        )
        return replace(instance, tell_more=self.note_detail)

    def has_config(self) -> bool:
        """True if a configuration is given or found."""
        named = self.settings.config or self.environ.get("SOWCTL_CONFIG")
        return bool(named) or any(Path(name).is_file() for name in CONFIG_NAMES)

    def parse_instant(self, text: str) -> Micros:
        """Parse the time of an option, relative to this run's clock. Raises UsageError."""
        return parse_instant(text, self.clock)

    def note(self, *lines: str) -> None:
        """Print lines on standard error unless --quiet. The lines are escaped here."""
        if not self.settings.quiet:
            self._write_note(tuple(map(shorten_words, lines)))

    def note_once(self, text: str) -> None:
        """As :meth:`note`, but once in this run: code that reads data twice also notes twice."""
        if text not in self._noted:
            self._noted.add(text)
            self.note(text)

    def note_detail(self, text: str) -> None:
        """Print text on standard error with --verbose. ``text`` is escaped here."""
        if self.settings.verbose:
            self._write_note((text,))

    def _write_note(self, lines: Sequence[str]) -> None:
        self._write_remark(
            "note", "\n".join(lines), self.streams.style_text("note", "\n".join(self.streams.fold_lines(lines)))
        )

    def warn(
        self, text: str, *, code: str | None = None, place: str | None = None, hint: str | None = None, **facts: object
    ) -> None:
        """Print a warning: in words ``[code] place: text`` with the hint in its own line, in JSON as separate members,
        together with ``facts``. ``text``, ``place`` and ``hint`` are escaped here."""
        from sowctl.output.display import escape_line

        front = (f"[{code}] " if code else "") + (f"{escape_line(place)}: " if place else "")
        shown = self.streams.fold_labelled("warning", "warning", front + escape_line(text))
        if hint is not None:
            shown += self.streams.fold_labelled("hint", "hint", escape_line(hint), "  ")
        known = {"code": code, "place": place, "hint": hint} | facts
        self._write_remark(
            "warning", text, "\n".join(shown), **{name: value for name, value in known.items() if value is not None}
        )

    def _write_remark(self, level: str, text: str, shown: str, **facts: object) -> None:
        # With JSON, all output is objects, so that a program can read every line of standard error.
        if self.settings.error_format == "json":
            self.streams.write_stderr_json({"level": level, "message": text} | facts)
        else:
            self.streams.write_stderr_painted(shown)

    def start_paging(self) -> None:
        """Show further standard output in a pager if it is a terminal."""
        if self.settings.no_pager or self.endless or self.command in SELF_REPORTING_COMMANDS:
            return
        # Checked first: the module is not needed for a pipe.
        if is_terminal(self.streams.stdout):
            from sowctl.cli.pager import open_pager

            self.streams.start_paging(lambda terminal: open_pager(terminal, self.environ))

    def shows_progress(self) -> bool:
        """True if progress is drawn: as --progress requires, else if standard error is a suitable terminal."""
        wanted = self.settings.progress
        if wanted == "auto":
            capable = is_terminal(self.streams.stderr) and self.environ.get("TERM") != "dumb"
            return capable and not self.settings.quiet
        return wanted == "always"


def _is_path(target: str) -> bool:
    # A URL is no local file; the resulting error needs no configuration.
    if "://" in target and not target.startswith("file:"):
        return True
    return ("/" in target or target.endswith((".sow", ".journal"))) and Path(target).exists()
