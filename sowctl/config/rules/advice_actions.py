"""Advice on what actions do: deleting, running commands, publishing, and removing files."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.model import format_file_name
from sowctl.config.rules.globs import glob_matches
from sowctl.config.rules.measures import can_compare_all
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import SubjectStep, is_transient
from sowctl.config.rules.survey import Survey
from sowctl.remote.place import is_url, parse_local_path

SAFE_VARIABLES = frozenset(
    {"AMPS_INSTANCE_NAME", "AMPS_DATETIME", "AMPS_UNIX_TIMESTAMP", "AMPS_MINIDUMP_PATH", "AMPS_REASON"}
)
"""Variables that clients cannot set; those of single bytes, AMPS_BYTE_XX, are safe, too."""
LONG_COMMAND_CHARACTERS = 256
_COPY_PROGRAMS = {"rsync", "scp", "sftp", "ftp", "wget", "aws", "dd", "pg_dump", "mysqldump"}
_PACK_PROGRAMS = {"tar", "gzip", "bzip2", "xz", "zstd", "zip"}
_SLOW_PROGRAMS = frozenset({"sleep", "find", "du"} | _COPY_PROGRAMS | _PACK_PROGRAMS)
_PREFIX_PROGRAMS = frozenset({"sudo", "nice", "ionice", "nohup", "exec"})
JOURNAL_FILES = ("{}.00001.journal.gz", "{}.index.gz", "{}.topic.index", "{}.clients.ack", "{}.queues.ack")


def deletes_everything(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Filter of delete-sow is true for every record.

    Why: each run empties the topic, and writes every delete to the journal if the topic is journalled.
    Example: ``<Filter>1=1</Filter>``.
    Instead: write a filter for the records to delete, such as ``/status = 'done'``. To empty the topic on purpose,
    ignore this rule.
    """
    for step in survey.find_steps("do-delete-sow"):
        condition = step.find_option("Filter")
        if condition is not None and _is_always_true(condition.text):
            topic = (step.find_option("Topic") or step.node).text
            message = f"delete-sow filter matches everything: each run empties '{topic}'"
            yield Problem(condition, message, "write a filter for the records to delete, such as /status = 'done'")


def _is_always_true(text: str) -> bool:
    """Return True for a filter that every message matches: constants, ``X = X``, ``X IS NULL OR X IS NOT NULL``."""
    from sowctl.expressions.rewrites.rewriter import rewrite_expression
    from sowctl.expressions.rewrites.truths import evaluate_constant_truth, is_constant
    from sowctl.expressions.syntax.nodes import Compare, Field, Is, Like, Literal, Logic

    # Text in double braces is filled in when the action runs, so the filter is unknown.
    if "{{" in text:
        return False
    tree = expression_texts.parse_filter_tree(text)
    if tree is None:
        return False
    # Rewritten first, so that constants in any form become one.
    tree = rewrite_expression(tree)
    if is_constant(tree):
        return bool(evaluate_constant_truth(tree))
    if isinstance(tree, Like):
        return not tree.negated and isinstance(tree.operand, Field) and tree.pattern.text in (b".*", b"", b"^.*$")
    if isinstance(tree, Compare):
        # ``X = X`` with a field; equal literals are a constant, handled above.
        return tree.operator == "=" and tree.left == tree.right and not isinstance(tree.left, Literal)
    if isinstance(tree, Logic) and tree.operator == "OR":
        tests = [part for part in tree.operands if isinstance(part, Is)]
        return any(a.what == b.what and a.operand == b.operand and a.negated != b.negated for a in tests for b in tests)
    return False


