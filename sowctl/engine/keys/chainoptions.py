"""The options of the chaining key generator: which fields name a message's chain, and where chains are kept.

Read by :mod:`sowctl.engine.keys.generators`; :mod:`sowctl.engine.keys.chains` does what they say. Ruled by
``sowctl-plugins(7)``, The chaining generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.keys.generators import option_error
from sowctl.errors import SowError
from sowctl.tuples import NamedTuple
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance


class ChainOptions(NamedTuple):
    """``primary`` and the secondary fields as paths, the file (None: beside the store), whether to verify it."""

    primary: FieldPath
    secondary: tuple[FieldPath, ...]
    file_name: str | None
    validation: bool


def chain_options(topic: TopicConfig, options: Sequence[tuple[str, str]]) -> ChainOptions:
    """The options of the generator: Primary (or the first Key), Secondary (or further Keys), FileName, Validation.

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
        raise option_error(topic, f"it has no option {unknown[0]}; it has Primary Secondary Key FileName Validation")
    if len(primary) != 1 or not secondary:
        raise option_error(topic, "it needs one Primary (or first Key) and at least one Secondary (or further Key)")
    values = {tag: text for tag, text in options if tag in ("FileName", "Validation")}
    validation = values.get("Validation", "false").lower()
    if validation not in ("true", "false", "enabled", "disabled"):
        raise option_error(topic, f"Validation is true or false, not {validation!r}")
    try:
        paths = [parse_path(text) for text in primary + secondary]
    except SowError as error:
        raise option_error(topic, error.message) from error
    return ChainOptions(paths[0], tuple(paths[1:]), values.get("FileName"), validation in ("true", "enabled"))


def file_of_chains(instance: Instance, topic: TopicConfig, options: ChainOptions) -> Path | None:
    """Where the chains of a topic are kept: the option FileName as a topic's FileName, else beside the store."""
    if options.file_name and instance.config is not None:
        from sowctl.config.model import file_of

        return instance.config.root / file_of(options.file_name, topic.name, topic.message_type)
    return topic.file.with_name(topic.file.name + ".chains") if topic.file is not None else None
