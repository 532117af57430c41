"""The command line: from argv to an exit status; the only package that prints.

In the order of a run:

* ``main``: the entry point, with the only error boundary.
* ``boundary``: an exception to a message on standard error.
* ``crash``: handlers of fatal signals, which damaged pages of a mapped file can raise.
* ``parsing``: finding the command in the table, and reading its options.
* ``context``: inputs of a command besides its options: streams, environment, clock, seam, global settings.
* ``settings``: the global options.
* ``streams``: standard input, output and error, and questions to the user.
* ``pager``: sending long tables through a pager.
* ``progress``: the progress line of long operations.
* ``configuration``: loading the configuration of a command.
* ``configuration_cache``: configurations and open files shared by the commands of one process.
* ``lookup``: resolving topic names of the command line.
* ``diff_sides``: the two sides of ``diff``, parsed from its operands.
* ``commands``: one module per command.
* ``completion``: completion of command lines.
* ``shell``: several commands in one process.
* ``io``: input of messages, output of records and reports.
* ``documents``: the shapes of the JSON documents that commands print.
* ``manual``: generating and showing manual pages.
"""

from __future__ import annotations

import sys
from typing import Any

_MODULES: dict[str, Any] = sys.modules
_BACKPORT_MODULE = "typing_extensions"
if "msgspec" not in _MODULES and _BACKPORT_MODULE not in _MODULES:
    # msgspec imports two names from this module that ``typing`` has since Python 3.11, and uses those if the module is
    # missing. Importing it (and with it ``inspect``) takes an eighth of the time of ``import typer, lxml.etree, lmdb``,
    # the budget of ``get``; so it is hidden during that import.
    _MODULES[_BACKPORT_MODULE] = None
    try:
        import msgspec  # noqa: F401
    finally:
        del _MODULES[_BACKPORT_MODULE]
