"""From messages to SOW keys, by the key mode of their topic: key fields, the publisher's choice, or a key generator.

:func:`build_key_maker` chooses the mode; publishing, bulk writes, ``key`` and ``replay --rekey`` all use it, for whole
batches and before any lock is taken. Only a chaining generator depends on earlier messages of the topic: it extracts
the texts of its fields and assigns keys under the locks (:mod:`sowctl.engine.keys.chains`). Specified in ``behaviour``
1.1 and ``sow-store(5)``, SOW key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.keys.keymaker import MISSING_KEY_CODE, KeyMaker, Keys, build_keyless_error
from sowctl.errors import ConfigError, UsageError
from sowctl.identity.keys import build_batch_digester, compute_user_key_digest, encode_key_text, is_user_key
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import PublishOptions
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope


class FieldKeys:
    """Keys from the ``Key`` fields. ``null``: a missing field counts as a value of its own."""

    chains = None

    def __init__(self, topic: TopicConfig, kind: MessageType, *, null: bool) -> None:
        self._paths = topic.keys
        self._null = null
        self._texts = kind.build_key_extractor(topic.keys)
        self._digest = build_batch_digester(topic.key_domain, len(topic.keys))

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return keys of the texts of the Key fields; without one of them, refuse with SOW-PUB-002."""
        texts, refusals = self._texts(payloads)
        refused.update((refusal.index, refusal) for refusal in refusals if refusal.index not in refused)
        try:
            # Without a missing field, the whole batch is hashed in one call; the message with a missing field is
            # searched for only if that fails.
            return Keys(self._digest(texts), None, texts)
        except TypeError:
            pass
        for index, parts in enumerate(texts):
            if None in parts and not self._null and index not in refused:
                missing = [str(path) for path, text in zip(self._paths, parts, strict=True) if text is None]
                words = f"key field {missing[0]} is" if len(missing) == 1 else f"key fields {', '.join(missing)} are"
                refused[index] = Refusal(index, MISSING_KEY_CODE, f"{words} missing or empty")
        return Keys(self._digest(texts, null=True), None, texts)


class UserKeys:
    """Keys that publishers choose, with each message or, by ``default``, for all of them."""

    chains = None

    def __init__(self, default: str | None) -> None:
        self._default = default

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return keys of the texts that publishers chose; without one, or outside the Base64 alphabet, refuse with
        SOW-PUB-003.
        """
        default = self._default
        given = [e.sow_key if e.sow_key is not None else default for e in envelopes] if envelopes else None
        # One key for all messages is encoded once.
        encoded = [encode_key_text(key or "") for key in given or (default,)]
        keys = encoded if given else encoded * len(payloads)
        for index, key in enumerate(keys):
            if not is_user_key(key):
                shown = key.decode("utf-8", "backslashreplace")
                text = (
                    f"SOW key {shown!r} is not Base64 text"
                    if key
                    else "the topic requires a SOW key with every message"
                )
                refused.setdefault(index, Refusal(index, "SOW-PUB-003", text))
        return Keys([compute_user_key_digest(key) for key in keys], list(keys))


class NoKeys:
    """The keys of messages of a topic that only the transaction log names: none, represented by zeros."""

    chains = None

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return zeros for every message: the topic has no records, and so no keys."""
        return Keys([bytes(16)] * len(payloads))


def build_key_maker(instance: Instance, topic: TopicConfig, kind: MessageType, options: PublishOptions) -> KeyMaker:
    """Return the key maker of a topic.

    Raises UsageError ``SOW-PUB-011`` for a given SOW key if the topic makes its own, ConfigError ``SOW-PUB-010`` for a
    missing key generator, ``SOW-PUB-023`` for one that requires a single topic, ``SOW-PUB-025`` for key fields of a
    message type without fields.
    """
    if topic.key_mode == "none":
        if options.sow_key is not None:
            raise build_keyless_error(topic, hint="remove --sow-key")
        return NoKeys()
    if topic.key_mode == "user":
        return UserKeys(options.sow_key)
    if topic.key_mode == "fields" and not kind.filterable:
        raise ConfigError(
            "SOW-PUB-025",
            f"topic {topic.name!r} has key fields, but messages of type {kind.name} have no fields",
            place=str(topic.place),
            hint="remove its Key: publishers then choose the keys, see --sow-key",
        )
    if options.sow_key is not None:
        origin = ", ".join(map(str, topic.keys)) or "its key generator"
        raise UsageError(
            "SOW-PUB-011",
            f"topic {topic.name!r} creates its keys from {origin}",
            hint="remove --sow-key: it is for topics without Key elements",
        )
    if topic.key_mode == "fields":
        return FieldKeys(topic, kind, null=options.allow_null_key)
    from sowctl.engine.keys.generators import build_generated_keys

    maker = build_generated_keys(instance, topic, kind)
    if maker.chains is not None and topic.pattern is not None:
        raise ConfigError(
            "SOW-PUB-023",
            f"topic {topic.name!r} has a Pattern, but a chaining generator requires a single topic",
            place=str(topic.place),
            hint="define the topics that require chains by name, before the Pattern topic",
        )
    return maker
