"""The interfaces of keys: the keys of a batch, key makers, and chains.

Three kinds of topics have keys, each with its own module: :mod:`~sowctl.engine.keys.modes` (key fields, or the
publisher's choice), :mod:`~sowctl.engine.keys.generators` (a registered generator) and
:mod:`~sowctl.engine.keys.chains` (the built-in generator). Specified in ``behaviour`` 1.1 and ``sow-store(5)``, SOW
key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sowctl.errors import ConfigError, UsageError
from sowctl.identity.keys import build_domain_prefix, compute_key_digest, digest_check, digest_key
from sowctl.messages.base import KeyTexts
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import OpenTopic
    from sowctl.messages.framing.envelope import Envelope

MISSING_KEY_CODE = "SOW-PUB-002"


class Keys(NamedTuple):
    """The keys of a batch, one per message; that of a refused message has no meaning.

    ``texts`` are the field texts of the keys, if any; ``user_keys`` the keys that publishers chose. A chaining
    generator leaves ``digests`` empty until the locks are held.
    """

    digests: Sequence[bytes]
    user_keys: list[bytes | None] | None = None
    texts: list[KeyTexts] | None = None


class ChainKeeper(Protocol):
    """The chains of one topic, which determine keys in the order of publishing.

    For each batch, with the topic's locks held: :meth:`catch_up`, :meth:`assign_digests`, and :meth:`learn_links` after
    the entries of the batch are written.
    """

    @property
    def path(self) -> Path | None:
        """The file of chains, None for a topic without one."""

    def catch_up(self, topic: OpenTopic) -> None:
        """Add the links of messages that others have published; ``topic`` is up to date."""

    def assign_digests(
        self, texts: Sequence[KeyTexts], places: Sequence[int], keep: Iterable[int]
    ) -> tuple[list[bytes], list[Refusal]]:
        """Return the digests of the messages ``keep``, whose indexes in the batch are ``places``, and the refusals."""

    def find_new_links(self, places: Iterable[int]) -> set[int]:
        """Return the ``places`` whose messages would be the first with their value in a chain."""

    def learn_links(self, places: Iterable[int], last_txid: int) -> None:
        """Add the links of the messages at these places of the batch, which are written, up to ``last_txid``."""

    def find_saved_txid(self, lineage: bytes) -> int:
        """Return the txid up to which the file on disk covers the journal of ``lineage``."""
        ...

    def save_links(self) -> None:
        """Write new links to the file."""


class KeyMaker(Protocol):
    """Makes the keys of one topic. ``chains`` is set if the keys depend on earlier messages of the topic."""

    @property
    def chains(self) -> ChainKeeper | None:
        """The known chains, None for keys that do not depend on them."""

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return the keys of ``payloads``; add messages without one to ``refused``."""


def derive_logical_keys(topic: TopicConfig, keys: Keys, names: Sequence[bytes]) -> list[bytes]:
    """Return the digests of messages with keys, in the domains of their logical topics.

    With a KeyDomain, the key is made in that domain; the check word is still the logical topic's, so that a message for
    a key of another logical topic is refused as a collision.
    """
    # One prefix for each logical topic of the batch: many messages share few names.
    prefixes = {name: build_domain_prefix(name.decode()) for name in set(names)}
    texts = keys.texts if keys.texts is not None else [(key,) for key in keys.user_keys or ()]
    own = [compute_key_digest(prefixes[name], row) for name, row in zip(names, texts, strict=True)]
    if not topic.shares_domain:
        return own
    return [digest_key(shared) + digest_check(digest) for shared, digest in zip(keys.digests, own, strict=True)]


def build_keyless_error(topic: TopicConfig, hint: str | None = None) -> UsageError:
    """Return the error for a key of a topic that only the transaction log names."""
    return UsageError(
        "SOW-PUB-024", f"topic {topic.name!r} has no SOW, so its messages have no keys", hint=hint, topic=topic.name
    )


def build_generator_error(topic: TopicConfig, why: str) -> ConfigError:
    """Return the error for a key generator that cannot be created from its options."""
    assert topic.key_generator is not None
    return ConfigError(
        "SOW-ENG-052",
        f"cannot use the key generator of topic {topic.name!r}: {why}",
        place=str(topic.key_generator.place),
    )
