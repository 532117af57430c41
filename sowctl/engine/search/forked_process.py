"""A child process for half of a long scan, if a processor is free for it.

Called by scans (:mod:`~sowctl.engine.search.scan`) and where memo indexes are built
(:mod:`~sowctl.engine.search.index_values`). What the process finds goes through a temporary file, so that neither
process waits for the other before its own part is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO


def count_processors() -> int:
    """Return the number of processors for child processes; 0 if there are threads, which a fork would cut off."""
    threads = sys.modules.get("threading")
    if (threads is not None and threads.active_count() > 1) or not hasattr(os, "sched_getaffinity"):
        return 0
    return len(os.sched_getaffinity(0))


class ForkedProcess:
    """A fork of this process that does ``work``, which writes to the file that it is given. :meth:`terminate` it."""

    def __init__(self, work: Callable[[IO[bytes]], None]) -> None:
        import tempfile

        self._results: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._child = 0
        with suppress(OSError):
            # If the system gives no further process, there are no results, and the first one does that part as well.
            self._child = os.fork()
            if self._child == 0:
                self._run(work)

    def _run(self, work: Callable[[IO[bytes]], None]) -> None:
        """Do the work of the further process; it never returns."""
        status = 1
        import gc

        # It lives for one piece of work, and looking for cycles among what it inherited would copy those pages.
        gc.disable()
        try:
            work(self._results)
            self._results.flush()
            # Only now: any other way out of here, also by a signal, is work that was not done.
            status = 0
        finally:
            # Without a word, and without what Python does at the end: all of that is the first process's.
            os._exit(status)

    def wait_for_results(self) -> IO[bytes] | None:
        """Wait for the end of the process: what it wrote, from the first byte; None where it did not do its work."""
        if not self._child:
            return None
        child, self._child = self._child, 0
        # Whatever ended the process early, what it wrote is not looked at.
        if os.waitpid(child, 0)[1]:
            return None
        self._results.seek(0)
        return self._results

    def terminate(self) -> None:
        """End the process, should it still run, and forget its results."""
        child, self._child = self._child, 0
        if child:
            import signal

            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self._results.close()
