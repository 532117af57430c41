"""Message type ``nvfix``: name=value, names of any bytes but ``=`` and the separator (``sowctl-messages(7)``)."""

from __future__ import annotations

from sowctl.messages.tagged.tagvalue import TagValueType


class NvfixType(TagValueType):
    """NVFIX messages; SOH separates fields unless a definition says otherwise."""

    kind = "nvfix"
