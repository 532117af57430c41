"""The command line: argv in, an exit status out; the only room that prints.

In the order in which a run passes: ``main`` is the entry and holds the one error boundary (``boundary``: what ended a
run, in words; ``crash``: what to say where damaged pages end the process). ``context`` has what a command is given
besides its options, ``streams``, the ``pager`` and the ``progress`` of long readings among it, ``configuration_cache``
what commands of one process share. ``parsing/`` finds the command in the table and reads its options, ``commands/`` has
a file for each, ``completion/`` knows what may stand next on a line, ``shell/`` runs many in one process, ``io/``
brings messages in and records out, ``manual/`` makes and shows the pages. ``configuration`` and ``lookup`` say which
configuration, topics and records the words of a command line mean.
"""

from __future__ import annotations

import sys
from typing import Any

_MODULES: dict[str, Any] = sys.modules
_BACKPORT_MODULE = "typing_extensions"
if "msgspec" not in _MODULES and _BACKPORT_MODULE not in _MODULES:
    # msgspec asks for two names that ``typing`` has since Python 3.11 and takes those where this module is not there.
    # Loading it (and with it ``inspect``) takes an eighth of what ``import typer, lxml.etree, lmdb``
    # does, which is the budget of ``get``; so it is out of sight for that import.
    _MODULES[_BACKPORT_MODULE] = None
    try:
        import msgspec  # noqa: F401
    finally:
        del _MODULES[_BACKPORT_MODULE]
