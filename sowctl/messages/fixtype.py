"""Message type ``fix``: tag=value fields whose tags are numbers (``sowctl-messages(7)``, fix).

Reading takes any tag, so that a message with a foreign field is no loss; writing makes numeric ones only. Nothing is
checked or computed of what FIX says about sessions: body length and checksum are fields like others.
"""

from __future__ import annotations

from sowctl.messages.tagvalue import TagValueType


class FixType(TagValueType):
    """FIX messages; SOH separates fields unless a definition says otherwise."""

    kind = "fix"

    def may_write(self, tag: bytes) -> bool:
        """Tags of digits."""
        return tag.isdigit() and super().may_write(tag)