def dangerous_command(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: execute-system with data that clients supply, or with a command that may run long.

    Why: the command goes through a shell, so data with a quote or a semicolon in it runs as a command; and the thread
    that waits for it is monitored, so the command must end within a second or two.
    Example: ``<Command>notify.sh '{{AMPS_DATA}}'</Command>``, or ``<Command>rsync -a sow backup:</Command>``.
    Instead: write the data to a file or topic that a program reads; end a long command with ``&``.
    """
    for step in survey.find_steps("do-execute-system"):
        command = step.find_option("Command")
        if command is None:
            continue
        names = [name.strip() for name in re.findall(r"\{\{([^{}]*)\}\}", command.text)]
        supplied = [name for name in names if name not in SAFE_VARIABLES and not name.startswith("AMPS_BYTE_")]
        if supplied:
            message = f"execute-system with message data ({{{{{supplied[0]}}}}}): its content can run as a command"
            yield Problem(command, message, "pass the data in a file or a topic instead")
        slow = _find_slow_program(command.text)
        if (slow or len(command.text) > LONG_COMMAND_CHARACTERS) and not command.text.rstrip().endswith("&"):
            what = f"with '{slow}', which may take long" if slow else "with a long command"
            message = f"execute-system {what}: it blocks a monitored thread"
            yield Problem(command, message, "start it in the background with &, or from an external scheduler")


def _find_slow_program(command: str) -> str | None:
    """The first program of a shell line that is known to be slow."""
    # Each command of a shell line has a program of its own, and any of them may be slow.
    for part in re.split(r"[;|&`\n]|\$\(", command):
        # Words before the program: assignments, and programs that start another one.
        program = next((word for word in part.split() if word not in _PREFIX_PROGRAMS and "=" not in word), "")
        if program.rpartition("/")[2] in _SLOW_PROGRAMS:
            return program
    return None


def publish_loop(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: actions that publish to a topic whose messages trigger one of them again, without a condition.

    Why: the loop never ends and fills the journals. Loops with a Filter or an If are assumed to end.
    Example: on-publish-message for ``orders`` with do-publish-message to ``orders``.
    Instead: publish to another topic, or let a Filter end the loop.
    """
    graph: dict[Hashable, list[Hashable]] = {}
    triggers: list[SubjectStep] = []
    for step in survey.steps:
        # An action with a condition is assumed to end the loop.
        if step.action.find("If") is None:
            if step.module == "amps-action-do-publish-message" and (published := _find_topic(step)):
                graph.setdefault(step.action, []).append(published)
            elif _triggers_action(step):
                triggers.append(step)
    topic_names = {topic for followers in graph.values() for topic in followers}
    if not can_compare_all(len(topic_names), len(triggers)):
        return
    # Topics are nodes of the graph, too: an action that publishes leads to its topic, a topic to the actions that it
    # triggers.
    for topic in topic_names:
        graph[topic] = [on.action for on in triggers if _starts_action(on, topic, survey)]
    reported: set[ElementNode] = set()
    for loop in _find_loops([on.action for on in triggers], graph):
        actions = [member for member in loop if isinstance(member, ElementNode)]
        # One finding for actions that are part of several loops.
        if reported.isdisjoint(actions):
            reported.update(actions)
            where = "itself" if len(actions) == 1 else f"the action on line {actions[1].place.line}"
            message = f"publish loop between the action on line {actions[0].place.line} and {where}"
            yield Problem(actions[0], message, "publish to another topic, or end the loop with a Filter")


def _find_topic(step: SubjectStep) -> tuple[str, ...]:
    """Topic and message type of a step; empty if one is missing or known only at run time."""
    topic, kind = step.find_option("Topic"), step.find_option("MessageType")
    if topic is None or kind is None or not topic.text or "{{" in topic.text + kind.text:
        return ()
    return topic.text, kind.text


def _triggers_action(step: SubjectStep) -> bool:
    source = step.find_option("MessageSource")
    return (
        step.module in ("amps-action-on-publish-message", "amps-action-on-deliver-message")
        and bool(_find_topic(step))
        and step.find_option("Filter") is None
        and (source is None or source.text.lower() != "replicated")
    )


def _starts_action(on: SubjectStep, topic: Hashable, survey: Survey) -> bool:
    pattern, kind = _find_topic(on)
    return isinstance(topic, tuple) and kind == topic[1] and survey.matches_topic(pattern, topic[0])


def _find_loops(starts: Iterable[Hashable], graph: Mapping[Hashable, list[Hashable]]) -> Iterator[list[Hashable]]:
    """Loops of a graph, as their members in order; every member is visited once, so not every loop is found."""
    done: set[Hashable] = set()
    for start in starts:
        path: list[Hashable] = []
        position: dict[Hashable, int] = {}
        waiting: list[Iterator[Hashable]] = [iter([start])]
        while waiting:
            member = next(waiting[-1], None)
            if member is None:
                waiting.pop()
                if path:
                    del position[path.pop()]
            # A member of the current path: the members in between form the loop.
            elif member in position:
                yield path[position[member] :]
            elif member not in done:
                done.add(member)
                position[member] = len(path)
                path.append(member)
                waiting.append(iter(graph.get(member, ())))


def removes_needed_files(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Pattern of remove-files covers files of the journal, of topics, or of the statistics.

    Why: it removes files that the instance uses; only files that end in ``.journal`` are protected.
    Example: ``<Pattern>./sow/*</Pattern>`` where topics have ``<FileName>./sow/%n.sow</FileName>``.
    Instead: write a Pattern that matches only logs, such as ``./logs/*.log``.
    """
    removals = [
        (s, p) for s in survey.find_steps("do-remove-files") if (p := s.find_option("Pattern")) is not None and p.text
    ]
    if not removals:
        return
    needed = list(_list_needed_paths(survey))
    # A hostile file must not make lint compare for minutes.
    if not can_compare_all(len(removals), len(needed)):
        return
    for _, pattern in removals:
        if "{{" in pattern.text:
            continue
        glob = os.path.normpath(survey.root / pattern.text)
        for what, path in needed:
            if glob_matches(glob, path):
                message = f"remove-files Pattern '{pattern.text}' covers {what}"
                yield Problem(pattern, message, "write a Pattern that matches only log files")
                break


def _list_needed_paths(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield a description of each file that must not be removed, and its path."""
    for log in survey.find_nodes("TransactionLog"):
        for directory in log.find_all("JournalDirectory", "JournalArchiveDirectory"):
            if is_url(directory.text):
                continue  # do-remove-files affects only this machine
            for name in JOURNAL_FILES:
                file = name.format(survey.top.find_text("Name") or "")
                yield (
                    f"{directory.tag} {directory.text}",
                    os.path.normpath(survey.root / parse_local_path(directory.text) / file),
                )
    for admin in survey.find_nodes("Admin"):
        file_name = admin.find_text("FileName") or ":memory:"
        if file_name != ":memory:":
            yield f"the statistics, {file_name}", os.path.normpath(survey.root / file_name)
    for entry in survey.entries:
        store = entry.node.find_text("FileName")
        if entry.kind == "Topic" and store and not is_transient(entry.node):
            file = format_file_name(store, entry.name, entry.type)
            yield f"the file of topic '{entry.name}'", os.path.normpath(survey.root / file)
