"""The bodies of ``lint --fix`` and ``lint --diff``: write the corrected texts to their files, or print a
difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path

from sowctl.cli.context import Invocation
from sowctl.config.fixes import Fixed, fix_text
from sowctl.errors import UsageError
from sowctl.findings import Finding

Judge = Callable[[Path, bytes], Sequence[Finding]]
"""``(path, content) -> findings`` of the selected rules in that file."""


def fix_files(invocation: Invocation, paths: Sequence[Path], judge: Judge, *, write: bool) -> bool:
    """Fix the findings that have one safe fix and write each file, or print the changes; return True if there were any.

    Included files are fixed only if they are given themselves. Raises UsageError ``SOW-CLI-093`` for standard input,
    and OSError.
    """
    total: Counter[str] = Counter()
    for path in paths:
        before = path.read_bytes()
        try:
            text = before.decode()
        except UnicodeDecodeError:
            invocation.note(f"{path}: unchanged; only UTF-8 files can be fixed")
            continue
        found = fix_text(text, str(path), partial(_judge_text, judge, path))
        total.update(found.mended)
        if found.mended and write:
            _write_fixed(invocation, path, found)
        elif found.mended:
            _print_difference(invocation, path, text, found.text)
    if not total:
        invocation.note("nothing to fix: no finding has one safe fix")
    return bool(total)


def _judge_text(judge: Judge, path: Path, text: str) -> Sequence[Finding]:
    return judge(path, text.encode())


def refuse_standard_input(files: Sequence[str]) -> None:
    """Raises UsageError ``SOW-CLI-093`` if one of the files is standard input, which cannot be written."""
    if "-" in files:
        raise UsageError("SOW-CLI-093", "standard input cannot be changed in place", hint="name a file")


def _write_fixed(invocation: Invocation, path: Path, found: Fixed) -> None:
    from sowctl.output_file import open_whole_file

    # The target of a link is replaced; a rename would replace the link by a file.
    with open_whole_file(path.resolve(), force=True, seam=invocation.seam) as stream:
        stream.write(found.text.encode())
    words = ", ".join(f"{rule} {count}" if count > 1 else rule for rule, count in sorted(found.mended.items()))
    invocation.note(f"{path}: fixed {words}")


def _print_difference(invocation: Invocation, path: Path, before: str, after: str) -> None:
    from sowctl.output.display import escape_line

    lines = unified_diff(before.splitlines(True), after.splitlines(True), str(path), str(path))
    text = "".join(escape_line(line.rstrip("\r\n")) + "\n" for line in lines)
    invocation.streams.stdout.write(text.encode("utf-8", "backslashreplace"))
