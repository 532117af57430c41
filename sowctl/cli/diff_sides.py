"""Parse the operands of ``diff``: targets at instants, ranges of the journal, whole instances, files of rows.

``[INSTANCE:]TARGET[@WHEN]``, where INSTANCE is a configuration or the directory of one, WHEN an instant as for ``query
--at`` or ``WHEN..WHEN``. The exact name of a topic or path of a file is never split. A file of rows, recognised by its
extension, is the state that publishing it to the empty topic of the other side would create.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.arrow.inputs.input_formats import DelimitedOptions, InputOptions, find_format
from sowctl.cli.context import Invocation
from sowctl.cli.io.row_files import parse_types, refuse_foreign_options
from sowctl.cli.io.sources import refuse_unreadable
from sowctl.cli.parsing.option_values import parse_at_option
from sowctl.config.default_config import CONFIG_NAMES
from sowctl.engine.topics.targets import Target, resolve_targets, split_target
from sowctl.engine.verbs.inspect.diff import DiffSide
from sowctl.errors import InputError, MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import PublishReport
    from sowctl.engine.writing.input_state import InputState

RANGE_MARK = ".."


class SideParts(Struct, frozen=True):
    """The parts of one operand: the file of a configuration (None: the command's own), a target (None: the whole
    instance), the instant (None: now), and the one after which a range begins; or a file of rows (``rows``), which is
    the whole operand."""

    text: str
    config: Path | None
    target: str | None
    at: str | None = None
    after: str | None = None
    rows: bool = False

    @property
    def front(self) -> str:
        """The operand up to the instant."""
        return self.text if self.at is None and self.after is None else self.text.rpartition("@")[0]


def pair_sides(
    invocation: Invocation,
    words: Sequence[str],
    topic_names: Sequence[str],
    message_type: str | None,
    stack: ExitStack,
    types: Sequence[str] = (),
) -> list[tuple[DiffSide, DiffSide]]:
    """The sides to compare, by topic; ``stack`` closes the instances.

    A single operand is compared with its own present; of a single range, the two ends. ``topic_names`` are those of
    whole instances, ``types`` those of the columns of a file. Raises UsageError ``SOW-DIF-005`` for operands that do
    not match, and the errors of opening and resolving.
    """
    opener = _SideOpener(invocation, stack)
    first = opener.parse_parts(words[0])
    if len(words) == 1:
        if first.rows or (first.at is None and first.after is None):
            raise UsageError("SOW-DIF-005", "nothing to compare with", hint=f"use for example {words[0]}@-1h")
        front = first.front
        one = SideParts(f"{front}@{first.after or first.at}", first.config, first.target, first.after or first.at)
        two = SideParts(
            f"{front}@{first.at}" if first.after and first.at else front,
            first.config,
            first.target,
            first.at if first.after is not None else None,
        )
    else:
        one, two = first, opener.parse_parts(words[1])
    if one.rows or two.rows:
        return [opener.pair_with_file(one, two, message_type, types)]
    if types:
        raise UsageError("SOW-EXC-010", "--type requires a file of rows")
    if (one.target is None) is not (two.target is None):
        raise UsageError(
            "SOW-DIF-005",
            f"{one.text} and {two.text} cannot be compared: only one is an instance",
            hint="INSTANCE:TARGET names one topic of an instance",
        )
    if topic_names and one.target is not None:
        raise UsageError("SOW-DIF-005", "--topic selects topics of instances")
    return _pair_by_topic(
        opener.build_sides(one, topic_names, message_type), opener.build_sides(two, topic_names, message_type)
    )


def _pair_by_topic(old: list[DiffSide], new: list[DiffSide]) -> list[tuple[DiffSide, DiffSide]]:
    """Pairs of sides of one topic; a topic that exists in only one instance is compared with an absent one."""
    if len(old) == len(new) == 1 and not old[0].absent:
        return [(old[0], new[0])]
    there = {_topic_key(side): side for side in new}
    found = [
        (side, there.pop(_topic_key(side)) if _topic_key(side) in there else _make_absent_side(side, new))
        for side in old
    ]
    return found + [(_make_absent_side(side, old), side) for side in there.values()]


def _make_absent_side(side: DiffSide, others: list[DiffSide]) -> DiffSide:
    instance = others[0].instance if others else side.instance
    return DiffSide(instance, None, f"nothing of {_topic_key(side)[0]}", absent=True)


def _topic_key(side: DiffSide) -> tuple[str, str]:
    topic = side.target.topic if side.target is not None else None
    return (topic.label, topic.message_type) if topic is not None else (side.name, "")


class _SideOpener:
    """Opens each instance once."""

    def __init__(self, invocation: Invocation, stack: ExitStack) -> None:
        self._invocation = invocation
        self._stack = stack
        self._open: dict[Path | None, Instance] = {}

    def open_instance(self, named: SideParts) -> Instance:
        place = named.config.resolve() if named.config is not None else None
        if (
            place is not None
            and self._invocation.has_config()
            and place == self._invocation.find_config_path().resolve()
        ):
            place = None
        if place not in self._open:
            if place is None:
                made = self._invocation.open_instance(*(() if named.target is None else (named.target,)))
            else:
                assert named.config is not None
                made = self._invocation.open_other_instance(named.config)
            self._open[place] = self._stack.enter_context(made)
        return self._open[place]

    def pair_with_file(
        self, one: SideParts, two: SideParts, message_type: str | None, types: Sequence[str]
    ) -> tuple[DiffSide, DiffSide]:
        """Return the sides if at least one operand is a file of rows, which belongs to the topic of the other.

        Raises UsageError ``SOW-DIF-005`` if that is not a single topic, and the errors of reading and publishing the
        file.
        """
        file, other = (one, two) if one.rows else (two, one)
        if other.rows or other.target is None:
            raise UsageError(
                "SOW-DIF-005",
                f"{file.text} is a file, and {other.text} is not a topic: a file is compared with one topic",
                hint=f"use for example sowctl diff TOPIC {file.text}",
            )
        found = self.build_sides(other, (), message_type)
        if len(found) != 1 or found[0].target is None or found[0].target.topic is None:
            raise UsageError("SOW-DIF-005", f"{other.text} is not one topic, with which {file.text} can be compared")
        (side,) = found
        assert side.target is not None
        options = InputOptions(delimited=DelimitedOptions(parse_types(types)))
        refuse_foreign_options(options, [file.text], [("--type", bool(types), "csv tsv")])
        state = self._stack.enter_context(open_file_state(side.instance, side.target.topic, file.text, options))
        read = DiffSide(state.instance, Target(topic=state.topic), file.text)
        return (read, side) if one.rows else (side, read)

    def build_sides(self, named: SideParts, topic_names: Sequence[str], message_type: str | None) -> list[DiffSide]:
        """The sides that one operand selects."""
        instance = self.open_instance(named)
        whole = named.target is None
        if named.target is not None:
            targets = resolve_targets(instance, named.target, message_type, derived=True)
        elif topic_names:
            targets = [
                target for text in topic_names for target in self._resolve_existing(instance, text, message_type)
            ]
        else:
            targets = [Target(topic=topic) for topic in instance.topics]
        at = parse_at_option(self._invocation, named.at).resolve_time(instance)
        after = None if named.after is None else parse_at_option(self._invocation, named.after).resolve_time(instance)
        several = whole or len(targets) > 1
        made = []
        for target in targets:
            if after is not None and (target.topic is None or target.topic.derived is not None):
                raise UsageError("SOW-DIF-005", f"{named.text}: only topics have a journal", hint="give one instant")
            name = named.text
            if several and target.topic is not None:
                when = named.text[len(named.front) :]
                name = f"{named.front}:{target.topic.label}{when}" if whole else f"{target.topic.label}{when}"
            made.append(DiffSide(instance, target, name, at, after, several))
        return made

    def _resolve_existing(self, instance: Instance, text: str, message_type: str | None) -> list[Target]:
        """Resolve a name in an instance that may not have it; no targets if it does not."""
        try:
            return resolve_targets(instance, text, message_type, derived=True)
        except MissingError:
            return []

    def parse_parts(self, text: str) -> SideParts:
        """The parts of an operand."""
        if is_row_file(text) and not self._is_exact(SideParts(text, None, text), file=False):
            # A name that is no topic is that of a file, which is opened, or reported as missing.
            return SideParts(text, None, text, rows=True)
        config, rest = _split_instance(text)
        if config is not None and rest is None:
            return SideParts(text, config, None)
        front, at, when = (text if rest is None else rest).rpartition("@")
        if config is not None and rest is not None and rest.startswith("@"):
            return _with_instant(SideParts(text, config, None), rest[1:])
        whole = text if rest is None else rest
        if not at or self._is_exact(SideParts(text, config, whole)):
            return SideParts(text, config, whole)
        return _with_instant(SideParts(text, config, front), when)

    def _is_exact(self, named: SideParts, *, file: bool = True) -> bool:
        """True if the whole operand is a file's path, if ``file``, or the name of a configured topic."""
        assert named.target is not None
        if file and Path(named.target).is_file():
            return True
        if named.config is None and not self._invocation.has_config():
            return False
        name, _ = split_target(named.target)
        config = self.open_instance(SideParts(named.text, named.config, None)).config
        return config is not None and any(entry.name == name for entry in config.sow)


