"""Instance, topic or files of a data source, resolved once and sent to the tasks as plain values.

The configuration is read where the query is planned. Tasks receive the parsed model, so the file and the environment
variables that it uses need not exist on their machines. Stores and journals must exist there under the same paths.
"""

from __future__ import annotations

import os
import re
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.default_config import find_default_config
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.instance import Instance
from sowctl.engine.topics.targets import Target, find_topic
from sowctl.errors import MissingError, UsageError
from sowctl.journal.archive.manifest import missing_archive_error
from sowctl.journal.format import MANIFEST_SUFFIX
from sowctl.remote.place import Place, RemotePath, require_local
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig, TopicConfig
    from sowctl.expressions.compiler import Filter
    from sowctl.spark.options import Options


_JOURNAL_FILE_PATTERN = re.compile(r"(.+)\.\d{10}\.journal(?:\.gz|\.zst)?")


class Origin(DescribedStruct, frozen=True):
    """Source or destination of data. ``now`` is the time of the whole query in microseconds UTC; ``archive`` is a
    second directory with files of the journal in ``path``."""

    config: InstanceConfig | None
    topic: TopicConfig | None
    path: Place | None
    journal_name: str | None
    now: int
    archive: Place | None = None

    def build_instance(self) -> Instance:
        """Return the instance, with its clock fixed at ``now``."""
        return Instance(self.config, partial(int, self.now), holder="sowctl on Spark")

    @property
    def store_path(self) -> Path | None:
        """The path of a store without configuration. It must be local, because LMDB maps the file."""
        return None if self.path is None else require_local(self.path)

    @property
    def is_derived(self) -> bool:
        """True if the records are those of a view, conflated topic or queue, which have no store."""
        return self.topic is not None and self.topic.derived is not None

    @property
    def target(self) -> Target:
        """The target that readers of records open."""
        return Target(topic=self.topic) if self.topic is not None else Target(path=self.store_path)


def build_filter(origin: Origin, text: str) -> Filter:
    """Compile a filter, with the functions of the configuration's modules. Raises UsageError if it is invalid."""
    from sowctl.expressions.compiler import compile_filter

    return compile_filter(text, extra=load_functions(origin.build_instance()))


def find_origin(options: Options, *, derived: bool = False) -> Origin:
    """Return the store at ``path``, or the topic given by ``config`` and ``topic``.

    With ``derived``, the topic may be a view, conflated topic or queue. Raises UsageError ``SOW-SPK-012`` if both or
    neither are given, ``SOW-SPK-013`` if ``topic`` is missing, MissingError ``SOW-ENG-013`` if the file does not
    exist, and what finding a topic raises.
    """
    path, archive, config = options.read_path("path"), options.read_place("archive"), find_config(options)
    if config is None:
        if path is not None and archive is not None:
            raise UsageError(
                "SOW-SPK-012",
                "both a store and an archive of a journal are given",
                hint="a store without a configuration has no journal: give config and topic, or remove archive",
            )
        if path is None:
            raise _build_location_error(options, "give config and topic, or path")
        if not path.is_file():
            hint = "patterns are not supported: give load() a list of paths" if has_magic(str(path)) else None
            raise MissingError("SOW-ENG-013", "the file does not exist", place=str(path), hint=hint)
        return Origin(None, None, path, None, options.build_clock()())
    if path is not None:
        raise UsageError("SOW-SPK-012", "both a path and a configuration are given", hint="remove one of them")
    instance = _instance(options, config)
    if archive is not None:
        instance = instance.with_archive(archive)
    name = options.read_text("topic")
    if name is None:
        raise UsageError("SOW-SPK-013", "option topic is missing", hint="name a topic of the configuration")
    topic = find_topic(instance, name, options.read_text("messageType"), derived=derived)
    # The clock is read once, here; tasks use this time instead of their own clocks.
    return Origin(instance.config, topic, None, None, instance.now)


def find_journal(options: Options) -> Origin:
    """Return the journal of a configuration, or of a directory of journal files.

    The reader resolves ``topic``, because a journal may contain topics that are not in the configuration. Raises
    UsageError ``SOW-SPK-012`` if both or neither are given, and ``SOW-SPK-014`` for a directory with journals of
    several instances.
    """
    path, archive, config = options.read_place("path"), options.read_place("archive"), find_config(options)
    if config is not None:
        if path is not None:
            raise UsageError(
                "SOW-SPK-012",
                "both a path and a configuration are given",
                hint="remove one of them; to add an archive of the journal, use option archive",
            )
        instance = _instance(options, config)
        return Origin(instance.config, None, None, None, instance.now, archive)
    if path is None:
        raise _build_location_error(
            options, "give config, or path, or a topic of the configuration in the working directory"
        )
    name = options.read_text("instance") or _only_instance(path)
    return Origin(None, None, path, name, options.build_clock()(), archive)


def find_config(options: Options) -> Path | None:
    """Return the path of the configuration: option ``config``, or the driver's default if only ``topic`` is given.

    Without a topic there is no default: a table of Spark's catalog that has lost its options must not read other data.
    """
    named = options.read_path("config")
    if named is not None or options.read_text("path") is not None or options.read_text("topic") is None:
        return named
    found = find_default_config(os.environ, Path.cwd(), "option config")
    return None if found is None else found.absolute()


def _instance(options: Options, config: Path) -> Instance:
    root = options.read_path("root")
    return Instance.open(config, root=None if root is None else str(root), clock=options.build_clock())


def _build_location_error(options: Options, hint: str) -> UsageError:
    """Build the error for a missing location; without any option, the cause is most likely a table of the catalog."""
    if not options:
        hint += "; CREATE TABLE ... USING ... OPTIONS saves them if it declares no columns"
    return UsageError("SOW-SPK-012", "no source is given", hint=hint)


def _only_instance(directory: Place) -> str:
    # With journals of several instances, the user has to choose one.
    if isinstance(directory, RemotePath):
        from sowctl.remote.remote_files import list_files

        names = sorted(
            {
                one.place.name.removesuffix(MANIFEST_SUFFIX)
                for one in list_files(directory)
                if one.place.suffix == MANIFEST_SUFFIX
            }
        )
    elif not directory.is_dir():
        raise MissingError("SOW-ENG-013", "the directory does not exist", place=str(directory))
    else:
        names = sorted(
            {found[1] for file in directory.iterdir() if (found := _JOURNAL_FILE_PATTERN.fullmatch(file.name))}
        )
    if len(names) == 1:
        return names[0]
    if not names:
        if isinstance(directory, RemotePath):
            raise missing_archive_error(directory)
        raise MissingError("SOW-JRN-001", "the directory has no journal files", place=str(directory))
    raise UsageError(
        "SOW-SPK-014",
        f"the directory has journals of several instances: {', '.join(names)}",
        place=str(directory),
        hint="select one with option instance",
    )
