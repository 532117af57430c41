"""The section 1 manual pages, generated from the table of commands and their declarations.

``sowctl man`` generates them on demand; ``generators.py`` writes the committed files.
"""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

from sowctl.cli.manual.roff import (
    Items,
    ManualPage,
    Paragraph,
    Section,
    Subheading,
    Verbatim,
    format_roff,
    format_sentence,
)
from sowctl.cli.parsing.codes import EXIT_STATUSES
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS, GLOBAL_VARIABLES
from sowctl.cli.parsing.helptext import format_old_names, format_usage, group_by_panel
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.options import FORMATS
from sowctl.cli.parsing.overview import EXAMPLES, PROGRAM_SUMMARY
from sowctl.cli.parsing.parameters import Parameter
from sowctl.cli.parsing.table import COMMANDS, GROUPS, Command
from sowctl.declarations import Argument, Option
from sowctl.version import RELEASE_DATE, VERSION

PAGE_SOURCE = f"sowctl {VERSION}"
ENVIRONMENT_ITEMS = (
    *(
        (name, f"The value of --{option.replace('_', '-')}, where it is not given.")
        for option, name in GLOBAL_VARIABLES.items()
    ),
    (
        "SOWCTL_CLIENT",
        "The client that is recorded with what is published and deleted where no client is named; it has no sequence "
        "numbers. With publish --sequence, the value of --client.",
    ),
    ("NO_COLOR", "If not empty: no colours. TERM=dumb does the same."),
    ("CLICOLOR_FORCE, FORCE_COLOR", "If neither empty nor 0: colours also where there is no terminal."),
    (
        "SOWCTL_PAGER, PAGER",
        "The command that shows tables and differences that are longer than the terminal: the first that is set; less, "
        "with $LESS or else the options FRX, where none is. Empty or cat: no pager. Only a terminal is paged. Who "
        "leaves the pager before the end ends the command, with status 0, or 1 where diff has found something.",
    ),
    ("COLUMNS", "The width of tables on a terminal."),
    ("LC_ALL, LC_CTYPE, LANG", "The encoding of the terminal. Output that goes elsewhere never depends on them."),
)
FILE_ITEMS = (
    ("sowctl.xml, amps.xml, config.xml", "The configuration, where one of them alone is in the working directory."),
    ("NAME.sow", "A store: the last message per key of one topic; see sow-store(5)."),
    ("INSTANCE.NNNNNNNNNN.journal", "A file of the transaction log; see sow-journal(5)."),
)
RELATED_PAGES = (
    "sow-config(5), sow-store(5), sow-journal(5), sowctl-behaviour(7), sowctl-changes(7), sowctl-errors(7), "
    "sowctl-expressions(7), sowctl-guarantees(7), sowctl-howto(7), sowctl-lint(7), sowctl-messages(7), "
    "sowctl-plugins(7), sowctl-python(7), sowctl-security(7), sowctl-spark(7), sowctl-tutorial(7), sowctl-types(7)"
)


def build_main_page() -> ManualPage:
    """``sowctl(1)``."""
    commands: list[Subheading | Items] = []
    for group in GROUPS:
        members = [command for command in COMMANDS if command.group == group]
        commands += [Subheading(group), Items(tuple((c.name, format_sentence(c.summary)) for c in members))]
    statuses = Items(tuple((str(status), words) for status, words in EXIT_STATUSES))
    sections = (
        Section("NAME", (Paragraph(f"sowctl - {PROGRAM_SUMMARY}"),)),
        Section("SYNOPSIS", (Paragraph("sowctl [OPTIONS] COMMAND [ARGUMENTS]..."),)),
        Section(
            "DESCRIPTION",
            (
                Paragraph(
                    "sowctl works on State-of-the-World stores: one file per topic with the last message per key, "
                    "beside an append-only transaction log. There is no server: every command works on the files, "
                    "in any number of processes at a time. The configuration defines topics and journals."
                ),
                Paragraph(
                    "Data goes to standard output, everything else to standard error. Records are printed as a table "
                    "on a terminal, otherwise as one JSON value per line; --format selects another format."
                ),
            ),
        ),
        Section("EXAMPLES", (Verbatim(EXAMPLES),)),
        Section("COMMANDS", tuple(commands)),
        Section(
            "OPTIONS",
            (Paragraph("Before or after the command alike:"), _build_option_items(GLOBAL_PARAMETERS), _HELP_ITEMS),
        ),
        Section("JSON", tuple(map(Paragraph, _JSON_TEXTS))),
        Section("EXIT STATUS", (statuses, Paragraph("Take any other status for a failure."))),
        Section("ENVIRONMENT", (Items(ENVIRONMENT_ITEMS),)),
        Section("FILES", (Items(FILE_ITEMS),)),
        Section("SEE ALSO", (Paragraph(", ".join(f"{c.page}(1)" for c in COMMANDS) + ", " + RELATED_PAGES),)),
    )
    return ManualPage("sowctl", 1, RELEASE_DATE, PAGE_SOURCE, sections)


_JSON_TEXTS = (
    "--json prints one document on standard output, an object or an array, also if there is nothing to report. A "
    "command that follows prints lines instead, each a JSON value. The section JSON of the command's page lists the "
    "members. Times are ISO 8601 texts in UTC with microseconds, sizes integers in bytes, and durations numbers in "
    "seconds, if the page does not say otherwise.",
    "--summary json adds a line of JSON with each report to standard output. --progress json prints events to standard "
    "error, about one per second, each a line with the members command, counted, done, total and seconds_left; jobs on "
    "Spark have members of their own.",
)
_HELP_ITEMS = Items(
    (
        ("--help, -h", "Show full help; -h shows short help."),
        ("--version, -V", "Show the version; with --json, also the versions of libraries."),
    )
)


