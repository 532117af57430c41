"""Selection of entries by a filter and a pattern on their messages.

The filter is that of queries (``sowctl-expressions(7)``); the pattern is a PCRE2 pattern on the bytes of the payload.
Deletions and entries of queues have no message: neither matches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.fold.blocks import read_values_at
from sowctl.engine.search.matcher import Matcher, build_environment, build_headers, evaluate_places, name_entry
from sowctl.errors import ConfigError, UsageError
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.nodes import Pattern
from sowctl.expressions.syntax.patterns import PlainPattern, compile_pattern
from sowctl.journal.format import PUBLISH

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.expressions.syntax.patterns import RegexPattern
    from sowctl.journal.block import Block
    from sowctl.messages.base import Extractor
    from sowctl.values.topicref import TopicRef


class PayloadTest:
    """A filter and a pattern, either of which may be None. ``unreadable`` counts messages that are invalid in their
    type: these match no filter.

    Raises ExpressionError (exit 2) for invalid texts.
    """

    def __init__(self, instance: Instance, filter: str | None, pattern: str | None) -> None:
        self.unreadable = 0
        self._instance = instance
        self._filter = filter if filter is not None and filter.strip() else None
        self._functions = load_functions(instance) if self._filter is not None else {}
        self._environment = build_environment(instance)
        self._matchers: dict[TopicRef, Matcher | None] = {}
        self._readers: dict[str, Extractor] = {}
        self._pattern = _compile_pattern(pattern)
        if self._filter is not None:
            from sowctl.expressions.compiler import compile_filter

            # Also without entries: an invalid filter is rejected.
            compile_filter(self._filter, extra=self._functions)

    @property
    def is_needed(self) -> bool:
        """Return whether payloads are tested at all."""
        return self._filter is not None or self._pattern is not None

    def require_fields(self, topic: TopicRef) -> None:
        """Reject a filter on a topic whose messages have no fields. Raises UsageError ``SOW-QRY-003``."""
        if self._filter is not None:
            self._build_matcher(topic)

    def select_places(self, block: Block, places: Sequence[int]) -> list[int]:
        """Return the ``places`` whose messages match."""
        operations = block.decode_columns().operations
        found = [place for place in places if operations[place] == PUBLISH]
        if found and self._pattern is not None:
            found = self._match_pattern(block, found)
        if found and self._filter is not None:
            found = self._match_filter(block, found)
        return found

    def _match_pattern(self, block: Block, places: list[int]) -> list[int]:
        pattern = self._pattern
        assert pattern is not None
        # If a text does not occur in the concatenated payloads of the block, it occurs in none of them.
        if isinstance(pattern, PlainPattern) and pattern.text not in bytes(block.decompress_payloads()):
            return []
        payloads = block.list_payloads()
        return [place for place in places if pattern.is_found(payloads[place])]

    def _match_filter(self, block: Block, places: list[int]) -> list[int]:
        columns, topic_refs = block.decode_columns(), block.topic_refs
        by_topic: dict[int, list[int]] = {}
        for place in places:
            by_topic.setdefault(columns.topic_indexes[place], []).append(place)
        found: list[int] = []
        for index, some in by_topic.items():
            found += self._match_topic(block, topic_refs[index], some)
        return sorted(found)

    def _match_topic(self, block: Block, topic: TopicRef, places: list[int]) -> list[int]:
        matcher = self._get_matcher(topic)
        if matcher is None:
            return []
        payloads = block.list_payloads()
        # Prefilter without decoding: a message without the literals of the filter does not match, whether valid or not.
        possible = matcher.find_possible([payloads[place] for place in places], None)
        places = [places[at] for at in possible]
        wanted = matcher.filter
        assert wanted is not None
        if not places or not wanted.slots:
            readable = places
            rows: Sequence[object] = [()] * len(places)
        else:
            rows, refused = self._build_reader(matcher)([payloads[place] for place in places])
            bad = {refusal.index for refusal in refused}
            self.unreadable += len(bad)
            readable = [place for at, place in enumerate(places) if at not in bad]
            rows = [row for at, row in enumerate(rows) if at not in bad]
        headers = None
        if wanted.uses_header and readable:
            headers = build_headers(*read_values_at(block, readable), topic.name)

        def matches(part: slice) -> list[int]:
            return wanted.find_matches(rows[part], self._environment, headers and headers[part])  # type: ignore[arg-type]

        accepted = evaluate_places(matches, len(rows), lambda error, at: name_entry(error, block, readable[at]))
        return [readable[at] for at in accepted]

    def _build_reader(self, matcher: Matcher) -> Extractor:
        found = self._readers.get(matcher.type.name)
        if found is None:
            assert matcher.filter is not None
            found = self._readers[matcher.type.name] = matcher.type.build_extractor(matcher.filter.slots)
        return found

    def _get_matcher(self, topic: TopicRef) -> Matcher | None:
        """Return the filter for a topic; None if its messages have no fields, so that no filter matches them."""
        if topic not in self._matchers:
            try:
                self._matchers[topic] = self._build_matcher(topic)
            # A journal outlives its configuration: of a removed type only the bytes are known.
            except (ConfigError, UsageError):
                self._matchers[topic] = None
        return self._matchers[topic]

    def _build_matcher(self, topic: TopicRef) -> Matcher:
        kind = self._instance.find_message_type(topic.message_type)
        return Matcher(self._filter, kind, topic.name, self._environment, seen=True, functions=self._functions)


def _compile_pattern(text: str | None) -> PlainPattern | RegexPattern | None:
    if text is None:
        return None
    try:
        found = compile_pattern(Pattern(text.encode("utf-8", "surrogateescape"), False, span=(0, len(text))), text)
    except ExpressionError as error:
        raise UsageError(
            "SOW-CLI-085", f"--regex: {error.message}", hint="use a regular expression in PCRE2 syntax"
        ) from None
    if found is None:
        raise UsageError("SOW-CLI-085", "--regex: the pattern is empty", hint="remove the option to match everything")
    return found
