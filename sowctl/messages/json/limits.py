"""Sizes from which on JSON messages are read by templates.

The figures, each with its reason or what was measured, are fields of :class:`JsonLimits`; tests set other ones.
"""

from __future__ import annotations

from msgspec import Struct


class JsonLimits(Struct):
    """The figures."""

    min_template_messages: int = 256
    """Messages below which decoding them takes less time. Three fields of orders of 220 bytes, CPU, decoded and by
    templates: 64: 0.08 and 0.21 ms; 256: 0.27 and 0.31; 1,024: 1.1 and 0.6; 16,384: 26 and 8."""
    min_array_messages: int = 64
    """Messages below which a batch is decoded in less time than arrays are made."""
    max_template_attempts: int = 3
    """Messages of a text of which a template is made, if those that are known leave any."""


JSON_LIMITS = JsonLimits()
