"""key: the SOW keys that messages would get, without publishing them (``behaviour`` 1.1).

Messages are prepared as for a publish, preprocessing included. A chaining generator runs as in a dry run: with the
chains of the topic, and with the previous messages of the input. Nothing is locked and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.keys.keymaker import build_keyless_error
from sowctl.engine.writing.dryrun import DryRunWriter
from sowctl.engine.writing.prepare import PreparedMessages, Preparer
from sowctl.identity.keys import digest_check, digest_key
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.keys.keymaker import ChainKeeper
    from sowctl.engine.options import PublishOptions
    from sowctl.messages.framing.envelope import Envelope


class MessageKey(Struct, frozen=True):
    """The key of one message. ``sow_key`` is the number as clients see it, ``user_key`` the publisher's key, ``texts``
    the key texts from which the number was computed in ``key_domain`` (None: NULL), ``check_word`` the other half of
    the digest as 16 hex digits."""

    sow_key: str
    user_key: str | None
    key_domain: str | None
    texts: tuple[str | None, ...]
    check_word: str


class KeyFinder:
    """Computes the keys of messages of one topic. Raises what :class:`~sowctl.engine.writing.prepare.Preparer` raises,
    and UsageError ``SOW-PUB-024`` for a topic without a SOW."""

    def __init__(self, instance: Instance, topic: TopicConfig, options: PublishOptions) -> None:
        if topic.key_mode == "none":
            raise build_keyless_error(topic)
        self._preparer = Preparer(instance, topic, options)
        named = None if topic.shares_domain else topic.logical_name
        self._domain = named or (None if topic.key_mode == "user" else topic.key_domain)
        self._instance = instance
        self._topic = topic
        self._writer: DryRunWriter | None = None

    def find_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None = None
    ) -> tuple[list[MessageKey], list[Refusal]]:
        """Return the keys of the messages that have one, in order, and the refusals of the others."""
        ready, refused = self._preparer.prepare(payloads, envelopes)
        keep: Sequence[int] = range(len(ready.places))
        chains = self._preparer.keys.chains
        if chains is not None:
            gone = self._name_chains(chains, ready)
            without = {refusal.index for refusal in gone}
            keep = [index for index in keep if ready.places[index] not in without]
            refused = sorted(refused + gone, key=lambda refusal: refusal.index)
        return [self._build_key(ready, index) for index in keep], refused

    def _name_chains(self, chains: ChainKeeper, ready: PreparedMessages) -> list[Refusal]:
        if self._writer is None:
            self._writer = DryRunWriter(self._instance, self._topic)
            chains.catch_up(self._writer)
        assert ready.texts is not None
        ready.digests, gone = chains.assign_digests(ready.texts, ready.places, range(len(ready.places)))
        chains.learn_links(ready.places, self._writer.last_txid)
        return gone

    def _build_key(self, ready: PreparedMessages, index: int) -> MessageKey:
        digest = ready.digests[index]
        user = ready.user_keys[index] if ready.user_keys is not None else None
        texts = ready.texts[index] if ready.texts is not None else (user,)
        return MessageKey(
            str(int.from_bytes(digest_key(digest), "big")),
            user.decode() if user is not None else None,
            self._domain,
            tuple(text.decode("utf-8", "replace") if text is not None else None for text in texts),
            digest_check(digest).hex(),
        )
