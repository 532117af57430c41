"""The keys that stored records would get under the current definition of their topic, compared with their actual keys.

Journals and stores have the keys that were made when a message was published. If the Key fields, the KeyDomain or the
key mode was changed since, a store built from them would get two records for one key: one under the old key, and one
under the new key as soon as a message is published. A rebuild for writers checks some records of every block, ``check``
all, ``replay --rekey`` computes them again. Specified in ``sow-store(5)``, SOW key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from sowctl.engine.keys.keymaker import KeyMaker, Keys, derive_logical_keys
from sowctl.engine.keys.limits import KEY_LIMITS
from sowctl.engine.keys.modes import build_key_maker
from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.positions import make_other_keys_error
from sowctl.identity.keys import compute_user_key_digest
from sowctl.store.codec import USER_KEY_FLAG, decode_record, extract_payloads, read_check, read_logical_topic

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.values.fields import Refusal

SAMPLE_RECORDS = 16
"""Records of a block that a rebuild compares. One run wrote the whole block, so all its keys have one definition;
several are checked because a message may have the same key under both (1.6 % of the time of the rebuild at most)."""


class PresentKeys:
    """Computes the keys of stored records of one topic; ``known``: whether they can be computed from the records alone.

    They cannot if a generator makes them, or if Enrichment writes a key field after the key was made.
    """

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        self.topic = topic
        self._instance = instance
        self._kind = instance.find_message_type(topic.message_type)
        # The key was made from the message before Enrichment, but the message after it is stored.
        by_fields = topic.key_mode == "fields" and self._kind.filterable and not _is_key_enriched(topic)
        self.known = topic.key_mode == "user" or by_fields

    @cached_property
    def maker(self) -> KeyMaker:
        """The key maker of the topic; raises what :func:`~sowctl.engine.keys.modes.build_key_maker` raises."""
        # A record may have been published with a NULL key on purpose: it must not count as one with a wrong key.
        return build_key_maker(self._instance, self.topic, self._kind, PublishOptions(allow_null_key=True))

    @cached_property
    def _strict_key_maker(self) -> KeyMaker:
        return build_key_maker(self._instance, self.topic, self._kind, PublishOptions())

    def compute_digests(
        self, keys: Sequence[bytes], values: Sequence[bytes], *, null: bool = True
    ) -> list[bytes | None]:
        """Return the digests of stored values, None without a key: the message is invalid, or has no user key.

        A missing field counts as NULL, or without ``null`` as no key.
        """
        without: set[int] = set()
        if self.topic.key_mode == "user":
            texts = [decode_record(key, value).user_key for key, value in zip(keys, values, strict=True)]
            without = {place for place, text in enumerate(texts) if text is None}
            made = Keys([compute_user_key_digest(text or b"") for text in texts], [text or b"" for text in texts])
        else:
            refused: dict[int, Refusal] = {}
            made = (self.maker if null else self._strict_key_maker).make_keys(extract_payloads(values), None, refused)
            without = set(refused)
        digests = made.digests
        if self.topic.pattern is not None:
            digests = derive_logical_keys(self.topic, made, [read_logical_topic(value) or b"" for value in values])
        return [None if place in without else digest for place, digest in enumerate(digests)]

    def find_misplaced(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
        """Return the indexes of records whose stored key differs from the computed one; none if it cannot be computed.

        Includes records without a key in a topic with publishers' keys.
        """
        # Without keys that follow from the records, there is nothing to compare.
        if not self.known or not keys:
            return []
        absent = self.topic.key_mode == "user"
        return [
            place
            for place, (key, value, digest) in enumerate(
                zip(keys, values, self.compute_digests(keys, values), strict=True)
            )
            if (absent and not value[0] & USER_KEY_FLAG if digest is None else digest != key + read_check(value))
        ]


class KeyCheck:
    """Checks records of a new store. Raises RefusedError ``SOW-RPL-010`` at the first with another key."""

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        self._present = PresentKeys(instance, topic)
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def sample_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Check some of the records of one place, evenly spread over them."""
        step = -(-len(keys) // SAMPLE_RECORDS) or 1
        # Spread over the block, so that not only messages at its start are checked.
        self._keys += keys[::step]
        self._values += values[::step]
        # Collected over several blocks: keys are computed in batches as large as those of publishing.
        if len(self._keys) >= KEY_LIMITS.check_batch_records:
            self.finish()

    def watch_parts(
        self, parts: Iterable[tuple[list[bytes], list[bytes]]]
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield ``parts`` unchanged, checking them."""
        for keys, values in parts:
            self.sample_records(keys, values)
            yield keys, values

    def finish(self) -> None:
        """Compare the collected keys."""
        keys, values = self._keys, self._values
        self._keys, self._values = [], []
        for place in self._present.find_misplaced(keys, values):
            # One is enough: the rebuild ends before the new store is installed.
            raise make_other_keys_error(self._present.topic, int.from_bytes(keys[place], "big"))


def _is_key_enriched(topic: TopicConfig) -> bool:
    """Return whether Enrichment writes a key field, or an object that contains one."""
    if not topic.enrichment:
        return False
    from sowctl.config.expression_texts import parse_definition

    keys = [str(key) for key in topic.keys]
    for section in topic.node.find_all("Enrichment"):
        for field in section.find_all("Field"):
            found = parse_definition(field, projection=False)
            written = str(found.destination) if found is not None else ""
            if written and any(key == written or key.startswith(written + "/") for key in keys):
                return True
    return False
