"""What a stored JSON message must show for a filter to be true: records without it need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.
``/price > 90`` is true only where behind some name ``price`` stands a number above 90, or something that is no number.

Stored values are searched whole, and many at once (:mod:`sowctl.store.integrity`). Their headers and checksums may look
like a trace, too; then a record is decoded in vain.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sowctl.expressions.syntax.errors import MatchLimitExceededError
from sowctl.expressions.syntax.patterns import Regex
from sowctl.store.integrity import JOINED_BYTES, Marks, numbers_of

SHARE = 0.75
"""Looking for a trace does not pay where more of the records than this share have it."""
FEW = 0.5
"""Where less than this share of the records can still match, these are joined again and searched alone."""
ENOUGH = 1000
"""Records after which a trace is judged."""


class Trace(Struct, frozen=True):
    """Something to look for: a pattern, ``spelled``. ``texts``: what in it JSON may also spell with escapes."""

    texts: tuple[bytes, ...]
    spelled: bytes


def words(texts: Sequence[bytes], *, whole: bool = True) -> Trace:
    """One of several pieces of text; ``whole``: from quote to quote."""
    ways = b"|".join(map(_literal, texts))
    ways = b"(?:%b)" % ways if len(texts) > 1 else ways
    return Trace(tuple(texts), b'"%b"' % ways if whole else ways)


def numbers(name: bytes, spelled: bytes) -> Trace:
    """Behind ``name`` a number whose text begins as ``spelled`` says, or something that is no number."""
    return Trace((name,), rb'"%b"\s*+:\s*+(?:%b|[^-\d\s])' % (_literal(name), spelled))


def _literal(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


class _Search:
    """A pattern, looked for in a run, and how often it was found."""

    def __init__(self, pattern: bytes, marks: Marks) -> None:
        self._code = Regex(pattern + marks.behind)
        self.fast = self._code.compiled
        self.looked = self.found = 0

    def numbers(self, run: bytes) -> list[int]:
        """Numbers of the values of ``run`` in which it stands, ascending."""
        return numbers_of(self._code.captured(run))

    def judge(self, looked: int, found: int) -> None:
        """Take note of what share of the records has it."""
        self.looked += looked
        self.found += found

    @property
    def known(self) -> bool:
        """Whether it was looked for in enough records to be judged."""
        return self.looked >= ENOUGH

    @property
    def share(self) -> float:
        """Which share of the records has it."""
        return self.found / self.looked


class Traces:
    """All traces of a filter, to be looked for in stored values of JSON messages. ``marks``: those of marked runs."""

    def __init__(self, traces: Sequence[Trace], marks: Marks) -> None:
        self.marks = marks
        searches = [_Search(trace.spelled, marks) for trace in traces]
        # Without machine code looking takes ten times as long: longer than to decode.
        self._searches = searches if all(one.fast for one in searches) else []
        self._sorted = False
        texts = [text for trace in traces for text in trace.texts]
        escapes = rb"u00[2-7]" if all(map(bytes.isascii, texts)) else b"u"
        if any(b"/" in text for text in texts):
            escapes = rb"(?:%b|/)" % escapes
        self._escapes = _Search(rb"\\" + escapes, marks)
        """A backslash and what follows it where that spells one of their characters: only these have two spellings."""

    @property
    def pays(self) -> bool:
        """Whether looking for them has spared decoding so far."""
        return bool(self._searches)

    def shown(self, values: Sequence[bytes], run: bytes | None = None) -> Sequence[int]:
        """Places of the values that may show all traces, ascending. ``run``: all of them, marked, if they are joined.

        Only an escape can spell a text otherwise: a value that has one counts.
        """
        if run is None:
            if sum(map(len, values)) > JOINED_BYTES:
                return self._shown_in_halves(values)
            run = self.marks.joined(values)
        try:
            places = self._shown(values, run)
        except MatchLimitExceededError:
            return range(len(values))
        self._searches = [one for one in self._searches if not one.known or one.share <= SHARE]
        if not self._sorted and all(one.known for one in self._searches):
            self._sorted = True
            self._searches.sort(key=lambda one: one.share)
        return places

    def _shown(self, values: Sequence[bytes], run: bytes) -> Sequence[int]:
        escaped = set(self._escapes.numbers(run))
        places: Sequence[int] = range(len(values))
        for search in self._searches:
            if len(places) < FEW * len(values):
                again = search.numbers(self.marks.joined([values[place] for place in places]))
                found = [places[number] for number in again]
            else:
                found = search.numbers(run)
                if len(places) < len(values):
                    found = sorted(set(found).intersection(places))
            if escaped:
                found = sorted(escaped.union(found))
            search.judge(len(places), len(found))
            places = found
        return places

    def _shown_in_halves(self, values: Sequence[bytes]) -> Sequence[int]:
        """As :meth:`shown`, for values that are too large to be copied together; one alone may always show all."""
        half = len(values) // 2
        if not half:
            return range(len(values))
        return [*self.shown(values[:half]), *(half + place for place in self.shown(values[half:]))]
