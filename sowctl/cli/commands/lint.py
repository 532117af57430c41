"""``sowctl lint``: errors, warnings and advice about configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.configuration import Define
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FINDING_FORMATS
from sowctl.cli.streams import is_terminal
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import NegativeError, UsageError

if TYPE_CHECKING:
    from sowctl.config.lint import Linted
    from sowctl.config.rules.rule import Rule
    from sowctl.findings import Finding, Level

EXAMPLES = (
    "sowctl lint amps.xml",
    "sowctl lint --severity warning amps.xml other.xml",
    "sowctl lint --ignore B,D002 --format json amps.xml",
    "sowctl lint --diff amps.xml",
    "sowctl lint --explain persistent-without-file",
    "sowctl lint --list --select S",
)


class LintArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl lint``."""

    files: Annotated[
        list[str] | None,
        Argument(
            "CONFIG",
            "Configuration files, - for standard input, or directories, which are searched for *.xml. "
            "Default: as for --config.",
            complete="file",
        ),
    ] = None
    select: Annotated[
        list[str] | None,
        declare_option(
            "--select", "-s", help="Report only these rules: a list of IDs, ID prefixes or titles.", metavar="RULES"
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        declare_option(
            "--ignore", "-i", help="Do not report these rules; takes precedence over --select.", metavar="RULES"
        ),
    ] = None
    severity: Annotated[
        str, declare_option("--severity", help="Minimum severity to report.", choices=("error", "warning", "info"))
    ] = "info"
    strict: Annotated[
        bool, declare_option("--strict", help="Exit with status 1 for any finding, not only for errors.")
    ] = False
    define: Define = None
    fragment: Annotated[
        bool, declare_option("--fragment", help="The files may be parts that another file includes.")
    ] = False
    format: Annotated[
        str,
        declare_option("--format", "-F", help="Output format of findings.", choices=FINDING_FORMATS, document=True),
    ] = "text"
    explain: Annotated[
        str | None,
        declare_option("--explain", help="Show the documentation of a rule: an ID, code or title.", metavar="RULE"),
    ] = None
    list_rules: Annotated[bool, declare_option("--list", help="List the selected rules.")] = False
    fix: Annotated[bool, declare_option("--fix", help="Fix findings that have one safe fix, then report the rest.")] = (
        False
    )
    diff: Annotated[bool, declare_option("--diff", help="Print the changes that --fix would make; change nothing.")] = (
        False
    )


def run(invocation: Invocation, arguments: LintArguments) -> int:
    """Report errors, warnings and advice about configurations.

    Findings are printed to standard output by file, the count to standard error. For the rules, and the comments that
    disable them in a file, see sowctl-lint(7). The exit status is 0 if there are no errors (with --strict: no
    findings), 1 if there are or --explain knows no such rule, 4 if a file could not be read (the others are still
    checked), and 2 for an unknown rule in --select or --ignore or for a directory without *.xml.

    --fix changes only the text of a finding and keeps comments and indentation; sowctl-lint(7) lists the fixes. With
    --diff, the exit status is 1 if there are changes.
    """
    from sowctl.config.lint import choose_rules, lint_files
    from sowctl.findings import Level as Levels

    if arguments.explain is not None:
        return _explain_rule(invocation, arguments.explain, as_json=arguments.format == DOCUMENT)
    rules = choose_rules(arguments.select or (), arguments.ignore or ())
    if arguments.list_rules:
        return _list_rules(invocation, rules, arguments.format)
    from sowctl.cli.configuration import find_main_file, parse_defines

    inputs = (
        # A directory selects the files in it.
        [(Path(file), None) if Path(file).is_dir() else find_main_file(invocation, file) for file in arguments.files]
        if arguments.files
        else [find_main_file(invocation, None)]
    )

    def look(paths: Sequence[Path], given: Mapping[str, bytes], least: Level) -> Iterator[Linted]:
        return lint_files(
            paths,
            given=given,
            environment=invocation.environ,
            defines=parse_defines(arguments.define),
            fragment=arguments.fragment,
            rules=rules,
            least=least,
        )

    paths, least = [path for path, _ in inputs], Levels[arguments.severity.upper()]
    if arguments.diff and arguments.format == DOCUMENT:
        raise UsageError("SOW-CLI-012", "--diff and --json exclude each other", hint="give one of them")
    if arguments.fix or arguments.diff:
        from sowctl.cli.commands.bodies.fix import fix_files, refuse_standard_input

        refuse_standard_input(arguments.files or ())
        # Directories select the files in them, as without --fix.
        each = [result.path for result in look(paths, {}, least) if result.readable]

        def judge(path: Path, content: bytes) -> Sequence[Finding]:
            return next(look([path], {str(path): content}, least)).findings

        changed = fix_files(invocation, each, judge, write=not arguments.diff)
        if arguments.diff:
            return 1 if changed else 0
    linted = look(paths, {str(path): content for path, content in inputs if content is not None}, least)
    return _show_findings(invocation, linted, arguments.format, Levels.INFO if arguments.strict else Levels.ERROR)


def _show_findings(invocation: Invocation, linted: Iterable[Linted], format: str, failing: Level) -> int:
    """Write the findings of all files and their count; return the exit status."""
    from sowctl.cli.io.report_output import write_findings, write_findings_document

    results: list[Linted] = []

    def findings() -> Iterator[Finding]:
        for result in linted:
            results.append(result)
            yield from result.findings

    if format == DOCUMENT:
        tally = write_findings_document(invocation, findings(), lambda _: {"files": len(results)})
    else:
        tally = write_findings(invocation, findings(), format)
    invocation.note(f"{tally} in {len(results)} {'file' if len(results) == 1 else 'files'}")
    # Checked last, so that one unreadable file does not hide the findings of the others.
    if not all(result.readable for result in results):
        return 4
    return 1 if any(level >= failing for level in tally.counts) else 0


def _explain_rule(invocation: Invocation, word: str, *, as_json: bool) -> int:
    from sowctl.config.rules.pages import format_page
    from sowctl.config.rules.table import find_rule, suggest_rule

    rule = find_rule(word)
    if rule is None:
        raise NegativeError("SOW-CLI-028", f"unknown rule {word}", hint=suggest_rule(word) or "sowctl lint --list")
    if as_json:
        from sowctl.values.jsonline import format_json_line

        row = _build_rule_row(rule) | {"text": format_page(rule)}
        invocation.streams.stdout.write(format_json_line(row).encode() + b"\n")
        return 0
    import textwrap

    from sowctl.cli.parsing.helptext import choose_columns

    width = choose_columns(invocation.streams) if is_terminal(invocation.streams.stdout) else 100
    lines = [textwrap.fill(line, width, subsequent_indent="  ") for line in format_page(rule).splitlines()]
    invocation.streams.stdout.write("\n".join(lines).rstrip().encode() + b"\n")
    return 0


def _build_rule_row(rule: Rule) -> dict[str, str | None]:
    from sowctl.config.problems import find_error_code
    from sowctl.config.rules.pages import format_severity

    return {
        "rule": rule.id,
        "code": find_error_code(rule.id),
        "severity": format_severity(rule),
        "title": rule.title,
        "path": rule.element,
    }


def _list_rules(invocation: Invocation, chosen: frozenset[str], format: str) -> int:
    from sowctl.config.rules.pages import format_severity
    from sowctl.config.rules.table import index_rules

    rules = [rule for rule in index_rules().values() if rule.id in chosen]
    rows = [_build_rule_row(rule) for rule in rules]
    if format == DOCUMENT:
        from sowctl.cli.io.report_output import write_rows_document

        write_rows_document(invocation, rows)
        return 0
    if format == "json":
        import json

        lines = [json.dumps(row) for row in rows]
    elif is_terminal(invocation.streams.stdout):
        from sowctl.cli.io.output_sink import Sink
        from sowctl.cli.parsing.options import OutputChoice
        from sowctl.output.options import TableFit

        Sink(invocation, OutputChoice("table")).write_rows(rows, TableFit(spare=("code",), paths=("path",)))
        return 0
    else:
        lines = [f"{rule.id:11} {format_severity(rule):16} {rule.title:32} {rule.element}" for rule in rules]
    invocation.streams.stdout.write("".join(f"{line}\n" for line in lines).encode())
    return 0
