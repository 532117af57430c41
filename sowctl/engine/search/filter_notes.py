"""Notes on filters that compile but whose meaning differs from SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_NULL_SIGNS = ("=NULL", "<NULL", ">NULL", "NULL=", "NULL<", "NULL>", "NULL!")
_OPERAND_STARTS = ("AND", "OR", "NOT")
_TIME_WORDS = ("NOW", "TODAY", "MIDNIGHT", "YESTERDAY", "TOMORROW")


def may_have_remarks(text: str) -> bool:
    """Return whether a filter may have remarks. For most filters this is false, and saves loading the modules."""
    if "%" in text or "__" in text or '"' in text:
        return True
    # Odd parts are inside single quotes, even parts outside.
    parts = text.upper().split("'")
    outside = "".join(" ".join(parts[::2]).split())
    if any(part in _TIME_WORDS or part.startswith("-") for part in parts[1::2]):
        return True
    if "-" in outside or any(sign in outside for sign in _NULL_SIGNS):
        return True
    before_strings = (part.rstrip(" (") for part in parts[:-1:2])
    return any(not part or part.endswith(_OPERAND_STARTS) for part in before_strings)


def note_filter(instance: Instance, text: str | None) -> None:
    """Emit remarks on a filter that probably does not do what was meant; once per text."""
    if not text or not may_have_remarks(text):
        return
    from sowctl.expressions.remarks import list_remarks

    for remark in list_remarks(text):
        instance.notify_once(f"filter {text} {remark.words}", str(remark))
