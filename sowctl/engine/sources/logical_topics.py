"""Logical topics: the names under which the records of a Pattern topic are published (``behaviour`` 1.8).

They share one store and one definition. The name is part of the record, and of its key: equal key values in two logical
topics are two records. Called when publishing (names, keys) and reading (selection of records). Specified in
``sow-store(5)``, SOW key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.config.topic_patterns import compile_topic_search
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.topics.targets import MAX_LOGICAL_NAME_BYTES, make_unnamed_logical_error
from sowctl.identity.keys import build_domain_prefix, compute_key_digest, digest_key, encode_key_text
from sowctl.store.codec import read_logical_topic
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.config.model import Logical, TopicConfig
    from sowctl.messages.framing.envelope import Envelope
    from sowctl.store.meta import Definition

FOREIGN_LOGICAL_TOPIC = "SOW-PUB-022"


def resolve_logical_names(
    topic: TopicConfig, count: int, envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
) -> list[bytes]:
    """Return the logical topics of ``count`` messages: the topic's own name if it is one, else the name in each
    envelope.

    An envelope without a name that matches the Pattern is added to ``refused``. Raises UsageError ``SOW-ENG-032`` if
    neither the target nor envelopes name a logical topic.
    """
    if topic.logical_name is not None:
        # The command named one logical topic: all messages are for it, regardless of their envelopes.
        return [topic.logical_name.encode()] * count
    if envelopes is None:
        raise make_unnamed_logical_error(topic)
    assert topic.pattern is not None
    matches = compile_topic_search(topic.pattern)
    names: list[bytes] = []
    for index, envelope in enumerate(envelopes):
        name = (envelope.topic or "").encode()
        if envelope.topic is None:
            refused.setdefault(index, Refusal(index, FOREIGN_LOGICAL_TOPIC, "it names no logical topic"))
        elif not 0 < len(name) <= MAX_LOGICAL_NAME_BYTES or not matches(envelope.topic):
            text = f"{envelope.topic[:80]!r} is not a logical topic of {topic.name!r}"
            refused.setdefault(index, Refusal(index, FOREIGN_LOGICAL_TOPIC, text))
        # Also for rejected messages: the column has the length of the batch.
        names.append(name)
    return names


def resolve_key_domain(topic: TopicConfig) -> str:
    """Return the domain of a topic's keys. Raises UsageError ``SOW-ENG-032`` if that requires a logical topic, but none
    is named."""
    if topic.pattern is None or topic.shares_domain:
        return topic.key_domain
    if topic.logical_name is None:
        raise make_unnamed_logical_error(topic)
    return topic.logical_name


def compute_user_key(name: str, key: str) -> bytes:
    """Return the 8-byte key of a record that was published with the key ``key`` in a logical topic."""
    return digest_key(compute_key_digest(build_domain_prefix(name), (encode_key_text(key),)))


def build_logical_filter(logical: Logical) -> Callable[[Pairs], Pairs]:
    """Return the function that selects the records of some logical topics."""
    known: dict[bytes | None, bool] = {None: False}

    def takes(value: bytes) -> bool:
        name = read_logical_topic(value)
        # A store has few names and many records: each name is matched once.
        if name not in known:
            assert name is not None
            known[name] = logical.contains_topic(name.decode("utf-8", "replace"))
        return known[name]

    def choose(pairs: Pairs) -> Pairs:
        keys, values = pairs
        places = [place for place, value in enumerate(values) if takes(value)]
        return [keys[place] for place in places], [values[place] for place in places]

    return choose


class LogicalSource(Source):
    """Some logical topics of a source. It is only scanned: indexes do not have the logical topics of records."""

    def __init__(self, base: Source, topic: TopicConfig) -> None:
        assert topic.logical is not None
        self.topic = topic.label
        self.message_type = base.message_type
        self._base = base
        self._choose = build_logical_filter(topic.logical)

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self._base.definition

    @property
    def base_source(self) -> Source:
        """The source of the whole topic, which this one reads."""
        return self._base

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        for pairs in self._base.read_part(size, start, stop):
            found = self._choose(pairs)
            if found[0]:
                yield found

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        return self._choose(self._base.find_records(keys))

    def close(self) -> None:
        """Close the snapshot."""
        self._base.close()


def narrow_source(source: Source, topic: TopicConfig | None) -> Source:
    """Return the source of the topic's logical topics, or the whole source."""
    return source if topic is None or topic.logical is None else LogicalSource(source, topic)
