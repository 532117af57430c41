"""Message type ``bson``: BSON documents (``sowctl-messages(7)``, bson). Needs the extra ``bson``.

The reading is that of the library ``bson`` (of pymongo), see :mod:`sowctl.messages.nested.bsonlib`; here stands only
what is needed to ask for the type, so that its absence can be told in words.
"""

from __future__ import annotations

from sowctl.messages.base import MAX_DEPTH, MAX_MESSAGE_BYTES, missing_extra
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.nested.paths import depth_of
from sowctl.messages.nested.type import TreeType, too_deep
from sowctl.messages.nested.write import Tree
from sowctl.values.fields import Scalar

_DOCUMENT_KINDS = b"\x03\x04\x0f"
"""The kinds of elements that hold documents."""


class BsonType(TreeType):
    """BSON, one document a message; of members given twice the first counts, as in JSON.

    Raises ConfigError ``SOW-MSG-011`` where the library is not installed.
    """

    kind = "bson"

    def __init__(self, max_message: int = MAX_MESSAGE_BYTES, *, definition: TypeDefinition | None = None) -> None:
        super().__init__(max_message, definition=definition)
        try:
            from sowctl.messages.nested import bsonlib
        except ImportError:
            raise missing_extra(self.name, "pymongo", "bson") from None
        self._library = bsonlib

    def decode(self, payload: bytes) -> object:
        """The document of one payload."""
        tree = self._library.decode(payload)
        # The cheap tests come first: a document inside another takes seven bytes at least (its kind, an empty name, its
        # size, its end), and its kind is one of a few bytes. Only what passes both is measured.
        if len(payload) > 7 * MAX_DEPTH and _count_openers(payload) >= MAX_DEPTH and depth_of(tree) > MAX_DEPTH:
            raise too_deep()
        return tree

    def encode(self, tree: Tree) -> bytes:
        """A BSON document; integers take 32 bits where these suffice."""
        return self._library.encode(tree)

    def scalar(self, item: object) -> Scalar:
        """Kinds that expressions do not know are Strings."""
        return self._library.scalar(item)


def _count_openers(payload: bytes) -> int:
    return len(payload) - len(payload.translate(None, _DOCUMENT_KINDS))
