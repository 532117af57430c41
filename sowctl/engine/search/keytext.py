"""Parsing the text of a key: a SOW key, a publisher's own key, or the values of the key fields.

Called by every verb that accepts keys: get and history, where a text may be either (:func:`resolve_key_texts`), and
query, delete and filters on ``SOW_KEY()``, which accept only SOW keys and publishers' keys (:func:`parse_key`,
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
    """Options that select records by key: SOW keys as printed to clients, and values of key fields."""

    @property
    def sow_keys(self) -> tuple[str, ...] | None: ...
    @property
    def keys(self) -> tuple[str, ...] | None: ...


def parse_key(text: str, key_mode: str) -> bytes:
    """Return the 8-byte key of a client's text: an unsigned decimal, or the publisher's own key.

    Raises UsageError ``SOW-QRY-001`` if keys are generated and the text is not a decimal below 2**64.
    """
    if key_mode == "user":
        return digest_key(compute_user_key_digest(encode_key_text(text)))
    key = parse_sow_key(text)
    if key is None:
        raise make_key_error(text)
    return key


def split_keys(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of SOW keys; publishers' keys cannot contain commas."""
    return tuple(key.strip() for key in text.split(","))


def parse_keys(texts: Sequence[str], topic: TopicConfig) -> list[bytes]:
    """Return the 8-byte keys that clients' texts name in a topic. Raises the errors of :func:`parse_key`, and
    UsageError ``SOW-ENG-032`` if publishers choose the keys of a Pattern topic and no logical topic is named.
    """
    if topic.pattern is not None and topic.key_mode == "user":
        name = resolve_key_domain(topic)
        return [compute_user_key(name, text) for text in texts]
    return [parse_key(text, topic.key_mode) for text in texts]


def resolve_key_texts(
    texts: Sequence[str], target: Target, definition: Definition | None, *, fields: bool
) -> list[list[bytes]]:
    """Return the possible keys of each text in a target, the likelier first; none for a text that cannot be a key.

    If keys are computed from fields, a text is tried as a SOW key first, and then as the text of the key field, or of
    several fields joined by commas; with ``fields`` only as the latter. That a SOW key equals the key text of another
    record is a chance of one in 2**64. ``definition``: the store's definition, which equals the topic's configuration.

    Raises UsageError ``SOW-QRY-002`` for a wrong number of fields with ``fields``, ``SOW-QRY-005`` for ``fields`` if
    the topic has no key fields, ``SOW-ENG-032`` or ``SOW-QRY-018`` if a key depends on the logical topic and none is
    named.
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
    """Return the 8-byte keys that the options ``sow_keys`` and ``keys`` name in a target; None if neither is set.

    ``keys`` are values of key fields, or keys chosen by publishers. Raises the errors of :func:`parse_keys` and
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
    """Return the error for a text that cannot be a key."""
    return UsageError(
        "SOW-QRY-001",
        f"{text!r} is not a SOW key",
        hint="SOW keys are integers from 0 to 18446744073709551615, as printed by query --meta",
    )


class _KeyNaming(Struct, frozen=True):
    """The key mode, domain (None: depends on a logical topic that is not named) and key field count of a target."""

    mode: str
    domain: str | None
    fields: int

    def refuse_unnamed(self, target: Target) -> None:
        if self.domain is not None:
            return
        if target.topic is not None:
            resolve_key_domain(target.topic)  # raises an error with the pattern that a name must match
        raise UsageError(
            "SOW-QRY-018",
            "the keys in this file depend on the logical topics of its records",
            hint="give SOW keys as printed by query --meta, or a configuration and the name of a logical topic",
        )


def _build_naming(target: Target, definition: Definition | None) -> _KeyNaming:
    topic = target.topic
    if topic is None:
        assert definition is not None
        # An empty domain means the domains of logical topics; None means no domain, for example for publishers' keys.
        domain = None if definition.key_domain == "" else definition.key_domain or ""
        return _KeyNaming(definition.key_mode, domain, len(definition.key_fields))
    named = topic.pattern is None or topic.shares_domain or topic.logical_name is not None
    return _KeyNaming(topic.key_mode, resolve_key_domain(topic) if named else None, len(topic.keys))


def _resolve_key_text(text: str, naming: _KeyNaming, fields: bool) -> list[bytes]:
    number = None if fields else parse_sow_key(text)
    # A SOW key first: a key text equals another record's SOW key with a chance of one in 2**64.
    found = [] if number is None else [number]
    if naming.mode != "fields" or naming.domain is None:
        return found
    # With a single field, commas are part of its text.
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
"""Converts 8-byte keys and their stored values to the texts by which users name the records."""


def build_key_formatter(kind: MessageType, definition: Definition) -> KeyFormatter:
    """Build the formatter of keys: key fields joined by commas, else publisher's key, else SOW key as a number.
    :func:`resolve_key_texts` parses these texts."""
    if definition.key_mode == "fields" and definition.key_fields:
        return build_field_formatter(kind, [parse_path(text) for text in definition.key_fields])
    return lambda keys, values: [
        StoredRecord(key, value).user_key or str(int.from_bytes(key, "big"))
        for key, value in zip(keys, values, strict=True)
    ]


def build_field_formatter(kind: MessageType, paths: Sequence[Path]) -> KeyFormatter:
    """Build a formatter that joins the texts of fields by commas; if all are NULL, it returns the numeric SOW key."""
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
