"""The element table of TransactionLog (``sow-config(5)``, TransactionLog)."""

from __future__ import annotations

from sowctl.config.elements.element import Element

TRANSACTION_LOG = Element(
    "TransactionLog",
    "0..1",
    "section",
    children=(
        Element("JournalDirectory", "1", "path", missing="S064"),
        Element("JournalArchiveDirectory", "0..1", "path"),
        Element("PreallocatedJournalFiles", "0..1", "count", default="2", low="1", bounds="S046"),
        Element(
            "JournalSize",
            "0..1",
            "bytes",
            default="1GB",
            low="10MB",
            bounds="S044",
            synonyms=(("MinJournalSize", "D009"),),
        ),
        Element(
            "Topic",
            "0..n",
            "section",
            children=(
                Element("Name", "1", "regex", missing="S065"),
                Element("MessageType", "1", "string", missing="S065"),
            ),
        ),
        Element("FlushInterval", "0..1", "interval", default="100ms", low="1us", high="1000ms", bounds="S043"),
        Element("O_DIRECT", "0..1", "switch", default="enabled", rule="S072"),
        Element("InactiveClientAckExpiration", "0..1", "interval"),
        Element("CompressedJournalCacheMemoryLimit", "0..1", "bytes"),
    ),
)
