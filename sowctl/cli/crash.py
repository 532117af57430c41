"""Handlers of fatal signals: LMDB maps the file, and some damaged pages end the process.

A signal handler in Python would never run (the faulting instruction would be retried forever), so a C handler is set,
which prints a message and ends the process with the status for damage. A store that is read without locks and was
written meanwhile has such pages, too, without being damaged: this is checked first. Only ``main.run`` installs the
handlers: in another program that calls this package, the signals belong to that program. ``check`` does not need them;
it reads in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sowctl.errors import SowError

FATAL_SIGNALS = (signal.SIGBUS, signal.SIGABRT, signal.SIGSEGV)
EXIT_STATUS = 5
TEXT_MESSAGE = (
    b"error[SOW-CLI-061]: a store is damaged so badly that reading it ends the process (signal %d)\n"
    b"  hint: sowctl check says which store; sowctl replay TOPIC rebuilds it from the journals\n"
)
JSON_MESSAGE = (
    b'{"level": "error", "code": "SOW-CLI-061", "exit": 5, "message": "a store is damaged so badly that reading it '
    b'ends the process (signal %d)", "hint": "sowctl check says which store; sowctl replay TOPIC rebuilds it"}\n'
)
_kept_handlers: list[Any] = []


def _format_error(error: SowError, as_json: bool) -> bytes:
    if as_json:
        import json

        parts = {"code": error.code, "exit": error.exit_status, "message": error.summary, "hint": error.hint}
        return json.dumps({"level": "error"} | parts).encode() + b"\n"
    return os.fsencode(f"error[{error.code}]: {error.summary}\n  hint: {error.hint}\n")


def install_handlers(*, as_json: bool) -> None:
    """Install the handlers once; later calls have no effect."""
    if _kept_handlers:
        return
    import ctypes

    words = JSON_MESSAGE if as_json else TEXT_MESSAGE

    def die(number: int) -> None:
        status = EXIT_STATUS
        try:
            unlocked = sys.modules.get("sowctl.store.opening.unlocked_watch")
            error = unlocked.find_overtaken_error() if unlocked is not None else None
            if error is None:
                os.write(2, words % number)
            else:
                status = error.exit_status
                os.write(2, _format_error(error, as_json))
        finally:
            # No other code may run: the faulting instruction would be retried.
            os._exit(status)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(die)
    # Referenced until the process ends: the C library has only the address, and would call a collected object.
    _kept_handlers.append(handler)
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    for number in FATAL_SIGNALS:
        library.signal(ctypes.c_int(number), handler)
