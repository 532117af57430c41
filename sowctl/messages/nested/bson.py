"""Message type ``bson``: BSON documents (``sowctl-messages(7)``, bson). Needs the extra ``bson``.

The library ``bson`` (of pymongo) decodes the messages, see :mod:`sowctl.messages.nested.bsonlib`; this module can be
imported without it, so that a missing library is reported as such.
"""

from __future__ import annotations

from sowctl.messages.base import MAX_MESSAGE_BYTES, build_missing_extra_error
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.nested.paths import measure_depth
from sowctl.messages.nested.type import TreeType, build_depth_refusal
from sowctl.messages.nested.write import Tree
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.fields import Scalar

_DOCUMENT_KINDS = b"\x03\x04\x0f"
"""The kinds of elements that hold documents."""


class BsonType(TreeType):
    """BSON, one document per message; of duplicate members the first counts, as in JSON.

    Raises ConfigError ``SOW-MSG-011`` if the library is not installed.
    """

    kind = "bson"

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        super().__init__(max_message, definition=definition)
        try:
            from sowctl.messages.nested import bsonlib
        except ImportError:
            raise build_missing_extra_error(self.name, "pymongo", "bson") from None
        self._library = bsonlib

    def decode_tree(self, payload: bytes) -> object:
        """The document of one payload."""
        tree = self._library.decode_document(payload)
        # The cheap checks come first: a nested document has at least seven bytes (its kind, an empty name, its size,
        # its end), and its kind is one of a few bytes. Only payloads that may be too deep are measured.
        if len(payload) > 7 * MAX_DEPTH and _count_openers(payload) >= MAX_DEPTH and measure_depth(tree) > MAX_DEPTH:
            raise build_depth_refusal()
        return tree

    def encode_tree(self, tree: Tree) -> bytes:
        """A BSON document; integers have 32 bits if these suffice."""
        return self._library.encode_document(tree)

    def convert_scalar(self, item: object) -> Scalar:
        """Kinds that expressions do not support are Strings."""
        return self._library.convert_scalar(item)


def _count_openers(payload: bytes) -> int:
    return len(payload) - len(payload.translate(None, _DOCUMENT_KINDS))
