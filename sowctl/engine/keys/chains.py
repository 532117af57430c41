"""The chaining key generator: messages that refer to one another are one record (``behaviour`` 1.1, C141).

A message belongs to the chain that has its primary value or one of its secondary values, and adds its primary value to
it. If no chain has any, the message is the head of a new chain, whose SOW key is computed from the head's primary
value. A message that belongs to two chains gets no key. The order of messages matters, so keys are made under the locks
of a batch.

Chains are derived data: in the transaction log, every entry of a topic has a message and its key, so a file of chains
(:mod:`~sowctl.engine.keys.chainfile`) only avoids reading the journal again. For a topic without a journal, the file is
written before the store's transaction; links after the store's position were never published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.fold.blocks import read_entry_values
from sowctl.engine.keys.chainfile import ChainBlock, append_block, read_blocks
from sowctl.engine.keys.keymaker import MISSING_KEY_CODE, ChainKeeper, Keys, build_generator_error
from sowctl.engine.topics.positions import open_log
from sowctl.errors import DamageError, MissingError, SowError
from sowctl.identity.keys import build_domain_prefix, compute_key_digest
from sowctl.messages.base import KeyTexts
from sowctl.store.codec import TOMBSTONE_FLAG, extract_payloads, read_check
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.fields import Refusal
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance, OpenTopic
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope

TWO_CHAINS_CODE = "SOW-PUB-017"
NO_LINEAGE = bytes(16)
NO_DIGEST = bytes(16)
"""The digest of a message that gets none."""


class ChainOptions(Struct, frozen=True):
    """``primary`` and secondary fields as paths, the file (None: next to the store), whether to verify it."""

    primary: FieldPath
    secondary: tuple[FieldPath, ...]
    file_name: str | None
    validation: bool


class ChainKeys:
    """Extracts the texts of primary and secondary fields; keys are assigned under the locks."""

    def __init__(self, instance: Instance, topic: TopicConfig, kind: MessageType, options: ChainOptions) -> None:
        self._texts = kind.build_key_extractor((options.primary, *options.secondary))
        self.chains: ChainKeeper | None = Chains(instance, topic, kind, options)

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return the texts of primary and secondary fields, with empty digests: keys are assigned under the locks."""
        texts, refusals = self._texts(payloads)
        refused.update((refusal.index, refusal) for refusal in refusals if refusal.index not in refused)
        return Keys([b""] * len(payloads), None, texts)


