"""Paths as Spark's users write them: plain ones, and URLs of the scheme ``file``, which mean the same.

Called for options of the data sources and for the inputs and outputs of jobs.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def is_remote(text: str) -> bool:
    """Whether a path is another file system's, which only Spark can read and write."""
    return "://" in text and not text.startswith("file:")


def local_path(text: str) -> Path:
    """The path that a text means. Only a URL has its percent signs decoded: in a plain path they are characters."""
    return Path(unquote(urlsplit(text).path) if text.startswith("file:") else text)
