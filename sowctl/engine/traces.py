"""What a stored JSON message must show for a filter to be true: records without it need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.
``/price > 90`` is true only where behind some name ``price`` stands a number above 90, or something that is no number.

Stored values are searched whole. Their headers and checksums may look like a trace, too; then a record is decoded in
vain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import invert
from typing import Any, Protocol

from sowctl.patterns import pattern

_FEW = 50
"""Backslashes that headers and checksums of one batch may have by chance."""
_ENOUGH = 1000
"""Records after which a trace is judged."""


class Trace(Protocol):
    """Something to look for. ``texts``: what it consists of that JSON may spell with escapes."""

    texts: Sequence[bytes]
    share: float
    """Looking for it does not pay where more of the records than this share have it."""

    def found(self, values: Sequence[bytes]) -> Iterable[Any]:
        """Whether each of ``values`` may hold it, as a truth value."""
        ...

    def is_absent(self, run: bytes) -> bool:
        """Whether it certainly is nowhere in ``run``."""
        ...


class Word:
    """A piece of text."""

    share = 0.75

    def __init__(self, text: bytes, *, whole: bool = True) -> None:
        """``whole``: from quote to quote."""
        self.texts: Sequence[bytes] = (text,)
        self._word = b'"%b"' % text if whole else text

    def found(self, values: Sequence[bytes]) -> Iterable[Any]:
        """See :class:`Trace`. What is not found is at -1, which alone inverts to 0."""
        # rfind is about twice as fast as find and "in".
        return map(invert, map(bytes.rfind, values, repeat(self._word)))

    def is_absent(self, run: bytes) -> bool:
        """See :class:`Trace`."""
        return run.rfind(self._word) < 0


class Searched:
    """Something that a pattern finds, made of ``texts``."""

    share = 0.4

    def __init__(self, texts: Sequence[bytes], searched: bytes) -> None:
        self.texts = texts
        self._pattern = pattern(searched)

    def found(self, values: Sequence[bytes]) -> Iterable[Any]:
        """See :class:`Trace`."""
        return map(self._pattern.search, values)

    def is_absent(self, run: bytes) -> bool:
        """See :class:`Trace`."""
        return self._pattern.search(run) is None


class Words(Searched):
    """One of several pieces of text: up to twice as fast as looking for one after the other."""

    def __init__(self, texts: Sequence[bytes], *, whole: bool = True) -> None:
        """``whole``: from quote to quote."""
        ways = b"|".join(map(re.escape, texts))
        super().__init__(texts, b'"(?:%b)"' % ways if whole else ways)


class Numbers(Searched):
    """Behind ``name`` a number whose text begins as ``spelled`` says, or something that is no number."""

    def __init__(self, name: bytes, spelled: bytes) -> None:
        super().__init__((name,), rb'"%b"\s*+:\s*+(?:%b|[^-\d\s])' % (re.escape(name), spelled))

    def is_absent(self, run: bytes) -> bool:
        """See :class:`Trace`. Never asked of a run, which would spare 0.1 of a scan where hardly a record matches."""
        return False


class Traces:
    """All traces of a filter, to be looked for in stored values of JSON messages."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = list(traces)
        self._counts = {id(trace): (0, 0) for trace in traces}
        texts = [text for trace in traces for text in trace.texts]
        numbers = [b"u00%d" % row for row in range(2, 8)] if all(map(bytes.isascii, texts)) else [b"u"]
        self._escapes = (*numbers, b"/") if any(b"/" in text for text in texts) else tuple(numbers)
        """What follows a backslash where that spells one of their characters: only these have two spellings."""
        self._escape = pattern(b"".join((rb"\\(?:", b"|".join(self._escapes), b")")))
        self._scarce = False

    @property
    def pays(self) -> bool:
        """Whether looking for them has spared decoding so far."""
        return bool(self._traces)

    def shown(self, values: Sequence[bytes], run: bytes | None) -> Sequence[int]:
        """Places of the values that may show all traces. ``run``: bytes in which all of them stand, if there are such.

        Only an escape can spell a text otherwise: a value that has one counts.
        """
        if run is None:
            run = b"".join(values)
        escaped = self._is_escaped(run)
        if self._scarce and not escaped and any(trace.is_absent(run) for trace in self._traces):
            return ()
        places: Sequence[int] = range(len(values))
        for trace in tuple(self._traces):
            held = values if len(places) == len(values) else [values[place] for place in places]
            if escaped:
                shown = [one or self._escape.search(value) for one, value in zip(trace.found(held), held, strict=True)]
                places = list(compress(places, shown))
            else:
                places = list(compress(places, trace.found(held)))
            self._judge(trace, len(held), len(places))
        self._scarce = not places
        return places

    def _judge(self, trace: Trace, looked: int, found: int) -> None:
        """Give a trace up that most records have."""
        before = self._counts[id(trace)]
        looked, found = self._counts[id(trace)] = before[0] + looked, before[1] + found
        if looked >= _ENOUGH and found > trace.share * looked:
            self._traces.remove(trace)

    def _is_escaped(self, run: bytes) -> bool:
        """Whether ``_escape`` finds something; faster where backslashes are rare."""
        at = -1
        for _ in range(_FEW):
            at = run.find(b"\\", at + 1)
            if at < 0:
                return False
            if run.startswith(self._escapes, at + 1):
                return True
        return self._escape.search(run, at) is not None
