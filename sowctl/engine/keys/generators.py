"""Key generators: the built-in chaining generator, and those that Python packages register.

A registered one is a factory. Called with the options of the generator, it returns an object with ``fields``, the paths
whose texts it needs, and ``key(texts, payload)``, the text that identifies one message (``sowctl-plugins(7)``). The SOW
key is computed from that text under the topic's name, as from a single key field. A generator must be a function of the
message alone, so that keys are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from sowctl.config.actions import ID_CHAINING_GENERATOR, KEY_GENERATOR_GROUP
from sowctl.engine.extensions.plugins import ModuleOptions, is_library, list_modules, load_entry_point
from sowctl.engine.keys.keymaker import KeyMaker, Keys, build_generator_error
from sowctl.errors import ConfigError, SowError, UsageError
from sowctl.identity.keys import build_domain_prefix, compute_key_digest, encode_key_text
from sowctl.values.fields import Refusal
from sowctl.values.paths import Path, parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope

NO_KEY_CODE = "SOW-PUB-016"


class Generator(Protocol):
    """A key generator, as a registered factory returns it. ``fields`` are paths as in configurations."""

    fields: Sequence[str]

    def key(self, texts: Sequence[bytes | None], payload: bytes) -> str | bytes | None:
        """Return the identity of one message, None without one; a ValueError rejects the message with its text."""
        ...


class GeneratorKeys:
    """Keys from a registered generator."""

    chains = None

    def __init__(self, topic: TopicConfig, kind: MessageType, generator: Generator, paths: Sequence[Path]) -> None:
        self._prefix = build_domain_prefix(topic.key_domain)
        self._generator = generator
        self._texts = kind.build_key_extractor(paths) if paths else None

    def make_keys(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> Keys:
        """Return keys of the texts that the generator returns; without a text, refuse with SOW-PUB-016."""
        texts: list[tuple[bytes | None, ...]] = [()] * len(payloads)
        if self._texts is not None:
            texts, refusals = self._texts(payloads)
            refused.update((refusal.index, refusal) for refusal in refusals if refusal.index not in refused)
        digests, own = [b""] * len(payloads), list(texts)
        for index, payload in enumerate(payloads):
            # A refused message keeps its empty digest, which is not used.
            if index in refused:
                continue
            try:
                identity = self._generate_identity(texts[index], payload)
            except _NoKeyError as error:
                refused[index] = Refusal(index, NO_KEY_CODE, str(error))
                continue
            digests[index], own[index] = compute_key_digest(self._prefix, (identity,)), (identity,)
        return Keys(digests, None, own)

    def _generate_identity(self, texts: Sequence[bytes | None], payload: bytes) -> bytes:
        try:
            identity = self._generator.key(texts, payload)
            if isinstance(identity, str):
                identity = encode_key_text(identity)
        except UsageError as error:
            raise _NoKeyError(f"the key generator returned no key: {error.message}") from error
        except ValueError as error:
            raise _NoKeyError(f"the key generator returned no key: {error}") from error
        except Exception as error:
            raise _NoKeyError(f"the key generator failed: {type(error).__name__}: {error}") from error
        # An empty identity would combine all messages without one into a single record.
        if not isinstance(identity, bytes) or not identity:
            raise _NoKeyError("the key generator returned no key")
        return identity


class _NoKeyError(Exception):
    """Explains why a message has no key."""


def build_generated_keys(instance: Instance, topic: TopicConfig, kind: MessageType) -> KeyMaker:
    """Return the key maker of a topic with a KeyGenerator.

    Raises ConfigError: ``SOW-PUB-010`` if no package implements its module, ``SOW-ENG-052`` for invalid options of the
    generator.
    """
    assert topic.key_generator is not None
    name = topic.key_generator.module
    module = list_modules(instance).get(name)
    options = (*(module.options if module is not None else ()), *topic.key_generator.options)
    # An installed package takes precedence over the built-in generator: it was installed for this module's name.
    factory = load_entry_point(KEY_GENERATOR_GROUP, name)
    if factory is not None:
        generator = _create_generator(topic, factory, options)
        return GeneratorKeys(topic, kind, generator, _parse_key_paths(topic, generator.fields))
    if module is not None and is_library(module, ID_CHAINING_GENERATOR):
        from sowctl.engine.keys.chains import ChainKeys, parse_chain_options

        return ChainKeys(instance, topic, kind, parse_chain_options(topic, options))
    raise ConfigError(
        "SOW-PUB-010",
        f"topic {topic.name!r} has a key generator with module {name!r}, but no installed package replaces it",
        place=str(topic.key_generator.place),
        hint=f"install a Python package that registers {name!r} in the group {KEY_GENERATOR_GROUP},"
        " see sowctl-plugins(7)",
    )


def _create_generator(topic: TopicConfig, factory: object, options: ModuleOptions) -> Generator:
    try:
        generator = cast("Callable[[ModuleOptions], Any]", factory)(options)
    except Exception as error:
        raise build_generator_error(topic, f"{type(error).__name__}: {error}") from error
    if not hasattr(generator, "fields"):
        raise build_generator_error(topic, "the object returned by its factory has no fields")
    if not callable(getattr(generator, "key", None)):
        raise build_generator_error(topic, "the object returned by its factory has no method key(texts, payload)")
    return cast(Generator, generator)


def _parse_key_paths(topic: TopicConfig, fields: Sequence[str]) -> list[Path]:
    try:
        return [parse_path(field) for field in fields]
    except SowError as error:
        raise build_generator_error(topic, error.message) from error