def is_row_file(text: str) -> bool:
    """Return whether an operand has the extension of a file of rows."""
    return find_format(text) is not None


@contextmanager
def open_file_state(
    instance: Instance, topic: TopicConfig | None, name: str, options: InputOptions
) -> Iterator[InputState]:
    """Open the state that publishing a file of rows to an empty ``topic`` would create.

    Raises MissingError ``SOW-CLI-062`` for a missing file, InputError for a message that would be rejected, and
    UsageError ``SOW-PUB-031`` for a topic without publishes.
    """
    from sowctl.arrow.inputs.row_inputs import open_row_input
    from sowctl.engine.verbs.publish import publish_messages
    from sowctl.engine.writing.input_state import open_input_state
    from sowctl.engine.writing.row_target import build_row_target

    assert topic is not None
    refuse_unreadable([name])

    def load(copy: Instance) -> PublishReport:
        target = build_row_target(copy, topic.label, topic.message_type)
        try:
            with open_row_input(name, target, options) as found:
                return publish_messages(
                    copy, topic.label, [(found.name, found.source)], message_type=topic.message_type
                )
        except InputError as error:
            # The original hint names options of publish.
            error.hint = "the file must have messages or rows of the topic, as publish reads them"
            error.facts.pop("report", None)
            raise

    with open_input_state(instance, topic, load) as state:
        yield state