class Chains:
    """The known chains of one topic. ``links`` maps a value to the digest of its chain."""

    def __init__(self, instance: Instance, topic: TopicConfig, kind: MessageType, options: ChainOptions) -> None:
        self.links: dict[bytes, bytes] = {}
        self._instance = instance
        self._topic = topic
        self._options = options
        self._prefix = build_domain_prefix(topic.key_domain)
        # Only the primary value of a published message is added: a secondary value refers to a chain without joining
        # it.
        self._texts = kind.build_key_extractor((options.primary,))
        self._identity = (topic.name, topic.message_type, str(options.primary), *map(str, options.secondary))
        self.path = find_chain_file(instance, topic, options)
        self._position = 0
        self._lineage = NO_LINEAGE
        self._end = -1
        self._loaded = False
        self._pending: dict[int, tuple[bytes, bytes]] = {}
        self._fresh: dict[bytes, bytes] = {}
        self._moved = False

    def catch_up(self, topic: OpenTopic) -> None:
        """Add the links of messages that others have published. The locks are held, and ``topic`` is up to date.

        Raises MissingError ``SOW-ENG-053`` for records without a journal and without a file, DamageError
        ``SOW-ENG-054``, with Validation, if file and records disagree.
        """
        if self._topic.journalled:
            first, self._loaded = not self._loaded, True
            if first:
                self._load_file_blocks(None)
            # The first time, the journal is read in any case: only it shows whether the file follows its lineage.
            if first or self._position < topic.last_txid:
                self._learn_from_journal(topic)
        # Without a journal, only the file has the links of other processes; its size changes with each of their blocks.
        elif not self._loaded or self._has_file_changed():
            first, self._loaded = not self._loaded, True
            self._load_file_blocks(topic.last_txid)
            # Without a journal, only the file has the secondary values: rebuilt from the records, chains would silently
            # fall apart. An empty file says that the user accepts this.
            if self._end < 0 and topic.last_txid:
                raise self._describe_missing_file()
            if self._end == 0 and topic.last_txid:
                self._learn_from_records(topic)
        else:
            return
        if first and self._options.validation:
            self._validate_chains(topic)

    def assign_digests(
        self, texts: Sequence[KeyTexts], places: Sequence[int], keep: Iterable[int]
    ) -> tuple[list[bytes], list[Refusal]]:
        """Return the digests of the messages ``keep`` in order (:data:`NO_DIGEST` for the others), and the refusals."""
        # The new links of this batch; :meth:`learn_links` adds them to the chains when the batch is written.
        self._pending = {}
        known, fresh = self.links, dict[bytes, bytes]()
        digests, refused = [NO_DIGEST] * len(texts), []
        for index in keep:
            primary = texts[index][0]
            found: dict[bytes, bytes] = {}
            for value in texts[index]:
                if value is not None:
                    # ``fresh`` has the links of this batch so far: messages of one batch see one another in input
                    # order.
                    digest = fresh.get(value) or known.get(value)
                    if digest is not None:
                        # By digest: two values of one chain are one chain. With more than one digest, the message would
                        # join two records, and records are never joined afterwards.
                        found.setdefault(digest, value)
            if len(found) > 1:
                values = " and ".join(value.decode("utf-8", "replace") for value in found.values())
                refused.append(Refusal(places[index], TWO_CHAINS_CODE, f"it belongs to two chains: {values}"))
                continue
            # A head requires a primary value, from which the key is made.
            if not found and primary is None:
                text = f"key field {self._options.primary} is missing or empty, and no chain has its other keys"
                refused.append(Refusal(places[index], MISSING_KEY_CODE, text))
                continue
            # The key of a new chain is made from its head's primary value.
            digests[index] = next(iter(found)) if found else compute_key_digest(self._prefix, (primary,))
            if primary is not None and primary not in known and primary not in fresh:
                fresh[primary] = digests[index]
                # Not added to the chains yet: a message that is rejected later must not leave its value in a chain.
                self._pending[places[index]] = primary, digests[index]
        return digests, refused

    def find_new_links(self, places: Iterable[int]) -> set[int]:
        """Return the ``places`` whose messages would be the first with their value in a chain."""
        return {place for place in places if place in self._pending}

    def learn_links(self, places: Iterable[int], last_txid: int) -> None:
        """Add the links of the messages at these places of the batch, which are written, up to ``last_txid``."""
        for place in places:
            if place in self._pending:
                self._add_link(*self._pending[place])
        self._position, self._moved = last_txid, True

    def find_saved_txid(self, lineage: bytes) -> int:
        """Return the txid up to which the file has the chains of the journal of ``lineage``."""
        self._load_file_blocks(None)
        return self._position if self._lineage == lineage else 0

    def save_links(self) -> None:
        """Write new links to the file. Raises StorageError ``SOW-ENG-055``."""
        if self.path is None or not (self._fresh or self._moved):
            return
        # The block has the txid up to which it covers the topic, so that the next reader continues in the journal from
        # there.
        block = ChainBlock(self._identity, self._lineage, self._position, list(self._fresh.items()))
        keep, shared = max(self._end, 0), self._topic.journalled
        self._end = append_block(self.path, block, keep, self._instance.seam, whole=self.links.items(), shared=shared)
        self._fresh, self._moved = {}, False

    def _add_link(self, value: bytes, digest: bytes) -> None:
        # The first chain of a value remains its chain: an equal value read again from the journal changes nothing.
        if value not in self.links:
            self.links[value] = self._fresh[value] = digest

    def _load_file_blocks(self, until: int | None) -> None:
        """Load the file's blocks of these chains, up to the txid ``until``."""
        self._end, self._position, self.links, self._fresh = -1, 0, {}, {}
        blocks = read_blocks(self.path, self._instance.seam) if self.path is not None else None
        if blocks is None:
            return
        self._end = 0
        for block in blocks:
            # Another topic, or other fields: a file may have blocks of several, and each skips those of the others.
            if block.identity != self._identity:
                self._end = block.end
                continue
            # Written before the store's transaction, which then failed: its messages were never published, and the next
            # write truncates the file here.
            if until is not None and block.applied > until:
                break
            # Chains of another journal do not apply to this one.
            if block.lineage != self._lineage:
                self.links, self._position, self._lineage = {}, 0, block.lineage
            self.links.update(block.links)
            self._position, self._end = max(self._position, block.applied), block.end

    def _has_file_changed(self) -> bool:
        """Return whether another process has written the file."""
        try:
            return self.path is not None and self.path.stat().st_size != max(self._end, 0)
        except OSError:
            return True

    def _learn_from_journal(self, topic: OpenTopic) -> None:
        ref = self._topic.ref
        try:
            log = open_log(self._instance)
        except MissingError:
            return
        with log:
            if self._lineage != log.lineage:
                self.links, self._fresh, self._position, self._lineage = {}, {}, 0, log.lineage
            # If a file were pruned between this check and the read, a chain would be lost, and its next message get a
            # new key.
            log.require_files_after(self._position)
            # The journals do not reach back to the topic's first entry; the records provide at least the primary
            # values.
            if self._position == 0 and not log.covers_topic(ref):
                self._learn_from_records(topic)
            for block in log.iter_blocks(after=self._position, topic=ref):
                keys, values = read_entry_values(block, ref, after=self._position)
                self._learn_from_values(keys, values)
                self._position, self._moved = block.last_txid, True
        self._position = max(self._position, topic.last_txid)

    def _learn_from_records(self, topic: OpenTopic) -> None:
        for keys, values in topic.scan(STORE_LIMITS.read_batch_records, self._instance.now):
            self._learn_from_values(keys, values)

    def _learn_from_values(self, keys: list[bytes], values: list[bytes]) -> None:
        """Add the links of published messages and their keys."""
        # A deletion ends a record but not its chain: a later message of the chain gets the same key again.
        live = [place for place, value in enumerate(values) if not value[0] & TOMBSTONE_FLAG]
        texts, _ = self._texts(extract_payloads(values[place] for place in live))
        for place, (primary,) in zip(live, texts, strict=True):
            if primary is not None:
                self._add_link(primary, keys[place] + read_check(values[place]))

    def _describe_missing_file(self) -> MissingError:
        return MissingError(
            "SOW-ENG-053",
            f"topic {self._topic.name!r} has records and no journal, and its file of chains is missing",
            place=str(self.path),
            hint="restore the file; to start again from the records alone, create an empty file in its place",
        )

    def _validate_chains(self, topic: OpenTopic) -> None:
        """Compare every record's primary value with its chain."""
        for keys, values in topic.scan(STORE_LIMITS.read_batch_records, self._instance.now):
            texts, _ = self._texts(extract_payloads(values))
            for key, value, (primary,) in zip(keys, values, texts, strict=True):
                if primary is not None and self.links.get(primary, b"") != key + read_check(value):
                    raise DamageError(
                        "SOW-ENG-054",
                        f"record {int.from_bytes(key, 'big')} of topic {self._topic.name!r} is not in the file "
                        f"of chains as the chain of {primary.decode('utf-8', 'replace')}",
                        place=str(self.path),
                        hint="move the file away; it is rebuilt from the journals"
                        if self._topic.journalled
                        else "to start again from the records alone, replace the file with an empty one",
                    )


