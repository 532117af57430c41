"""Message type ``fix``: tag=value fields whose tags are numbers (``sowctl-messages(7)``, fix).

Reading takes any tag, so that a message with a foreign field is no loss; writing makes numeric ones only. Nothing is
checked or computed of what FIX says about sessions: body length and checksum are fields like others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sowctl.messages.base import MAX_MESSAGE_BYTES
from sowctl.messages.tagged.tagvalue import TagValueType

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition


class FixType(TagValueType):
    """FIX messages; SOH separates fields unless a definition says otherwise."""

    kind = "fix"

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        super().__init__(max_message, definition=definition)
        self._named = definition is not None and definition.tag_names

    def find_tag_names(self) -> Mapping[bytes, str]:
        """Those of the standard's common tags, for a definition that asks for them."""
        if not self._named:
            return {}
        from sowctl.messages.tagged.fixtags import TAG_NAMES

        return TAG_NAMES

    def can_write_tag(self, tag: bytes) -> bool:
        """Tags of digits."""
        return tag.isdigit() and super().can_write_tag(tag)
