"""Control lines: commands to a running subscription on its standard input (decision 71), and the option text.

A line is a JSON object: ``{"command":"replace","filter":...,"sow_keys":...,"options":...,"topic":...}``, or one with
pause, resume or stop. The option text is that of a server command: ``top_n=10,skip_n=0,oof,conflation=1s``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sowctl.declarations import DeclaredField, list_option_texts
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.search.keytext import split_keys
from sowctl.engine.search.optiontext import parse_option_text, parse_option_value, parse_switch
from sowctl.errors import UsageError
from sowctl.values.units import parse_seconds

CONTROL_COMMANDS = ("replace", "pause", "resume", "stop")


class ControlLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One control line; a missing member leaves its setting unchanged. An empty text removes the filter or the SOW
    keys."""

    command: str
    filter: str | None = None
    sow_keys: str | None = None
    options: str | None = None
    topic: str | None = None


def parse_control(line: bytes) -> ControlLine:
    """Parse a control line. Raises UsageError ``SOW-FOL-006``."""
    try:
        found = msgspec.json.decode(line, type=ControlLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _make_control_error(f"invalid control line: {error}") from None
    if found.command not in CONTROL_COMMANDS:
        raise _make_control_error(f"unknown control command {found.command!r}")
    return found


def _make_control_error(words: str) -> UsageError:
    return UsageError(
        "SOW-FOL-006",
        words,
        hint='write it like {"command":"replace","filter":"/qty > 5"}; the other commands are pause, resume and stop',
    )


@cache
def _list_options() -> dict[str, DeclaredField]:
    return list_option_texts(SubscribeOptions)


_PAGE_OPTIONS = ("top_n", "skip_n", "orderby")
"""Names of the options of a page in the option text."""
_IGNORED_OPTION = "timestamp"
"""An option accepted and ignored: a server adds the timestamp on request; here every event has one."""


def apply_subscription_text(options: SubscribeOptions, text: str) -> SubscribeOptions:
    """Return ``options`` changed by an option text. Raises UsageError ``SOW-QRY-017`` and ``SOW-FOL-007``."""
    changes: dict[str, Any] = {}
    for name, value in parse_option_text(text).items():
        field = _list_options().get(name)
        if field is None and name != _IGNORED_OPTION:
            hint = f"valid options: {', '.join((*_list_options(), _IGNORED_OPTION))}"
            raise UsageError("SOW-FOL-007", f"unknown subscription option {name!r}", hint=hint)
        try:
            if field is None:
                parse_switch(value)
            else:
                changes[field.name] = parse_option_value(field, value)
        except ValueError as error:
            raise UsageError(
                "SOW-FOL-007", f"option {name}: {error}", hint="write options like top_n=10,skip_n=0,oof"
            ) from None
    return replace(options, **changes)


def parse_conflation_seconds(conflation: str | None) -> float | None:
    """Return the interval of a conflation option in seconds; None without conflation. Raises UsageError
    ``SOW-FOL-007``."""
    if conflation is None or conflation == "none":
        return None
    if conflation == "auto":
        return AUTO_CONFLATION_SECONDS
    try:
        found = parse_seconds(conflation)
    except ValueError as error:
        hint = "use an interval such as 500ms or 2s, auto, or none"
        raise UsageError("SOW-FOL-007", f"conflation: {error}", hint=hint) from None
    return found or None


AUTO_CONFLATION_SECONDS = 0.1
"""Seconds of the interval ``auto``: short enough to look immediate to a person."""


def apply_replace_line(options: SubscribeOptions, control: ControlLine) -> SubscribeOptions:
    """Return the options after a replace line: the options of a page have to be given again (decision 37).

    Raises UsageError ``SOW-FOL-008`` if they are not, and what :func:`apply_subscription_text` raises.
    """
    new = options if control.filter is None else replace(options, filter=control.filter or None)
    if control.sow_keys is not None:
        new = replace(new, sow_keys=split_keys(control.sow_keys) if control.sow_keys.strip() else None)
    given = parse_option_text(control.options or "")
    page = {name: getattr(options, _list_options()[name].name) for name in _PAGE_OPTIONS}
    missing = [name for name, value in page.items() if value is not None and name not in given]
    if missing:
        # An order contains commas.
        texts = page | {"orderby": f"[{options.order_by}]"}
        present = ",".join(f"{name}={texts[name]}" for name in missing)
        raise UsageError(
            "SOW-FOL-008",
            f"to replace a subscription with {', '.join(missing)}, give "
            f"{('it' if len(missing) == 1 else 'them')} again",
            hint=f"give these options in the control line, changed or not; the current values are: {present}",
        )
    new = new if control.options is None else apply_subscription_text(new, control.options)
    if (new.bookmark_not_found, new.rate, new.rate_max_gap) != (
        options.bookmark_not_found,
        options.rate,
        options.rate_max_gap,
    ):
        hint = "end this subscription and start another"
        raise UsageError("SOW-FOL-024", "rate and gap options of a replay cannot be replaced", hint=hint)
    return new
