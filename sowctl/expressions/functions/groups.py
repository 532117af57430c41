"""The functions by group: one row each, one file per group."""

from __future__ import annotations

from sowctl.expressions.functions.arrays import ARRAYS
from sowctl.expressions.functions.checksums import CHECKSUMS
from sowctl.expressions.functions.dates import DATES
from sowctl.expressions.functions.message import MESSAGE
from sowctl.expressions.functions.numbers import NUMBERS
from sowctl.expressions.functions.signature import Function
from sowctl.expressions.functions.strings import STRINGS
from sowctl.expressions.functions.trigonometry import TRIGONOMETRY
from sowctl.expressions.functions.typed import TYPED

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
