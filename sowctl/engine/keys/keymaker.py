"""The interfaces of keys: the keys of a batch, what makes them, and what is asked of chains.

Three kinds of topics make keys, each by a module of its own: :mod:`~sowctl.engine.keys.modes` (key fields, or the
publisher's choice), :mod:`~sowctl.engine.keys.generators` (a registered generator) and
:mod:`~sowctl.engine.keys.chains` (the generator that is built in). Ruled by ``behaviour`` 1.1 and ``sow-store(5)``, SOW
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
    """The keys of a batch, one per message; that of a refused message means nothing.

    ``texts`` are the field texts they were made of, where there are any; ``user_keys`` what publishers chose. A
    chaining generator leaves ``digests`` empty until the locks are held.
    """

    digests: Sequence[bytes]
    user_keys: list[bytes | None] | None = None
    texts: list[KeyTexts] | None = None


class ChainKeeper(Protocol):
    """The chains of one topic, which name keys in the order in which messages are published.

    For each batch, with the topic's locks held: :meth:`catch_up`, :meth:`assign_digests`, and :meth:`learn_links` once
    the entries of the batch are written.
    """

    @property
    def path(self) -> Path | None:
        """The file of chains, None for a topic that keeps none."""

    def catch_up(self, topic: OpenTopic) -> None:
        """Learn what others have published; ``topic`` is up to date."""

    def assign_digests(
        self, texts: Sequence[KeyTexts], places: Sequence[int], keep: Iterable[int]
    ) -> tuple[list[bytes], list[Refusal]]:
        """The digests of the messages ``keep``, whose places in the batch are ``places``, and which get none."""

    def find_new_links(self, places: Iterable[int]) -> set[int]:
        """Return the ``places`` whose messages would be the first of their value in a chain."""

    def learn_links(self, places: Iterable[int], last_txid: int) -> None:
        """The messages at these places of the batch are written, up to ``last_txid``."""

    def find_saved_txid(self, lineage: bytes) -> int:
        """The txid up to which what is kept on disk knows the journal of ``lineage``."""
        ...

    def save_links(self) -> None:
        """Put what is new into the file."""


class KeyMaker(Protocol):
    """Makes the keys of one topic. ``chains`` is set where the keys depend on what the topic has seen."""

    @property
    def chains(self) -> ChainKeeper | None:
        """The known chains, None for keys that do not depend on them."""

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """The keys of ``payloads``; messages without one are added to ``refused``."""


def derive_logical_keys(topic: TopicConfig, keys: Keys, names: Sequence[bytes]) -> list[bytes]:
    """The digests of messages whose keys are made, under the domains of their logical topics.

    Where a KeyDomain is set it makes the keys; the check word is the logical topic's all the same, so that a message
    for a key that another logical topic holds is refused as a collision.
    """
    # One prefix for each logical topic of the batch: many messages share few names.
    prefixes = {name: build_domain_prefix(name.decode()) for name in set(names)}
    texts = keys.texts if keys.texts is not None else [(key,) for key in keys.user_keys or ()]
    own = [compute_key_digest(prefixes[name], row) for name, row in zip(names, texts, strict=True)]
    if not topic.shares_domain:
        return own
    return [digest_key(shared) + digest_check(digest) for shared, digest in zip(keys.digests, own, strict=True)]


def build_keyless_error(topic: TopicConfig, hint: str | None = None) -> UsageError:
    """The error where a key is meant of a topic that only the transaction log names."""
    return UsageError(
        "SOW-PUB-024", f"topic {topic.name!r} has no SOW, so its messages have no keys", hint=hint, topic=topic.name
    )


def build_generator_error(topic: TopicConfig, why: str) -> ConfigError:
    """The error for a key generator that cannot be made of its options."""
    assert topic.key_generator is not None
    return ConfigError(
        "SOW-ENG-052",
        f"cannot use the key generator of topic {topic.name!r}: {why}",
        place=str(topic.key_generator.place),
    )
