"""The options of the data sources: texts that Spark hands over, checked and typed (sowctl-spark(7), OPTIONS).

Spark's option names ignore case and its values are texts. An unknown name is refused: a filter that is misspelt must
not read everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from sowctl.errors import UsageError
from sowctl.values.times import Clock, Micros, fixed_clock, parse_time, system_clock
from sowctl.values.units import parse_seconds, parse_size

TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")
PLACE = ("path", "config", "root", "topic", "messageType", "instance", "now")
PAYLOAD = ("payload", "payloadSchema", "samples", "columns")
SPARK_OWN = ("checkpointLocation", "queryName", "outputMode")


class Options:
    """The options of one read or write; every question names its option in the error that it may raise."""

    def __init__(self, source: str, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._source = source
        self._given = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in (*known, *SPARK_OWN)}
        for name in given:
            if name.lower() not in names:
                near = get_close_matches(name.lower(), names, n=1)
                raise UsageError(
                    "SOW-SPK-010",
                    f"the data source {source} has no option {name!r}",
                    hint=f"did you mean {names[near[0]]}?" if near else "its options: " + ", ".join(sorted(known)),
                )

    def text(self, name: str) -> str | None:
        """The text of an option; None where it is absent or empty."""
        return self._given.get(name.lower()) or None

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value. Raises UsageError ``SOW-SPK-011``, as the others here do."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in TRUE + FALSE:
            raise self._bad(name, text, "true or false")
        return text.lower() in TRUE

    def number(self, name: str, default: int | None = None, least: int = 0) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return default
        if not text.strip().isdecimal() or int(text) < least:
            raise self._bad(name, text, f"a whole number from {least} on")
        return int(text)

    def size(self, name: str) -> int | None:
        """A size in bytes, such as ``64MB``."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = parse_size(text)
        except ValueError:
            found = 0
        if found <= 0:
            raise self._bad(name, text, "a size such as 64MB")
        return found

    def seconds(self, name: str) -> float | None:
        """An interval such as ``5m``, in seconds."""
        text = self.text(name)
        try:
            return None if text is None else parse_seconds(text)
        except ValueError:
            raise self._bad(name, text or "", "an interval such as 5m") from None

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words."""
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise self._bad(name, text, "one of " + ", ".join(choices))
        return text

    def words(self, name: str) -> tuple[str, ...] | None:
        """Words separated by commas; None where there are none."""
        text = self.text(name)
        return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())

    def instant(self, name: str) -> Micros | None:
        """An instant, relative ones counted from :meth:`clock`."""
        text = self.text(name)
        if text is not None and text.strip().isdecimal():
            raise self._bad(name, text, "an instant: a bare number could be anything")
        return None if text is None else parse_time(text, self.clock())

    def clock(self) -> Clock:
        """The option ``now`` as a clock that stands still, else the system's."""
        text = self.text("now")
        return system_clock if text is None else fixed_clock(parse_time(text, system_clock))

    def _bad(self, name: str, text: str, wanted: str) -> UsageError:
        return UsageError("SOW-SPK-011", f"option {name} of the data source {self._source} is {text!r}, not {wanted}")
