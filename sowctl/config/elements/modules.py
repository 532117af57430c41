"""The action modules and their options: which are required, and the kind of each value (``sow-config(5)``).

An option is written ``BookmarkName`` (optional) or ``Name!`` (required), with ``:kind`` if its value is checked.
"""

from __future__ import annotations

from msgspec import Struct


class Module(Struct, frozen=True):
    """An action module: options by name with their kinds (empty for free text), and the required ones."""

    options: dict[str, str]
    required: tuple[str, ...]


def _parse_modules(text: str) -> dict[str, Module]:
    table = {}
    for line in text.strip().splitlines():
        name, *options = line.split()
        kinds = {}
        required = []
        for option in options:
            word, _, kind = option.partition(":")
            if word.endswith("!"):
                word = word[:-1]
                required.append(word)
            kinds[word] = kind
        table[name] = Module(kinds, tuple(required))
    return table


_ON_MODULE_LINES = """
amps-action-on-schedule Every!:every Name
amps-action-on-startup
amps-action-on-shutdown
amps-action-on-signal Signal!
amps-action-on-admin Path! RequiredParameter Name Description
amps-action-on-minidump
amps-action-on-connect-client
amps-action-on-disconnect-client
amps-action-on-logon-client
amps-action-on-offline-start
amps-action-on-offline-stop
amps-action-on-subscribe Topic!:regex MessageType!
amps-action-on-unsubscribe Topic!:regex MessageType!
amps-action-on-connect-incoming-replication
amps-action-on-disconnect-incoming-replication
amps-action-on-connect-replication
amps-action-on-disconnect-replication
amps-action-on-replication-resync-complete
amps-action-on-upgrade-replication
amps-action-on-downgrade-replication
amps-action-on-publish-message Topic!:regex MessageType! MessageSource Filter:filter Options
amps-action-on-deliver-message Topic!:regex MessageType!
amps-action-on-oof-message Topic!:regex MessageType! Filter:filter Type
amps-action-on-sow-expire-message Topic! MessageType! Reason
amps-action-on-sow-delete-message Topic! MessageType!
amps-action-on-message-condition-timeout Topic! MessageType! Duration:interval Filter:filter
amps-action-on-alert Topic! MessageType! Duration:interval Filter:filter OOFEvent! TimeoutEvent! EventVariable!
amps-action-on-message-affinity MessageType! ControlTopic! DataTopic! DataFilter:filter
amps-action-on-execute-event Event!
"""

_IF_MODULE_LINES = """
amps-action-if-condition Condition!:filter
amps-action-if-file-system-usage Path! GreaterThan!:usage
"""

_DO_MODULE_LINES = """
amps-action-do-delete-sow Topic!:regex MessageType! Filter!:filter
amps-action-do-compact-sow Topic MessageType
amps-action-do-query-sow Topic!:regex MessageType! Filter!:filter CaptureData! DefaultData OrderBy Options
amps-action-do-archive-journal Age!:interval
amps-action-do-compress-journal Age!:interval
amps-action-do-remove-journal Age!:interval
amps-action-do-remove-files Age!:interval Pattern! Keep Count
amps-action-do-compress-files Age!:interval Pattern! Keep Count
amps-action-do-truncate-statistics Age!:interval
amps-action-do-vacuum-statistics
amps-action-do-rotate-logs
amps-action-do-enable-proxied-transfer Topic! MessageType!
amps-action-do-disable-proxied-transfer Topic! MessageType!
amps-action-do-publish-message Topic! MessageType! Data! Delta UpdateOnly
amps-action-do-extract-values MessageType! Value! Data
amps-action-do-translate-data Data! Value! Case Default
amps-action-do-increment-counter Key! Value!
amps-action-do-execute-event Event EventVariable
amps-action-do-execute-system Command!
amps-action-do-echo-message Message
amps-action-do-nothing
amps-action-do-minidump
amps-action-do-shutdown
amps-action-do-enable-transport Transport
amps-action-do-disable-transport Transport
amps-action-do-enable-authentication
amps-action-do-disable-authentication
amps-action-do-enable-entitlement
amps-action-do-disable-entitlement
amps-action-do-reset-authentication Transport AuthenticationId
amps-action-do-reset-entitlement Transport AuthenticationId
amps-action-do-upgrade-replication Age!:interval GracePeriod:interval
amps-action-do-downgrade-replication Age!:interval GracePeriod:interval
"""

ACTION_MODULES: dict[str, dict[str, Module]] = {
    "On": _parse_modules(_ON_MODULE_LINES),
    "If": _parse_modules(_IF_MODULE_LINES),
    "Do": _parse_modules(_DO_MODULE_LINES),
}

MODULE_CORRECTIONS = {
    "amps-action-do-delete-files": "amps-action-do-remove-files",
    "amps-action-do-archive-journals": "amps-action-do-archive-journal",
    "amps-action-do-remove-journals": "amps-action-do-remove-journal",
}
"""Common misspellings of module names."""

NONEXISTENT_MODULES = {"amps-action-do-delete-old-journal-files": "amps-action-do-remove-journal"}
"""Invented names, too different from the right one for a misspelling, whose intended meaning is known."""
