"""Notes on filters that compile, but mean something else than in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance


def note_filter(instance: Instance, text: str | None) -> None:
    """Remark what a filter does where something else is probably meant; once for each text."""
    if not text or not text.strip():
        return
    from sowctl.expressions.remarks import list_remarks

    for remark in list_remarks(text):
        instance.notify_once(f"filter {text} {remark.words}", str(remark))
