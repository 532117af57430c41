"""Report of a job as a value, and translation of Spark's errors, for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from sowctl.errors import StorageError


class JobReport(Struct):
    """Report of one run of a job: ``records`` and ``bytes`` (of payload) written, ``partitions`` processed, seconds.

    ``read`` counts the records or entries read, ``rejected`` those rejected, ``already_expired`` those written although
    they had expired. ``details`` contains figures of this kind of job only, as plain values.
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


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raise errors of Spark itself as StorageError ``SOW-SPK-070`` with the first line of their text."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise StorageError(
            "SOW-SPK-070", f"Spark job failed: {words}", hint="--verbose prints all output of Spark"
        ) from error
