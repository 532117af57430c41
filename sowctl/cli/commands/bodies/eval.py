"""Evaluation of the inputs of ``sowctl eval``: reading, output, warnings of bad messages."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import closing, nullcontext
from typing import BinaryIO

from sowctl.cli.configuration import NamedFunctions
from sowctl.cli.context import Invocation
from sowctl.cli.io.json_array import JsonArray
from sowctl.cli.io.report_output import RefusedWarnings
from sowctl.cli.io.sources import explain_refusal, open_inputs
from sowctl.cli.streams import is_terminal
from sowctl.engine.verbs.eval import EvalInput, EvalPart, Evaluator, count_processes, evaluate_file, evaluate_sources
from sowctl.errors import UsageError
from sowctl.expressions.environment import Environment
from sowctl.expressions.remarks import list_remarks
from sowctl.messages.base import MessageType
from sowctl.messages.framing.encodings import HEAD_BYTES, refuse_encoding
from sowctl.messages.framing.frames import UTF8_KINDS, FrameReader
from sowctl.messages.framing.json_values import is_line_framed
from sowctl.messages.types import choose_framing, get_type, list_type_names
from sowctl.output.display import escape_json, escape_lines

_FIRST_BYTES = 1 << 20
"""Bytes at the beginning of a large file in which the first line must end if the file has lines."""


def evaluate_inputs(
    invocation: Invocation,
    expression: str,
    files: Sequence[str],
    *,
    matches: bool,
    message_type: str,
    framing: str | None,
    skips: bool,
    as_json: bool = False,
) -> int:
    """Evaluate the expression and print the results; returns the exit status. Raises the errors of compiling and
    reading.

    ``framing`` None means that of the message type. ``as_json``: the lines are the elements of one array; matching
    messages must be lines of JSON (UsageError ``SOW-CLI-012``).
    """
    kind = _find_type(invocation, message_type)
    framing = framing or choose_framing(kind.kind)
    if as_json and matches and (kind.kind != "json" or framing not in ("lines", "json")):
        message = f"--json and --filter exclude each other for {kind.kind} messages with framing {framing}"
        raise UsageError("SOW-CLI-012", message, hint="remove --json, which requires one JSON message per line")
    evaluator = Evaluator(
        expression,
        Environment(invocation.clock),
        matches=matches,
        message_type=kind,
        framing=framing,
        stops=not skips,
        functions=NamedFunctions(invocation),
    )
    for remark in list_remarks(expression) if matches else ():
        invocation.note(str(remark))
    stdout = invocation.streams.stdout
    shown = is_terminal(stdout)
    with (
        closing(_evaluate_parts(invocation, evaluator, files, framing, kind.kind)) as parts,
        RefusedWarnings(invocation) as warnings,
        JsonArray(stdout) if as_json else nullcontext() as array,
    ):
        for part in parts:
            if part.output:
                output = escape_json(part.output) if shown else part.output
                if array is not None:
                    # Lines of JSON contain no line feed.
                    array.write_elements(output.rstrip(b"\n").split(b"\n"))
                else:
                    stdout.write(output)
                    stdout.flush()
            if part.error is not None:
                explain_refusal(part.error, part.rejected, kind.kind, invocation.command)
                raise part.error
            for one in part.rejected:
                warnings.warn(one)
    return 3 if warnings.count else 0


def _find_type(invocation: Invocation, name: str) -> MessageType:
    """The message type of this name: as in --config, else the built-in one, else that of the default configuration.

    Raises UsageError ``SOW-CLI-026`` if the name is unknown.
    """
    # A built-in type needs no configuration, unless the one that is given changes its settings.
    if invocation.settings.config is None and name in list_type_names():
        return get_type(name)
    if invocation.has_config():
        with invocation.open_instance() as instance:
            assert instance.config is not None
            if name in instance.config.types or name in list_type_names():
                return instance.find_message_type(name)
    known = ", ".join(list_type_names())
    hint = f"message types: {known}; with --config also those of its MessageTypes"
    raise UsageError("SOW-CLI-026", f"unknown message type {name!r}", hint=hint)


def _evaluate_parts(
    invocation: Invocation, evaluator: Evaluator, files: Sequence[str], framing: str, kind: str
) -> Generator[EvalPart]:
    for name, stream in open_inputs(invocation, files):
        descriptor = _find_descriptor(stream)
        span = None if descriptor is None or framing not in ("lines", "json") else _find_span(descriptor)
        if descriptor is not None and span is not None and framing == "json":
            head = os.pread(descriptor, _FIRST_BYTES, span[0])
            # A file in which each line is a message can be split between any two of them.
            span = span if is_line_framed(head, ended=len(head) < _FIRST_BYTES) else None
        count = count_processes(span[1] - span[0]) if span is not None else 1
        # A single process reports a file that has no lines.
        if descriptor is not None and span is not None and b"\n" not in os.pread(descriptor, _FIRST_BYTES, span[0]):
            count = 1
        if descriptor is not None and span is not None and count > 1:
            if kind in UTF8_KINDS:
                refuse_encoding(os.pread(descriptor, HEAD_BYTES, span[0]), name)
            # The children must not inherit output that the parent has not written yet.
            invocation.streams.stdout.flush()
            yield from evaluate_file(evaluator, name, descriptor, *span, count)
        else:
            reader = FrameReader(stream if descriptor is None else descriptor, framing, name=name, kind=kind)
            yield from evaluate_sources(evaluator, [EvalInput(name, reader)])


def _find_descriptor(stream: BinaryIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):  # a stream of a test, or one without a file descriptor
        return None


def _find_span(descriptor: int) -> tuple[int, int] | None:
    """Return the offsets where reading begins and ends in a regular file; None for anything else."""
    status = os.fstat(descriptor)
    # Only a regular file has a size by which it can be split.
    if not stat.S_ISREG(status.st_mode):
        return None
    # From the current offset: a shell may pass a file of which a part was already read.
    return os.lseek(descriptor, 0, os.SEEK_CUR), status.st_size


def show_plan(invocation: Invocation, expression: str, *, as_filter: bool) -> None:
    """Print how an expression is evaluated."""
    from sowctl.expressions.columns.program import explain_expression

    text = "\n".join(explain_expression(expression, as_filter=as_filter, functions=NamedFunctions(invocation)))
    invocation.streams.stdout.write(f"{escape_lines(text)}\n".encode())