def build_command_page(command: Command) -> ManualPage:
    """The page of one command."""
    loaded = load_command(command)
    own = [parameter for parameter in loaded.parameters if parameter not in GLOBAL_PARAMETERS]
    arguments = [parameter for parameter in own if isinstance(parameter.declared, Argument)]
    options = [parameter for parameter in own if isinstance(parameter.declared, Option)]
    text = cleandoc(loaded.run.__doc__ or "").split("\n\n")
    sections = [
        Section("NAME", (Paragraph(f"{command.page} - {command.summary}"),)),
        Section("SYNOPSIS", (Paragraph(format_usage(loaded)),)),
        Section("DESCRIPTION", tuple(Paragraph(" ".join(part.split())) for part in text)),
        Section("EXAMPLES", (Verbatim(loaded.examples),)),
    ]
    if arguments:
        items = tuple((p.declared.metavar, p.declared.help) for p in arguments)
        sections.append(Section("ARGUMENTS", (Items(items),)))
    for panel, members in group_by_panel(loaded.parameters).items():
        sections.append(Section(panel.upper(), (_build_option_items(tuple(members)),)))
    # Described on the page of each command with the option, so that no other page is needed.
    if any(p.declared.choices == FORMATS for p in options):
        sections += _build_format_sections(
            named=any(isinstance(p.declared, Option) and "--output" in p.declared.names for p in options)
        )
    has_summary = any(
        isinstance(p.declared, Option) and "--summary" in p.declared.names and p.declared.choices for p in options
    )
    sections += _build_json_sections(command.name, has_summary=has_summary)
    sections += [
        Section("EXIT STATUS", (Paragraph("See sowctl(1)."),)),
        Section("SEE ALSO", (Paragraph("sowctl(1), " + RELATED_PAGES),)),
    ]
    return ManualPage(command.page, 1, RELEASE_DATE, PAGE_SOURCE, tuple(sections))


def build_pages() -> tuple[ManualPage, ...]:
    """All pages of section 1."""
    return (build_main_page(), *map(build_command_page, COMMANDS))


def generate_pages(_: Path) -> dict[str, str]:
    """The pages by the names of their files."""
    return {f"{page.name}.{page.number}": format_roff(page) for page in build_pages()}


def _build_option_items(parameters: tuple[Parameter, ...]) -> Items:
    return Items(tuple(_format_option(parameter) for parameter in parameters))


def _format_option(parameter: Parameter) -> tuple[str, str]:
    declared = parameter.declared
    assert isinstance(declared, Option)
    value = ""
    if parameter.takes_value:
        value = " " + ("|".join(declared.choices) if declared.choices else declared.metavar)
    text = declared.help
    if default := parameter.format_default():
        text += f" The default is {default}."
    if parameter.required:
        text += " Required."
    text += format_old_names(parameter)
    return ", ".join(declared.names) + value, text


_FORM_TEXTS = {
    "object": "--json prints one object.",
    "array": "--json prints one array.",
    "lines": "--json prints lines, each a JSON value.",
}


def _build_json_sections(command: str, *, has_summary: bool) -> list[Section]:
    """Return the section on the output of ``--json``; none for a command without it.

    ``has_summary``: the section distinguishes it from the output of ``--summary json``.
    """
    from sowctl.cli.documents.description import iterate_members
    from sowctl.cli.documents.table import list_documents

    documents = list_documents(command)
    blocks: list[Subheading | Paragraph | Items] = []
    described: list[object] = []
    for document in documents:
        if document.condition:
            blocks.append(Subheading(f"With {document.condition}"))
        text = _FORM_TEXTS[document.form]
        members = tuple(iterate_members(document.element))
        if members in described:
            blocks.append(Paragraph(f"{text} The members are those above."))
            continue
        if members:
            described.append(members)
            element = {"object": "It has", "array": "Each element has", "lines": "Each has"}[document.form]
            text += f" {element} these members:"
        blocks.append(Paragraph(f"{text} {document.text}".rstrip()))
        if members:
            items = (
                (one.name, f"{one.type_text[0].upper()}{one.type_text[1:]}. {one.meaning}".rstrip()) for one in members
            )
            blocks.append(Items(tuple(items)))
    if blocks and has_summary:
        blocks.append(Subheading("Events"))
        blocks.append(
            Paragraph(
                "--summary json and --progress json do not print a document: the first adds a line with each report to "
                "standard output, the second prints events to standard error while the command runs."
            )
        )
    return [Section("JSON", tuple(blocks))] if blocks else []


def _build_format_sections(*, named: bool) -> list[Section]:
    from sowctl.output.exports import ENDINGS
    from sowctl.output.formats import FORMATS as TABLE
    from sowctl.output.options import COLUMN_NAMES

    names = ", ".join(COLUMN_NAMES)
    items = Items(tuple((line.name, format_sentence(line.summary)) for line in TABLE))
    text = f"Columns and templates know paths such as /price or [/odd, name], and these names: {names}."
    endings = ", ".join("." + name for ending in ENDINGS for name in ending.names)
    by_name = (
        f"Without --format, the ending of the --output file gives the format: {endings}. An additional .gz or .zst "
        "compresses text formats. .arrow, .feather and .ipc are Arrow files, .arrows and other names with --format "
        "arrow are streams. If --format is another format than that of the ending, --format wins, and a note says so."
    )
    halves = (
        "Half a surrogate pair in a JSON text, such as \\ud800, has no bytes: ndjson, json and raw keep its escape, "
        "and all other formats write the escape as a text."
    )
    return [
        Section("OUTPUT FORMATS", (items, *([Paragraph(by_name)] if named else []), Paragraph(text), Paragraph(halves)))
    ]
