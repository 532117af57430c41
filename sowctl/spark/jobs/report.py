"""What a job did, as a value; the commands and programs read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class JobReport:
    """One run of a job: ``records`` and ``bytes`` (of payload) that it wrote, ``partitions`` worked on, seconds.

    ``read`` are the records or entries that it was given, ``rejected`` those it refused, ``already_expired`` those that
    it wrote although they were over at the clock. ``details`` holds what only this job has to say, as plain values.
    """

    job: str
    topics: tuple[str, ...]
    output: str | None = None
    read: int = 0
    records: int = 0
    bytes: int = 0
    rejected: int = 0
    already_expired: int = 0
    partitions: int = 0
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
