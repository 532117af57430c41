"""What to say where damaged pages end the process: LMDB maps the file, and some pages that lie are fatal to it.

A signal handler of Python would never run (the faulting instruction would be tried again for ever), so a handler of C
is set, which says what happened and ends the process with the status for damage. Only ``main.run`` asks for this: in a
program of somebody else these signals are not ours. ``check`` needs none of it; it reads in a process of its own.
"""

from __future__ import annotations

import os
import signal
from typing import Any

SIGNALS = (signal.SIGBUS, signal.SIGABRT, signal.SIGSEGV)
STATUS = 5
WORDS = (
    b"error[SOW-CLI-061]: a store is damaged so badly that reading it ends the process (signal %d)\n"
    b"  hint: sowctl check says which store; sowctl replay TOPIC rebuilds it from the journals\n"
)
JSON = (
    b'{"level": "error", "code": "SOW-CLI-061", "exit": 5, "message": "a store is damaged so badly that reading it '
    b'ends the process (signal %d)", "hint": "sowctl check says which store; sowctl replay TOPIC rebuilds it"}\n'
)
_kept: list[Any] = []


def prepare(*, as_json: bool) -> None:
    """Set the handlers, once; later calls change nothing."""
    if _kept:
        return
    import ctypes

    words = JSON if as_json else WORDS

    def die(number: int) -> None:
        try:
            os.write(2, words % number)
        finally:
            os._exit(STATUS)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(die)
    _kept.append(handler)
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    for number in SIGNALS:
        library.signal(ctypes.c_int(number), handler)
