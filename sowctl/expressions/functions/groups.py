"""The functions by group: a new function is a row of the tuple that its group names here."""

from __future__ import annotations

from sowctl.expressions.functions.dates import DATES
from sowctl.expressions.functions.message import MESSAGE
from sowctl.expressions.functions.numbers import NUMBERS, TRIGONOMETRY
from sowctl.expressions.functions.signature import Function
from sowctl.expressions.functions.strings import STRINGS
from sowctl.expressions.functions.values import ARRAYS, CHECKSUMS, TYPED

GROUPS: dict[str, tuple[Function, ...]] = {
    "string": STRINGS,
    "array": ARRAYS,
    "numeric": NUMBERS,
    "trigonometry": TRIGONOMETRY,
    "date": DATES,
    "checksum": CHECKSUMS,
    "typed": TYPED,
    "message": MESSAGE,
}
