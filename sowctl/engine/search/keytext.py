"""Parsing the text of a key: a SOW key, a publisher's own key, or the values of the key fields.

Called by every verb that takes keys: get and history, where a text may mean either (:func:`resolve_key_texts`), and
query, delete and filters on ``SOW_KEY()``, which take SOW keys and publishers' keys alone (:func:`parse_key`,
:func:`parse_keys`). Ruled by ``sow-store(5)``, SOW key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from sowctl.engine.records import StoredRecord
from sowctl.engine.sources.logical_topics import compute_user_key, resolve_key_domain
from sowctl.engine.topics.targets import Target
from sowctl.errors import UsageError
from sowctl.identity.keys import (
    build_domain_prefix,
    compute_key_digest,
    compute_user_key_digest,
    digest_key,
    encode_key_text,
    parse_sow_key,
)
from sowctl.store.codec import extract_payloads
from sowctl.values.display import format_count
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.messages.base import MessageType
    from sowctl.store.meta import Definition
    from sowctl.values.paths import Path


class KeyOptions(Protocol):
    """Options that name records by keys: SOW keys as clients see them, and values of key fields."""

    @property
    def sow_keys(self) -> tuple[str, ...] | None: ...
    @property
    def keys(self) -> tuple[str, ...] | None: ...


def parse_key(text: str, key_mode: str) -> bytes:
    """The 8-byte key that a client's text names: an unsigned decimal, or the publisher's own key.

    Raises UsageError ``SOW-QRY-001`` for a text that is no decimal below 2**64 where keys are generated.
    """
    if key_mode == "user":
        return digest_key(compute_user_key_digest(encode_key_text(text)))
    key = parse_sow_key(text)
    if key is None:
        raise make_key_error(text)
    return key


def split_keys(text: str) -> tuple[str, ...]:
    """The SOW keys of a list with commas, which no key of a publisher can hold."""
    return tuple(key.strip() for key in text.split(","))


def parse_keys(texts: Sequence[str], topic: TopicConfig) -> list[bytes]:
    """The 8-byte keys that clients' texts name in a topic. Raises as :func:`parse_key`.

    UsageError ``SOW-ENG-032`` where publishers choose the keys and no logical topic is named.
    """
    if topic.pattern is not None and topic.key_mode == "user":
        name = resolve_key_domain(topic)
        return [compute_user_key(name, text) for text in texts]
    return [parse_key(text, topic.key_mode) for text in texts]


def resolve_key_texts(
    texts: Sequence[str], target: Target, definition: Definition | None, *, fields: bool
) -> list[list[bytes]]:
    """The keys that each text may mean in a target, the likelier first; none for a text that no record can have.

    Where keys are made of fields a text is a SOW key first, and then the text of the key field, several fields joined
    by commas; with ``fields`` it is the latter alone. A SOW key that happens to be another record's key text is one in
    2**64. ``definition`` is that of the store; the configuration of a topic says the same.

    Raises UsageError ``SOW-QRY-002`` for another number of fields than there are with ``fields``, ``SOW-QRY-005`` for
    ``fields`` where keys are not made of any, ``SOW-ENG-032`` and ``SOW-QRY-018`` where a key depends on the logical
    topic and none is named.
    """
    naming = _build_naming(target, definition)
    if fields or naming.mode == "user":
        naming.refuse_unnamed(target)
    if fields and naming.mode != "fields":
        hint = "give SOW keys: --sow-key instead of --key, or get without --fields"
        raise UsageError("SOW-QRY-005", "the topic has no key fields", hint=hint)
    if naming.mode == "user":
        return [[_encode_user_key(text, target)] for text in texts]
    return [_resolve_key_text(text, naming, fields) for text in texts]


def read_key_options(options: KeyOptions, target: Target, definition: Definition | None) -> list[bytes] | None:
    """The 8-byte keys that the options ``sow_keys`` and ``keys`` name in a target; None where neither is given.

    ``keys`` are values of key fields, or the keys that publishers chose. Raises as :func:`parse_keys` and
    :func:`resolve_key_texts`.
    """
    if options.sow_keys is None and options.keys is None:
        return None
    if target.topic is not None:
        found = parse_keys(options.sow_keys or (), target.topic)
    else:
        assert definition is not None
        found = [parse_key(text, definition.key_mode) for text in options.sow_keys or ()]
    if options.keys is not None:
        chosen = _build_naming(target, definition).mode == "user"
        texts = resolve_key_texts(options.keys, target, definition, fields=not chosen)
        found += [key for keys in texts for key in keys]
    return found


def make_key_error(text: str) -> UsageError:
    """The error for a text that can be no key."""
    return UsageError(
        "SOW-QRY-001",
        f"{text!r} is not a SOW key",
        hint="SOW keys are integers from 0 to 18446744073709551615, as printed by query --meta",
    )


class _KeyNaming(Struct, frozen=True):
    """The key mode, domain (None: of a logical topic that is not named) and field count of a target."""

    mode: str
    domain: str | None
    fields: int

    def refuse_unnamed(self, target: Target) -> None:
        if self.domain is not None:
            return
        if target.topic is not None:
            resolve_key_domain(target.topic)  # raises, with the pattern that a name has to match
        raise UsageError(
            "SOW-QRY-018",
            "the keys in this file depend on the logical topics of its records",
            hint="give SOW keys as printed by query --meta, or a configuration and the name of a logical topic",
        )


def _build_naming(target: Target, definition: Definition | None) -> _KeyNaming:
    topic = target.topic
    if topic is None:
        assert definition is not None
        # An empty domain stands for those of logical topics; None is no domain, such as of publishers' own keys.
        domain = None if definition.key_domain == "" else definition.key_domain or ""
        return _KeyNaming(definition.key_mode, domain, len(definition.key_fields))
    named = topic.pattern is None or topic.shares_domain or topic.logical_name is not None
    return _KeyNaming(topic.key_mode, resolve_key_domain(topic) if named else None, len(topic.keys))


def _resolve_key_text(text: str, naming: _KeyNaming, fields: bool) -> list[bytes]:
    number = None if fields else parse_sow_key(text)
    # A SOW key first: that a key text is by chance another record's SOW key is one case in 2**64.
    found = [] if number is None else [number]
    if naming.mode != "fields" or naming.domain is None:
        return found
    # With one field a comma is a part of its text.
    parts = text.split(",") if naming.fields > 1 else [text]
    if len(parts) == naming.fields:
        texts = list(map(encode_key_text, parts))
        found.append(digest_key(compute_key_digest(build_domain_prefix(naming.domain), texts)))
    elif fields:
        raise UsageError(
            "SOW-QRY-002",
            f"the key has {naming.fields} fields, but {format_count(len(parts), 'value was', 'values were')} given",
        )
    return found


def _encode_user_key(text: str, target: Target) -> bytes:
    if target.topic is not None:
        return parse_keys((text,), target.topic)[0]
    return parse_key(text, "user")


KeyFormatter: TypeAlias = "Callable[[Sequence[bytes], Sequence[bytes]], list[str]]"
"""Makes of 8-byte keys and their stored values the texts by which people name the records."""


def build_key_formatter(kind: MessageType, definition: Definition) -> KeyFormatter:
    """Build the formatter of keys: key fields joined by commas, else publisher's key, else SOW key as number. What
    :func:`resolve_key_texts` reads."""
    if definition.key_mode == "fields" and definition.key_fields:
        return build_field_formatter(kind, [parse_path(text) for text in definition.key_fields])
    return lambda keys, values: [
        StoredRecord(key, value).user_key or str(int.from_bytes(key, "big"))
        for key, value in zip(keys, values, strict=True)
    ]


def build_field_formatter(kind: MessageType, paths: Sequence[Path]) -> KeyFormatter:
    """The texts of some fields joined by commas; where all are NULL, the SOW key as a number."""
    extract = kind.build_key_extractor(paths)

    def names(keys: Sequence[bytes], values: Sequence[bytes]) -> list[str]:
        texts, _ = extract(extract_payloads(values))
        return [
            ",".join(["" if text is None else text.decode("utf-8", "surrogateescape") for text in row])
            if any(row)
            else str(int.from_bytes(key, "big"))
            for key, row in zip(keys, texts, strict=True)
        ]

    return names
