"""Topic names of the configuration as patterns: those of the journal, of queues, of destinations.

A name with special characters of regular expressions is an unanchored PCRE pattern; any other name matches only itself.
Used by the model, the rules, and the routing of messages to Pattern topics. Ruled by ``sow-config(5)``, TransactionLog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from sowctl.config.problems import find_error_code
from sowctl.errors import ConfigError

_PATTERN_CHARACTERS = frozenset(".^$*+?()[]{}|\\")


def topic_matches(pattern: str, name: str, regex: bool = True) -> bool:
    """Return True if a topic name or pattern of the configuration matches ``name``.

    Raises :class:`~sowctl.errors.ConfigError` SOW-CFG-163 for an invalid pattern, or one that gives up on this name.
    """
    # A name matches itself, even if it is a pattern that does not match it, such as ``a+b``.
    if pattern == name:
        return True
    return regex and is_pattern(pattern) and compile_topic_search(pattern)(name)


def is_pattern(text: str) -> bool:
    """Return True if a topic name has characters that make it a regular expression."""
    return not _PATTERN_CHARACTERS.isdisjoint(text)


@lru_cache(maxsize=8192)
def compile_topic_search(pattern: str) -> Callable[[str], bool]:
    """The unanchored search of a pattern, compiled once. Raises as :func:`topic_matches` does."""
    if _is_easy(pattern):
        import re

        easy = re.compile(pattern)
        return lambda name: easy.search(name) is not None
    import pcre2

    try:
        compiled = pcre2.compile(pattern)
    except pcre2.PatternError as error:
        raise _build_pattern_error(pattern, str(error)) from None

    def search(name: str) -> bool:
        try:
            # A search that gives up at the library's limits is an error: treated as no match, it would silently omit
            # the topic.
            return compiled.search(name) is not None
        except pcre2.LibraryError as error:
            raise _build_pattern_error(pattern, f"{error} on {name!r}") from None

    return search


def compile_any_search(patterns: Iterable[str], *, strict: bool = False) -> Callable[[str], bool]:
    """The search of several patterns at once, faster than one after the other.

    An invalid pattern matches nothing; with ``strict`` the search raises as :func:`topic_matches` does.
    """
    import re

    wanted = list(dict.fromkeys(patterns))
    easy = [pattern for pattern in wanted if _is_easy(pattern)]
    # Easy patterns have neither groups nor alternatives, so they can be joined by ``|``.
    together = re.compile("|".join(easy)).search if easy else None
    others = [pattern for pattern in wanted if not _is_easy(pattern)]

    def search(name: str) -> bool:
        if together is not None and together(name) is not None:
            return True
        for pattern in others:
            try:
                if compile_topic_search(pattern)(name):
                    return True
            except ConfigError:
                if strict:
                    raise
        return False

    return search


def _is_easy(pattern: str) -> bool:
    """Return True for plain text, dots and anchors, which mean the same to both libraries; PCRE costs an import."""
    return not is_pattern(pattern.removeprefix("^").removesuffix("$").replace(".*", "").replace(".", ""))


def _build_pattern_error(pattern: str, detail: str) -> ConfigError:
    return ConfigError(
        find_error_code("S063"),
        f"{pattern!r} is not a usable regular expression: {detail}",
        hint="a topic pattern is a PCRE regular expression, matched anywhere in the name",
    )