def _with_instant(named: SideParts, when: str) -> SideParts:
    since, dots, until = when.partition(RANGE_MARK)
    if not dots:
        return SideParts(named.text, named.config, named.target, when)
    return SideParts(named.text, named.config, named.target, until or None, since or "EPOCH")


def _split_instance(text: str) -> tuple[Path | None, str | None]:
    """The configuration at the beginning of an operand, and the rest: ``TARGET``, ``@WHEN``, or nothing."""
    if (found := _find_configuration(text)) is not None:
        return found, None
    for sign in (":", "@"):
        place = text.find(sign)
        while place > 0:
            if (found := _find_configuration(text[:place])) is not None:
                return found, text[place:] if sign == "@" else text[place + 1 :]
            place = text.find(sign, place + 1)
    return None, None


def _find_configuration(text: str) -> Path | None:
    """The configuration that a path names: a file that ends in .xml, or the directory of one.

    Raises UsageError ``SOW-CLI-004`` for a directory with several.
    """
    path = Path(text)
    if text.endswith(".xml") and path.is_file():
        return path
    if not path.is_dir():
        return None
    found = [path / name for name in CONFIG_NAMES if (path / name).is_file()]
    if len(found) > 1:
        names = ", ".join(str(one) for one in found)
        raise UsageError("SOW-CLI-004", f"several configurations here: {names}", hint="name one of them")
    return found[0] if found else None
