"""An instance opened for work: its configuration, and all external inputs of verbs, as arguments.

The command line creates one, and so does ``sowctl.open``, whose kind of instance has verbs as methods (``engine/api``).
A process keeps some files of queries open until an instance is closed, and within a ``with`` statement the stores, too.
Verbs are functions on an instance; this module does not import them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from msgspec import field
from msgspec.structs import replace

from sowctl.errors import ConfigError, UsageError
from sowctl.open_files import close_kept_files
from sowctl.seam import SEAM, Seam
from sowctl.structs import DescribedStruct
from sowctl.values.times import Clock, Micros, system_clock

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig, TopicConfig, TransactionLog
    from sowctl.expressions.environment import EvaluationLimits
    from sowctl.messages.base import MessageType
    from sowctl.messages.definition import TypeDefinition
    from sowctl.remote.place import Place


def _show_tag_names(found: str | TypeDefinition) -> TypeDefinition:
    """Return a type that shows the tags of FIX messages by name."""
    from sowctl.messages.definition import TypeDefinition

    if isinstance(found, str):
        found = TypeDefinition(found, found)
    return replace(found, tag_names=True, parts=tuple(map(_show_tag_names, found.parts)))


def _ignore_remark(_: str) -> None:
    return


class OpenTopic(Protocol):
    """A topic that a writing session of this run has open, as concurrent readers in the run see it."""

    @property
    def last_txid(self) -> int:
        """The txid of the last entry that its records include."""

    def scan(self, count: int, now: Micros) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield keys and stored values in key order, up to ``count`` at a time, without those that have expired at
        ``now``."""


