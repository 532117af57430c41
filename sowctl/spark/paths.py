"""Paths as Spark users write them: plain paths, and equivalent ``file:`` URLs.

Called for options of the data sources and for the inputs and outputs of jobs.
"""

from __future__ import annotations

from sowctl.remote.place import is_url as is_remote
from sowctl.remote.place import parse_local_path

__all__ = ["is_remote", "parse_local_path"]
