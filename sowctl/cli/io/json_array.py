"""A JSON array on standard output, with elements written one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from types import TracebackType


class JsonArray:
    """An array with an element per line, flushed as it grows, so that a program can wait for its lines.

    A context manager: the array is closed even if an error ends it, which the exit status shows.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._opening = b"["

    def __enter__(self) -> JsonArray:
        return self

    def write_elements(self, elements: Sequence[bytes]) -> None:
        """Write elements, each JSON in one line, and flush them."""
        for element in elements:
            self._out.write(self._opening + element)
            self._opening = b",\n"
        self._out.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._out.write(b"[]\n" if self._opening == b"[" else b"]\n")
        self._out.flush()