def parse_chain_options(topic: TopicConfig, options: Sequence[tuple[str, str]]) -> ChainOptions:
    """Parse the options of the generator: Primary (or the first Key), Secondary (or further Keys), FileName,
    Validation.

    Raises ConfigError ``SOW-ENG-052``.
    """
    primary = [text for tag, text in options if tag == "Primary"]
    secondary = [text for tag, text in options if tag == "Secondary"]
    keys = [text for tag, text in options if tag == "Key"]
    if not primary and keys:
        primary, keys = keys[:1], keys[1:]
    secondary = secondary + keys
    unknown = [tag for tag, _ in options if tag not in ("Primary", "Secondary", "Key", "FileName", "Validation")]
    if unknown:
        raise build_generator_error(
            topic, f"unknown option {unknown[0]}; the options are Primary Secondary Key FileName Validation"
        )
    if len(primary) != 1 or not secondary:
        raise build_generator_error(
            topic, "one Primary (or first Key) and at least one Secondary (or further Key) are required"
        )
    values = {tag: text for tag, text in options if tag in ("FileName", "Validation")}
    validation = values.get("Validation", "false").lower()
    if validation not in ("true", "false", "enabled", "disabled"):
        raise build_generator_error(topic, f"Validation must be true or false, not {validation!r}")
    try:
        paths = [parse_path(text) for text in primary + secondary]
    except SowError as error:
        raise build_generator_error(topic, error.message) from error
    return ChainOptions(paths[0], tuple(paths[1:]), values.get("FileName"), validation in ("true", "enabled"))


def find_chain_file(instance: Instance, topic: TopicConfig, options: ChainOptions) -> Path | None:
    """Return the path of a topic's chain file: the option FileName, expanded like a topic's, else next to the store."""
    if options.file_name and instance.config is not None:
        from sowctl.config.model import format_file_name

        return instance.config.root / format_file_name(options.file_name, topic.name, topic.message_type)
    return topic.file.with_name(topic.file.name + ".chains") if topic.file is not None else None