ProgressCallback = Callable[[str, int, int], None]
"""Receives the progress of long reads: what is counted, how many are done, the total."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """Ignore progress: the :attr:`Instance.watch` of an instance that shows none."""


def _find_no_topic(_: TopicConfig) -> OpenTopic | None:
    return None


def _build_client_name(setting: str, program: str) -> str:
    """Return the client name for an instance's setting, in which the words user, host and program are replaced by those
    of the process (``sow-config(5)``, Clients). The user is the owner of the process, independent of its
    environment."""
    import re
    import socket
    from pwd import getpwuid

    def find_user() -> str:
        try:
            return getpwuid(os.geteuid()).pw_name
        except KeyError:
            return str(os.geteuid())

    values: dict[str, Callable[[], str]] = {
        "user": find_user,
        "host": socket.gethostname,
        "program": lambda: program.replace(" ", "-"),
    }
    return re.sub(r"\b(user|host|program)\b", lambda word: values[word[1]](), setting)


class Instance(DescribedStruct, frozen=True):
    """One instance. ``lock_wait`` in seconds; ``random(n)`` returns n random bytes; ``notify`` receives notes for
    people.

    ``config`` is None if a verb works on a bare ``.sow`` file; ``fix_names`` shows FIX tags by name. ``opened`` returns
    a topic that a session of this run has open, because a process can open a store only once; ``noted`` has the notes
    that must not be repeated (:meth:`notify_once`). ``watch`` receives the progress of long reads: what, how many, the
    total. ``tell_more`` receives explanations of notes. ``lasting``: the instance is a program's, with many calls, not
    a command's, with one. ``limits`` bound the cost of expressions, None for the default bounds. ``client``: recorded
    if no client is named (:meth:`find_recorded_client`).
    """

    lasting: ClassVar[bool] = False
    config: InstanceConfig | None = None
    clock: Clock = system_clock
    seam: Seam = SEAM
    lock_wait: float = 10.0
    random: Callable[[int], bytes] = os.urandom
    notify: Callable[[str], None] = _ignore_remark
    holder: str = "sowctl"
    working: Path = field(default_factory=Path)
    opened: Callable[[TopicConfig], OpenTopic | None] = _find_no_topic
    fix_names: bool = False
    noted: set[str] = field(default_factory=set)
    watch: Callable[[str, int, int], None] = ignore_progress
    tell_more: Callable[[str], None] = _ignore_remark
    limits: EvaluationLimits | None = None
    client: str | None = None

    @classmethod
    def open(
        cls,
        config_path: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        defines: Mapping[str, str] | None = None,
        clock: Clock = system_clock,
        seam: Seam = SEAM,
        lock_wait: float = 10.0,
        random: Callable[[int], bytes] = os.urandom,
        notify: Callable[[str], None] = _ignore_remark,
        holder: str = "sowctl",
        limits: EvaluationLimits | None = None,
        client: str | None = None,
    ) -> Self:
        """Load ``config_path``, a file or the directory of an instance (its paths are relative to its directory, or to
        ``root``).

        ``client`` is recorded if no client is named (default: as configured). ``environment`` (default: the process's)
        provides values for ``${VAR}``; ``defines`` take precedence. Raises ConfigError (exit 4).
        """
        from sowctl.config.default_config import find_config_file
        from sowctl.config.instance import load_instance

        if isinstance(lock_wait, bool) or not isinstance(lock_wait, int | float):
            raise TypeError(f"lock_wait must be a number of seconds, not {type(lock_wait).__name__}")
        if not lock_wait >= 0:
            raise UsageError("SOW-CLI-006", f"lock_wait must be a number of seconds, at least 0, not {lock_wait}")
        if not callable(clock):
            raise TypeError(
                f"clock must be a function that returns microseconds since 1970, not {type(clock).__name__}"
            )
        path = find_config_file(config_path)
        try:
            config = load_instance(
                path,
                environment=os.environ if environment is None else environment,
                defines=defines,
                root=None if root is None else Path(root),
            )
        except ConfigError as problem:
            if path.suffix == ".sow" and path.is_file():
                problem.hint = "the file is a store; name the configuration with its topic"
            raise
        return cls(config, clock, seam, lock_wait, random, notify, holder, limits=limits, client=client)

    def find_recorded_client(self) -> str | None:
        """Return the client to record with writes that name none: that of the instance, else as configured; None for
        none."""
        if self.client is not None or self.config is None or (setting := self.config.recorded_client) is None:
            return self.client
        return _build_client_name(setting, self.holder)

    def with_archive(self, archive: Place | None) -> Self:
        """Return the same instance with another archive of its journal, a directory or a URL. Raises ConfigError
        ``SOW-ENG-020`` without a TransactionLog."""
        if self.config is None or self.log is None:
            raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
        log = replace(self.log, archive_directory=archive, archive_is_file_url=False)
        return replace(self, config=replace(self.config, transaction_log=log))

    @property
    def now(self) -> Micros:
        """One reading of the clock, microseconds UTC."""
        return self.clock()

    def notify_once(self, about: str, text: str, detail: str = "") -> None:
        """Send a note unless one about the same subject was sent before in this run, with ``detail`` as its
        explanation."""
        if about not in self.noted:
            self.noted.add(about)
            self.notify(text)
            if detail:
                self.tell_more(detail)

    @property
    def is_watched(self) -> bool:
        """True if the progress of long reads is shown."""
        return self.watch is not ignore_progress

    def build_watch(self, what: str) -> Callable[[int, int], None]:
        """Return a progress callback for one kind of items, such as records: number done, total."""
        return lambda done, total: self.watch(what, done, total)

    @property
    def log(self) -> TransactionLog | None:
        """The configuration of the transaction log, None without one."""
        return self.config.transaction_log if self.config is not None else None

    @property
    def topics(self) -> tuple[TopicConfig, ...]:
        """The SOW topics in configuration order."""
        return self.config.topics if self.config is not None else ()

    @property
    def publisher_id(self) -> int:
        """The publisher id in bookmarks of entries without a publisher: that of a client with the instance's name."""
        from sowctl.identity.hashes import hash_client_name

        return hash_client_name(self.config.name) if self.config is not None else 0

    def find_message_type(self, name: str) -> MessageType:
        """Return the message type ``name`` as the configuration defines it, else the built-in one.

        Raises ConfigError ``SOW-MSG-006`` for a name that is neither, ``SOW-MSG-007`` for an unusable definition.
        """
        from sowctl.messages.types import get_type

        found = self.config.types.get(name, name) if self.config is not None else name
        try:
            return get_type(_show_tag_names(found) if self.fix_names else found)
        except ConfigError as problem:
            if self.config is not None or problem.code != "SOW-MSG-006":
                raise
            words = f"message type {name!r} is not built in, and no configuration is given that defines it"
            hint = "use --config with a configuration whose MessageTypes define it"
            raise ConfigError(problem.code, words, hint=hint) from None

    def close(self) -> None:
        """Close the files that queries of this process keep open for the next ones, which open them again."""
        close_kept_files()

    def __enter__(self) -> Self:
        """Keep stores open between calls until the end of the ``with`` statement."""
        from sowctl.store.opening.shared_environments import keep_open

        keep_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from sowctl.store.opening.shared_environments import end_keep_open

        end_keep_open()
        self.close()
