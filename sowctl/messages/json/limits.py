"""Minimum sizes for reading JSON messages by templates.

The limits, each with its reason or measurement, are fields of :class:`JsonLimits`; tests set other ones.
"""

from __future__ import annotations

from msgspec import Struct


class JsonLimits(Struct):
    """The limits."""

    min_template_messages: int = 256
    """Below this number of messages, decoding them is faster. Three fields of orders of 220 bytes, CPU, decoded and by
    templates: 64: 0.08 and 0.21 ms; 256: 0.27 and 0.31; 1,024: 1.1 and 0.6; 16,384: 26 and 8."""
    min_array_messages: int = 64
    """Below this number of messages, decoding a batch takes less time than building arrays."""
    max_template_attempts: int = 3
    """Number of messages of a text from which to learn templates, if the known ones leave any unmatched."""


JSON_LIMITS = JsonLimits()
