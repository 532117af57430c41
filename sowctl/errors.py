"""Every error that this program reports on purpose: code, exit status, place, hint.

The exit statuses are a published interface (README, sowctl(1)). A class represents an exit status; a code
(``SOW-ROOM-NNN``) represents one reason and never changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import wraps
from types import FunctionType, GeneratorType
from typing import Any, TypeVar

T = TypeVar("T")
MAX_WORD_CHARACTERS = 255
"""Maximum characters of a word that texts for people quote whole; the maximum length of a file name."""
_SHOWN_CHARACTERS = 40
_LONG_WORD_PATTERN = re.compile(rf"\w{{{MAX_WORD_CHARACTERS + 1},}}")


def shorten_words(text: str) -> str:
    """The text with words shortened that are too long for people, such as a number with thousands of digits."""
    if len(text) <= MAX_WORD_CHARACTERS:
        return text
    return _LONG_WORD_PATTERN.sub(lambda found: found[0][:_SHOWN_CHARACTERS] + "...", text)


class SowError(Exception):
    """Base of all reported errors.

    ``code`` is ``SOW-ROOM-NNN``; ``place`` the place of the error (``file:line:column``, a path, a topic);
    ``hint`` the next step; ``excerpt`` lines of source with a caret; ``facts`` plain values for JSON output.
    """

    exit_status = 70

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: str | None = None,
        hint: str | None = None,
        excerpt: str | None = None,
        **facts: Any,
    ) -> None:
        message = shorten_words(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.place = place
        self.hint = None if hint is None else shorten_words(hint)
        self.excerpt = excerpt
        self.facts = facts

    @property
    def summary(self) -> str:
        """Place and message, for texts that quote the error."""
        return f"{self.place}: {self.message}" if self.place else self.message

    def __str__(self) -> str:
        """Code, place and message; below them the excerpt with its caret, and the hint."""
        lines = [f"{self.code}: {self.summary}"]
        if self.excerpt:
            lines += ["  " + line for line in self.excerpt.split("\n")]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_error, (type(self), self.code, self.message, self.place, self.hint, self.excerpt, self.facts)


def _restore_error(
    kind: type[SowError],
    code: str,
    message: str,
    place: str | None,
    hint: str | None,
    excerpt: str | None,
    facts: dict[str, Any],
) -> SowError:
    return kind(code, message, place=place, hint=hint, excerpt=excerpt, **facts)


class NegativeError(SowError):
    """The condition is false: no such key, a difference, findings."""

    exit_status = 1


class UsageError(SowError):
    """Invalid option, argument, or filter."""

    exit_status = 2


class InputError(SowError):
    """An input record was rejected; the run may have continued."""

    exit_status = 3


class ConfigError(SowError):
    """The configuration is invalid or unsuitable."""

    exit_status = 4


class DamageError(SowError):
    """Stored data is damaged."""

    exit_status = 5


class StorageError(SowError):
    """The operating system reported an error: full disk, permission, I/O error."""

    exit_status = 6


class LimitError(SowError):
    """A safety limit was exceeded."""

    exit_status = 7


class RefusedError(SowError):
    """Refused: needs --yes or --force, read-only, another definition."""

    exit_status = 8


class VersionError(SowError):
    """Written by a newer format."""

    exit_status = 9


class MissingError(SowError):
    """A store, journal, topic does not exist."""

    exit_status = 10


class LockedError(SowError):
    """Another process held the lock for longer than --lock-wait."""

    exit_status = 11


class MissingPackageError(ConfigError):
    """A package of an extra is not installed."""

    exit_status = 12


ERROR_CLASSES: tuple[type[SowError], ...] = (
    NegativeError,
    UsageError,
    InputError,
    ConfigError,
    DamageError,
    StorageError,
    LimitError,
    RefusedError,
    VersionError,
    MissingError,
    LockedError,
    MissingPackageError,
)


def build_memory_error(error: MemoryError) -> LimitError:
    """The error to report instead of ``error``."""
    # Memory held by the run is released first: the message needs memory, too.
    error.__traceback__ = None
    return LimitError("SOW-CLI-063", "not enough memory", hint="allow more memory, or request less data at once")


def convert_memory_errors(kind: type[T]) -> type[T]:
    """Convert MemoryError to :func:`build_memory_error` in the public methods of a class of the Python API.

    The generators that they return do the same. The command line converts it where it reports all other errors.
    """
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and (not name.startswith("_") or name == "__iter__"):
            setattr(kind, name, _check_code(method))
    return kind


def _check_code(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def coded(*arguments: Any, **keywords: Any) -> Any:
        try:
            found = method(*arguments, **keywords)
        except MemoryError as error:
            raise build_memory_error(error) from None
        return _convert_generator_errors(found) if isinstance(found, GeneratorType) else found

    return coded


def _convert_generator_errors(found: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    try:
        return (yield from found)
    except MemoryError as error:
        raise build_memory_error(error) from None
