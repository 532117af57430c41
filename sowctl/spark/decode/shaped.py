"""Batches of JSON messages by their shapes (:mod:`sowctl.spark.decode.shapes`), the rest of them by the decoder.

Used by :mod:`sowctl.spark.decode.decoding` alone, which gives the same structs with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.spark.decode import arrays
from sowctl.spark.decode.jsoncolumns import Misfit
from sowctl.spark.decode.shapes import Odd, Shape, Text

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Numbers = numpy.ndarray[Any, Any]

KEPT = 8
"""Shapes that are remembered."""
TRIED = 3
"""Messages of a batch of which a shape is made, if those that are known leave any."""
LONGEST_REST = 64
"""Most batches that go to the decoder as a whole after one in which shapes were of little use."""


class ShapedMessages:
    """Reads batches; knows the shapes that were of use. ``views`` decodes messages one by one, ``make`` makes the shape
    of one message or raises Odd."""

    def __init__(
        self, views: Callable[[Sequence[bytes | None]], pyarrow.Array], make: Callable[[bytes], Shape]
    ) -> None:
        self._views = views
        self._make = make
        self._known: list[Shape] = []
        self._pause = 0
        self._resting = 0

    def array(self, parts: Sequence[Any], lengths: Numbers) -> pyarrow.Array | None:
        """The structs of the messages that lie back to back in ``parts``; None where decoding them is as good."""
        if self._resting:
            self._resting -= 1
            return None
        try:
            text = Text(parts, lengths)
        except Odd:
            self._rest()
            return None
        made: list[pyarrow.Array] = []
        places: list[Numbers] = []
        left = self._match(text, made, places)
        if made and left is None:
            return made[0]
        if left is None or 2 * len(left) > len(lengths):
            self._rest()
            return None
        self._pause = 0
        return self._together(text, made, places, left)

    def _rest(self) -> None:
        self._pause = self._resting = min(LONGEST_REST, 2 * self._pause + 1)

    def _match(self, text: Text, made: list[pyarrow.Array], places: list[Numbers]) -> Numbers | None:
        """Add structs and their places; which messages are left, None where one shape had all, or none had any."""
        import numpy as np

        left: Numbers | None = None
        total = len(text.ends)
        tries = TRIED
        waiting = sorted(self._known, key=lambda one: -one.hits)
        while left is None or len(left):
            if not waiting:
                if not tries:
                    break
                tries -= 1
                fresh = self._learn(text, 0 if left is None else int(left[len(left) * tries // TRIED]))
                if fresh is None:
                    continue
                waiting.append(fresh)
            shape = waiting.pop(0)
            found = shape.match(text, left)
            if found is None:
                continue
            shape.hits += total if found[0] is None else len(found[0])
            made.append(found[1])
            if found[0] is None:
                return None
            places.append(found[0])
            taken = np.ones(total, bool)
            if left is not None:
                taken[:] = False
                taken[left] = True
            taken[found[0]] = False
            left = np.flatnonzero(taken)
        return left

    def _learn(self, text: Text, place: int) -> Shape | None:
        """The shape of one message, if it reads that message as the decoder does."""
        if text.plain is not None and not text.plain[place]:
            return None
        message = text.message(place)
        try:
            shape = self._make(message)
            alone = shape.match(Text([message], arrays.lengths([message])), None)
            if alone is None or alone[0] is not None or alone[1].to_pylist() != self._views([message]).to_pylist():
                return None
        except (Odd, Misfit):
            return None
        self._known = [*sorted(self._known, key=lambda one: -one.hits)[: KEPT - 1], shape]
        return shape

    def _together(self, text: Text, made: list[pyarrow.Array], places: list[Numbers], left: Numbers) -> pyarrow.Array:
        import numpy as np
        import pyarrow as pa

        if len(left):
            try:
                made.append(self._views([text.message(place) for place in left.tolist()]))
            except Misfit as problem:
                problem.row = int(left[problem.row])
                raise
            places.append(left)
        order = np.empty(len(text.ends), "i8")
        order[np.concatenate(places)] = np.arange(len(text.ends))
        return pa.concat_arrays(made).take(pa.array(order))
