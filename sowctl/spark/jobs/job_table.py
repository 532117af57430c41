"""The table of jobs: name, module, function and summary. A job exists if and only if it has a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Job(Struct, frozen=True):
    """One line of the table; ``module`` is relative to ``sowctl.spark.jobs``."""

    name: str
    module: str
    function: str
    summary: str

    def load_function(self) -> Callable[..., Any]:
        """Import the module and return the function; its arguments are a session, an instance and those of the job."""
        found: Callable[..., Any] = getattr(importlib.import_module(f"sowctl.spark.jobs.{self.module}"), self.function)
        return found


JOBS: tuple[Job, ...] = (
    Job("load", "load", "load", "files into a topic, as one group"),
    Job("rebuild", "rebuild", "rebuild", "stores from the journals"),
    Job("snapshot", "snapshot", "snapshot", "a topic's state at an instant, as a data set or a store"),
    Job("view", "view", "view", "projections with grouping and joins, as a data set or a store"),
    Job("export", "export", "export", "topics as data sets"),
    Job("export-journal", "export", "export_journal", "journal entries as data sets"),
    Job("stream", "stream", "stream", "journal entries as they are written, to files or into another topic"),
)


def find_job(name: str) -> Job:
    """Return the job with this name. Raises KeyError if it does not exist."""
    return {job.name: job for job in JOBS}[name]
