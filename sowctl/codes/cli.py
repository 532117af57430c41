"""Codes of the command line itself, and of the formats of its output."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CLI-001": """2 unknown command

        Why: The command does not exist, or the word after a group such as ``journal``, ``store``, ``config`` or
        ``pipeline`` is not one of its commands.
        Do: Use the command in the hint; ``sowctl --help`` lists all commands.
        """,
    "SOW-CLI-002": """2 missing command

        Why: The command line has no command, or only the first of its two words.
        Do: Add the command, or ``--help`` for a list.
        """,
    "SOW-CLI-003": """2 invalid option or argument

        Why: The command does not have this option, an option has no value or an invalid one, or there are too
        few or too many arguments. Nothing was read or written.
        Do: Check ``COMMAND --help``; the hint names the closest option, including for names used by other
        tools.
        """,
    "SOW-CLI-004": """2 ambiguous configuration

        Why: No configuration was named, and the working directory has more than one of the default file names;
        or, in a program, ``sowctl.open`` was called with such a directory. A guess could change the wrong instance.
        Do: Name the configuration with ``--config`` or ``SOWCTL_CONFIG``; in a program, pass the path of the file.
        """,
    "SOW-CLI-005": """4 missing configuration

        Why: The command requires a configuration, none was named, and the working directory has none of the
        default file names; or, in a program, ``sowctl.open`` was called with such a directory.
        Do: Change to the directory of the instance, or use ``--config`` or ``SOWCTL_CONFIG``; in a program, pass
        the path of the file, or create an instance with ``sowctl.create``.
        """,
    "SOW-CLI-006": """2 invalid interval, or keyword argument out of range

        Why: The value of ``--lock-wait`` or of another option is not a time interval; or, in a program, an
        integer is out of range or a word is not one of the choices of its keyword. The message has the valid
        values.
        Do: Write an interval as a number with a unit, such as ``500ms`` or ``10s``; ``--lock-wait 0`` does not
        wait, ``forever`` waits without limit. For a keyword, use a value from the message.
        """,
    "SOW-CLI-007": """8 confirmation not possible

        Why: The command removes or replaces data and asks for confirmation, but standard input or standard
        error is not a terminal. Nothing was changed.
        Do: Check the effect with ``--dry-run``, then use ``--yes``.
        """,
    "SOW-CLI-008": """8 not confirmed

        Why: The answer to the confirmation prompt was not yes. Nothing was changed.
        Do: Run the command again and answer ``yes``, or use ``--yes``.
        """,
    "SOW-CLI-010": """2 invalid definition

        Why: ``--define`` sets a variable of the configuration and requires a name, an equals sign and a value.
        Do: Write ``NAME=VALUE``; the value may be empty.
        """,
    "SOW-CLI-011": """8 output file exists

        Why: The file named by ``--output``, or by ``topic.export`` in a program, exists; existing files are not
        replaced by default.
        Do: Name another file, or use ``--force`` (in a program ``overwrite=True``) to replace it atomically.
        """,
    "SOW-CLI-012": """2 conflicting options

        Why: Two options contradict each other, such as two record terminators or two output formats of a
        report.
        Do: Remove one of them.
        """,
    "SOW-CLI-013": """2 duplicate filter or instant

        Why: A filter was given both as an argument and as an option, or an instant both with ``--at`` and as
        ``bookmark`` in ``--options``.
        Do: Remove one of them.
        """,
    "SOW-CLI-014": """2 missing or conflicting selection for a delete

        Why: A delete requires exactly one of a filter, SOW keys, and messages with the keys. The meaning of a
        combination would be ambiguous.
        Do: Give one of them. To delete every record, use the filter ``1 = 1``.
        See: sowctl-delete(1)
        """,
    "SOW-CLI-015": """2 --until for live stores

        Why: ``--until`` was given for the live stores. A store that ends before acknowledged entries would show
        an old state as the current one.
        Do: Build stores with that state elsewhere with ``--into``, or compare with ``--verify``.
        See: sowctl-replay(1)
        """,
    "SOW-CLI-016": """2 invalid digest

        Why: The value of ``--expect`` is not a digest of 32 lowercase hexadecimal digits.
        Do: Copy the digest from the output of ``sowctl hash``.
        See: sowctl-hash(1)
        """,
    "SOW-CLI-017": """1 digest mismatch

        Why: The digest of the topic differs from the value of ``--expect``. The command itself worked.
        Do: Compare digests at earlier instants (``--at``) to find when the states diverged.
        See: sowctl-hash(1)
        """,
    "SOW-CLI-018": """2 invalid or empty range

        Why: A range of a journal dump must be one number, or two numbers separated by a colon, counted from 1;
        the second must not be smaller than the first.
        Do: Write a range as ``1000:1010``; a single ``10`` means the first ten with ``--limit``, and one txid
        with ``--txid``.
        See: sowctl-journal-dump(1)
        """,
    "SOW-CLI-019": """8 demo directory not empty

        Why: ``sowctl demo`` requires a new or empty directory.
        Do: Name a directory that does not exist yet.
        See: sowctl-demo(1)
        """,
    "SOW-CLI-020": """10 no such manual page

        Why: No command and no installed page has this name.
        Do: ``sowctl man`` lists the commands, and the other pages under SEE ALSO.
        See: sowctl-man(1)
        """,
    "SOW-CLI-022": """2 invalid number

        Why: The value of the option is not a valid size or time interval.
        Do: Write a number with one of the units in the hint; the message names the option.
        """,
    "SOW-CLI-023": """2 ambiguous topic

        Why: The target is a pattern that matches several topics, but the command requires a single topic.
        Do: Give the full name of one of the topics in the message.
        """,
    "SOW-CLI-024": """2 file instead of a topic

        Why: The command requires the definition of a topic, which a store file does not have.
        Do: Name the topic, with ``--config`` if the configuration is elsewhere.
        """,
    "SOW-CLI-025": """2 invalid SOW key

        Why: The value of ``--key`` is not an integer from 0 to 2^64-1.
        Do: ``sowctl query TOPIC --meta`` prints the keys; ``sowctl key`` computes them from messages.
        See: sowctl-journal-dump(1)
        """,
    "SOW-CLI-026": """2 unknown message type

        Why: The message type is neither built in nor defined in the configuration.
        Do: Use one of the types in the hint, or name the configuration that defines the type.
        See: sowctl-messages(7)
        """,
    "SOW-CLI-027": """1 no such function

        Why: Neither the expression language nor a module of the configuration has a function with this name.
        Do: ``sowctl functions`` lists all functions; with ``--config``, also those of modules.
        See: sowctl-functions(1)
        """,
    "SOW-CLI-028": """1 no such rule

        Why: No rule has this ID, code or title.
        Do: ``sowctl lint --list`` lists all rules.
        See: sowctl-lint(7)
        """,
    "SOW-CLI-031": """2 --analyze without --explain

        Why: ``--analyze`` adds measurements of a run to the query plan, which is printed only with
        ``--explain``.
        Do: Add ``--explain``.
        See: sowctl-query(1)
        """,
    "SOW-CLI-032": """2 missing selection of subscriptions

        Why: Without a selection, the command would remove all subscriptions of the bookmark store, with their
        positions.
        Do: Name a client or a subscription ID, or use ``--all``.
        """,
    "SOW-CLI-033": """2 missing option for a bookmark store

        Why: Client, subscription ID and ``--commit`` require a bookmark store; ``--ack`` and ``--commit-every``
        require ``--commit``.
        Do: Add the option in the hint.
        """,
    "SOW-CLI-034": """1 no such element

        Why: No configuration element has this name or ends with this path.
        Do: ``sowctl config schema`` lists all elements; names are case-sensitive.
        See: sowctl-config-schema(1)
        """,
    "SOW-CLI-035": """8 configuration exists

        Why: ``config init`` and, in a program, ``sowctl.create`` create only new files, so that no existing
        configuration is lost.
        Do: Name another file, or ``-`` for standard output. In a program, open the instance with ``sowctl.open``,
        or pass ``exist_ok=True``.
        See: sowctl-config-init(1)
        """,
    "SOW-CLI-036": """2 incomplete answers

        Why: ``config init`` asks for topics on a terminal, and the input ended early.
        Do: Answer all questions, or use ``--topic``.
        See: sowctl-config-init(1)
        """,
    "SOW-CLI-102": """2 invalid command line in the shell

        Why: A line of ``sowctl shell`` has an unquoted special character of a shell (``|``, ``>``, ``;``, ``&``
        and others), or an unterminated quotation.
        Do: Quote filters and messages.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-103": """2 shell within the shell

        Why: The command ``shell`` cannot be run in ``sowctl shell``.
        Do: Leave the shell with ``exit`` first.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-104": """12 missing package for the interactive shell

        Why: Line editing, completion and history of ``sowctl shell`` require prompt_toolkit, which is not
        installed.
        Do: Install ``sowctl[tui]``, or read the commands from a pipe or a file.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-037": """2 --verify without --to

        Why: ``--verify`` reads an archive at a URL, which ``--to`` names.
        Do: Add ``--to URL``. For local files, use ``sowctl journal check``.
        See: sowctl-journal-archive(1)
        """,
    "SOW-CLI-038": """2 archive of another journal

        Why: ``--archive`` names the archive of the configured journal, but ``--journal`` names another journal.
        Do: Remove one of them. An archive at a URL can be read alone with ``--journal URL``.
        See: sow-archive(5)
        """,
    "SOW-CLI-098": """2 nothing to complete, or two things

        Why: ``completion`` prints either the script of a shell or, with ``--names``, the names for a script.
        Do: Give one of the two.
        See: sowctl-completion(1)
        """,
    "SOW-CLI-097": """2 unsupported option with --follow

        Why: ``query --follow`` prints payloads as they arrive and cannot count, project or format them.
        Do: Remove the other option, or use ``sowctl subscribe``.
        See: sowctl-subscribe(1)
        """,
    "SOW-CLI-092": """2 unknown code

        Why: An argument of ``sowctl explain`` is not an error code, a lint rule, or a prefix of codes.
        Do: Use one of the codes in the hint; ``sowctl explain`` without arguments lists the areas.
        See: sowctl-explain(1)
        """,
    "SOW-CLI-040": """2 delta option without deltas

        Why: ``--update-only`` and ``--delta-null`` control the merging of deltas, but no deltas are published.
        Do: Add ``--delta``, or publish envelopes with the command ``delta_publish``.
        See: sowctl-publish(1)
        """,
    "SOW-CLI-060": """6 operating system error

        Why: A file or directory could not be opened, read or written: missing permission, full disk, missing
        directory or device error, as the message says. When publishing, the message also says which messages
        are durable.
        Do: Fix the cause and run the command again.
        """,
    "SOW-CLI-061": """5 process killed while reading a store

        Why: A damaged page of a memory-mapped store refers to an invalid address, and the process was killed by
        a signal. The store is damaged; this is not a bug of the query.
        Do: ``sowctl check`` reads each store in a separate process and finds the damaged one; ``sowctl replay``
        rebuilds it from the journals.
        See: sow-store(5)
        """,
    "SOW-CLI-062": """10 no such input file

        Why: An input file does not exist. With several input files, nothing is published unless all of them
        exist.
        Do: Correct the path; ``-`` is standard input.
        """,
    "SOW-CLI-063": """7 not enough memory

        Why: The operating system, or a limit such as that of a container or ``ulimit -v``, gave the program no more
        memory. Everything that was reported as durable is durable.
        Do: Allow more memory, or process less at once: fewer fields, fewer groups, smaller messages.
        """,
    "SOW-CLI-070": """70 internal error

        Why: An unexpected error occurred in the program. Everything that was reported as durable is durable.
        Do: Report it with the command line and the output of the same command with ``--debug``.
        """,
    "SOW-CLI-075": """2 invalid NAME=VALUE pair

        Why: The value of the option has no equals sign, or no name before it.
        Do: Write ``NAME=VALUE``.
        See: sowctl-pipeline(1)
        """,
    "SOW-CLI-076": """2 journal range without --journal

        Why: ``--from`` and ``--to`` select journal entries, but records of topics are exported.
        Do: Add ``--journal``, or remove the range.
        See: sowctl-pipeline-export(1)
        """,
    "SOW-CLI-077": """2 incomplete or conflicting view definition

        Why: A view of the configuration was combined with a projection, grouping, join or filter; or the source
        is not a view, and the projection or grouping is missing.
        Do: Name only a view, or use ``--projection`` and ``--grouping`` with a topic.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-CLI-078": """2 argument is not UTF-8

        Why: Expressions, names and paths must be UTF-8. The usual cause is a terminal or a script with a legacy
        encoding.
        Do: Write the argument in UTF-8.
        """,
    "SOW-CLI-079": """2 invalid percentage

        Why: A percentage must be a number from 0 to 100.
        Do: Give a number from 0 to 100.
        """,
    "SOW-CLI-085": """2 invalid pattern

        Why: The pattern of ``--regex`` is empty, or rejected by PCRE2.
        Do: Correct the pattern at the position in the message. Escape special characters with a backslash.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-086": """2 topics with several message types

        Why: The topics given to ``journal search`` or ``journal tail`` have more than one message type.
        Do: Run the command for one message type at a time, or omit the types.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-087": """2 no topic with matching keys

        Why: ``--key`` is the text of key fields or a publisher's key, but none of the topics is configured with
        such keys.
        Do: Give the SOW key with ``--sow-key``, as printed by ``sowctl journal dump``.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-088": """2 unknown operation

        Why: ``--operation`` must be publish, delete or, for queues, ack, expire, requeue or begin.
        Do: Use one of these words.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-090": """2 configuration on standard input

        Why: Relative paths in a configuration are resolved against its directory, which standard input does not
        have.
        Do: Save the configuration to a file. ``validate``, ``lint`` and ``config show`` accept standard input.
        """,
    "SOW-CLI-091": """2 invalid environment variable

        Why: A ``SOWCTL_`` variable has a value that is invalid for its option.
        Do: Unset the variable, or use one of the values in the message.
        """,
    "SOW-CLI-093": """2 standard input cannot be fixed

        Why: ``lint --fix`` and ``--diff`` change files, but the configuration was read from standard input.
        Do: Name the file.
        See: sowctl-lint(7)
        """,
    "SOW-OUT-001": """2 invalid column

        Why: A column must be a path that begins with a slash, or the name of a metadata column. In Parquet, Arrow,
        SQLite and MessagePack output, no two columns may have the same name.
        Do: Write ``/price`` for a field of the message, ``sow_key`` for metadata. Name each column once.
        """,
    "SOW-OUT-002": """2 invalid delimiter

        Why: A numeric delimiter must be a byte value, at most 255.
        Do: Use a number from 0 to 255, or the text itself.
        """,
    "SOW-OUT-010": """2 unknown output format

        Why: There is no format with this name.
        Do: Use one of the formats in the hint.
        """,
    "SOW-OUT-011": """2 binary output to a terminal

        Why: The output format is binary, and standard output is a terminal, whose settings it could change.
        Do: Redirect the output to a pipe, or to a file with ``--output``.
        """,
    "SOW-OUT-012": """2 option not supported by the output format

        Why: The option applies to another output format, such as a template for csv.
        Do: Remove the option, or choose the format that it belongs to.
        """,
    "SOW-OUT-013": """3 too many fields for columns

        Why: The record has more than 16,384 top-level members, the maximum for table, csv, tsv and templates.
        Do: Choose fields with ``--columns`` or ``--select``, or use ``--format ndjson``.
        """,
    "SOW-OUT-014": """3 bytes are not UTF-8

        Why: Fields of fix and nvfix, and names of fields of bflat and msgpack, may have bytes that are not UTF-8. The
        output has U+FFFD instead, so different values may have become equal: published again, it is not the same data.
        Only export has this exit status; other commands print a warning, except in tables.
        Do: Add ``--meta`` and write NDJSON, JSON or MessagePack, which keep the bytes of every message; or correct the
        program that wrote them.
        See: sowctl-types(7)
        """,
    "SOW-OUT-020": """2 missing template

        Why: ``--format template`` requires ``--template``.
        Do: Add ``--template``, for example ``'{sow_key} {/price}'``.
        """,
    "SOW-OUT-021": """2 invalid template

        Why: A brace in the template neither opens nor closes a placeholder.
        Do: Double it to print a brace.
        """,
}
