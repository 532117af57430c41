"""Codes of the command line itself, and of the formats of its output."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CLI-001": """2 an unknown command

        Why: The word that should name a command names none, or the word behind ``journal``, ``store``, ``config`` or
        ``pipeline`` does not.
        Do: Take the command that the hint suggests; ``sowctl --help`` lists them all.
        """,
    "SOW-CLI-002": """2 no command

        Why: The command line ends before a command is named, or after the first of the two words that it takes.
        Do: Add the command, or ``--help`` for the list.
        """,
    "SOW-CLI-003": """2 an unknown option, or one that cannot be read

        Why: An option is not known to this command, lacks its value, has a value that it does not take, or an
        argument is missing or one too many. Nothing was read or written.
        Do: Compare with ``COMMAND --help``; the hint names the nearest option, also where another tool calls it
        otherwise.
        """,
    "SOW-CLI-004": """2 several configurations to choose from

        Why: No configuration was given, and the working directory has more than one of the names that are looked for.
        Guessing could change the wrong instance.
        Do: Say which one is meant with ``--config`` or ``SOWCTL_CONFIG``.
        """,
    "SOW-CLI-005": """4 no configuration

        Why: The command needs one, none was given, and the working directory has none of the usual names.
        Do: Go to the directory of the instance, or give ``--config`` or ``SOWCTL_CONFIG``.
        """,
    "SOW-CLI-006": """2 an interval that cannot be read, or a keyword's value out of its bounds

        Why: The value of ``--lock-wait`` or of another option is no length of time; or, in a program, a whole number
        lies outside the bounds of its keyword, or a word is none of the choices. The message names the bounds.
        Do: Write an interval as a number with a unit, such as ``500ms`` or ``10s``; ``--lock-wait 0`` does not wait,
        ``forever`` does. Give a number or word that the message names.
        """,
    "SOW-CLI-007": """8 a confirmation that cannot be asked for

        Why: The command removes or replaces something and asks first, but standard input or standard error is no
        terminal, so the question could not be answered. Nothing was changed.
        Do: Look with ``--dry-run`` what would happen, then give ``--yes``.
        """,
    "SOW-CLI-008": """8 not confirmed

        Why: The question was answered with something other than yes. Nothing was changed.
        Do: Run it again and answer ``yes``, or give ``--yes``.
        """,
    "SOW-CLI-010": """2 a definition without name or value

        Why: ``--define`` sets a variable of the configuration and needs a name, an equals sign and a value.
        Do: Write it as ``NAME=VALUE``; the value may be empty.
        """,
    "SOW-CLI-011": """8 an output file that is there already

        Why: ``--output`` names a file that exists, and it is never replaced unasked.
        Do: Name another file, or give ``--force``; the new file takes its place as a whole.
        """,
    "SOW-CLI-012": """2 options that exclude each other

        Why: Two options were given that say different things about the same output: two ways to end a record, or a
        report in two forms.
        Do: Keep one of them.
        """,
    "SOW-CLI-013": """2 the same thing asked for twice

        Why: A filter was given both as an argument and as an option, or an instant both with ``--at`` and as the
        option ``bookmark`` of ``--options``.
        Do: Keep one of them.
        """,
    "SOW-CLI-014": """2 no selector of what to delete, or several

        Why: A delete takes exactly one of a filter, SOW keys and messages with their keys. Several at once could mean
        either or both.
        Do: Give one. Every record is meant only by a filter that says so, ``1 = 1``.
        See: sowctl-delete(1)
        """,
    "SOW-CLI-015": """2 a bound that would set stores back

        Why: ``--until`` was given for the live stores. A store that stands before acknowledged entries would show an
        old state as the present one.
        Do: Build the stores of that moment somewhere else with ``--into``, or compare with ``--verify``.
        See: sowctl-replay(1)
        """,
    "SOW-CLI-016": """2 a digest that cannot be read

        Why: The value of ``--expect`` has not the form of a digest, 32 hexadecimal digits in small letters.
        Do: Copy it from the output of ``sowctl hash``.
        See: sowctl-hash(1)
        """,
    "SOW-CLI-017": """1 another digest than expected

        Why: The state of the topic is not the one whose digest was given with ``--expect``. The command worked; the
        answer is no.
        Do: Compare with the digest at an instant (``--at``) to find when the states parted.
        See: sowctl-hash(1)
        """,
    "SOW-CLI-018": """2 a range that cannot be read, or that is empty

        Why: A bound of a journal dump is neither one number nor two with a colon between them, counted from 1; or the
        second number is smaller than the first.
        Do: Write ``1000:1010`` for a stretch; ``10`` is the first ten with ``--limit``, and one txid with ``--txid``.
        See: sowctl-journal-dump(1)
        """,
    "SOW-CLI-019": """8 a place for the demo that is not empty

        Why: ``sowctl demo`` makes a new directory or fills an empty one, and touches nothing else.
        Do: Name a directory that does not exist yet.
        See: sowctl-demo(1)
        """,
    "SOW-CLI-020": """10 no such manual page

        Why: No command and no installed page has this name.
        Do: ``sowctl man`` lists the commands and, under SEE ALSO, the other pages.
        See: sowctl-man(1)
        """,
    "SOW-CLI-022": """2 a number that cannot be read

        Why: The value of an option is not the size or the length of time that the option takes.
        Do: The message names the option; write a number with one of the units in the hint.
        """,
    "SOW-CLI-023": """2 a name that means several topics

        Why: The target is a pattern that matches several topics, and this command works on one.
        Do: Give the full name of one of the topics in the message.
        """,
    "SOW-CLI-024": """2 a file where a topic is needed

        Why: The command needs the topic's definition, which a bare store file does not have.
        Do: Name the topic, with ``--config`` where the configuration is elsewhere.
        """,
    "SOW-CLI-025": """2 a SOW key that cannot be read

        Why: The value of ``--key`` is no whole number below 2 to the power of 64.
        Do: ``sowctl query TOPIC --meta`` shows the keys; ``sowctl key`` computes them from messages.
        See: sowctl-journal-dump(1)
        """,
    "SOW-CLI-026": """2 an unknown message type

        Why: The type given for an evaluation is neither built in nor defined by the configuration that was given.
        Do: Take one of those that the hint names, or give the configuration that defines it.
        See: sowctl-messages(7)
        """,
    "SOW-CLI-027": """1 no such function

        Why: The expression language has no function of this name, and no module of the configuration adds one.
        Do: ``sowctl functions`` lists all; with ``--config`` those of modules too.
        See: sowctl-functions(1)
        """,
    "SOW-CLI-028": """1 no such rule

        Why: No rule has this id, code or title.
        Do: ``sowctl lint --list`` shows all of them.
        See: sowctl-lint(7)
        """,
    "SOW-CLI-031": """2 measurements without a plan

        Why: ``--analyze`` adds to the plan of a query what running it measured, and no plan was asked for.
        Do: Add ``--explain``.
        See: sowctl-query(1)
        """,
    "SOW-CLI-032": """2 subscriptions to forget that are not said

        Why: Forgetting every subscription of a store by an option that was left out would cost their places.
        Do: Name a client or a subscription id, or give ``--all``.
        """,
    "SOW-CLI-033": """2 options of a bookmark store that do not go together

        Why: Client, subscription id and ``--commit`` are about a bookmark store, and ``--ack`` and ``--commit-every``
        about storing a place in it.
        Do: Add the option that the hint names.
        """,
    "SOW-CLI-034": """1 no such element

        Why: No element of a configuration has this name or ends with this path.
        Do: ``sowctl config schema`` lists them; letter case counts.
        See: sowctl-config-schema(1)
        """,
    "SOW-CLI-035": """8 a configuration that is there already

        Why: ``config init`` writes new files only: an existing configuration may hold work that is nowhere else.
        Do: Name another file, or ``-`` for standard output.
        See: sowctl-config-init(1)
        """,
    "SOW-CLI-036": """2 too few answers

        Why: ``config init`` asks for topics on a terminal, and the input ended before it had them.
        Do: Answer all questions, or give ``--topic``.
        See: sowctl-config-init(1)
        """,
    "SOW-CLI-102": """2 a line that is no command

        Why: A line of ``sowctl shell`` has a character that a shell would act on (``|``, ``>``, ``;``, ``&`` and
        others) outside of quotation marks, or a quotation that does not end.
        Do: Put filters and messages into quotation marks.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-103": """2 a shell within the shell

        Why: ``shell`` is the one command that the shell does not run.
        Do: Leave the shell with ``exit`` first.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-104": """12 a terminal without its package

        Why: Editing, completion and history of ``sowctl shell`` need prompt_toolkit, which is not installed.
        Do: Install ``sowctl[tui]``, or give the commands from a pipe or a file.
        See: sowctl-shell(1)
        """,
    "SOW-CLI-037": """2 a look at an archive that is not named

        Why: ``--verify`` reads an archive at a URL, and there is none without ``--to``.
        Do: Add ``--to URL``. What lies here is read by ``sowctl journal check``.
        See: sowctl-journal-archive(1)
        """,
    "SOW-CLI-038": """2 an archive of another journal

        Why: ``--archive`` says where older files of the configured journal lie, and ``--journal`` names another one.
        Do: Leave one of them out. An archive at a URL is read by itself with ``--journal URL``.
        See: sow-archive(5)
        """,
    "SOW-CLI-098": """2 nothing to complete, or two things

        Why: ``completion`` prints the script of one shell, or with ``--names`` the names that a script asks for.
        Do: Give one of both.
        See: sowctl-completion(1)
        """,
    "SOW-CLI-097": """2 a followed query with another shape

        Why: ``query --follow`` prints payloads as they come, and cannot count, project or format them otherwise.
        Do: Leave the other option out, or use ``sowctl subscribe``.
        See: sowctl-subscribe(1)
        """,
    "SOW-CLI-092": """2 an unknown code

        Why: A word given to ``sowctl explain`` is no code of an error, no rule of lint, and no beginning of codes.
        Do: Take one of those that the hint suggests; ``sowctl explain`` without a word lists the areas.
        See: sowctl-explain(1)
        """,
    "SOW-CLI-040": """2 an option of deltas without deltas

        Why: ``--update-only`` and ``--delta-null`` say how deltas are merged, and no deltas are published.
        Do: Add ``--delta``, or publish envelopes with the command ``delta_publish``.
        See: sowctl-publish(1)
        """,
    "SOW-CLI-060": """6 the operating system refused

        Why: A file or directory could not be opened, read or written: permission, a full disk, a missing directory, a
        device error. The message says which. Where messages were being published, it also says which are durable.
        Do: Remove the cause, then run the command again.
        """,
    "SOW-CLI-061": """5 reading a store ended the process

        Why: Pages of a memory-mapped store lie about where others are, so that the process was stopped by a signal.
        That is damage, not a bug of the query.
        Do: ``sowctl check`` reads in a process of its own and says which store it is; ``sowctl replay`` rebuilds it
        from the journals.
        See: sow-store(5)
        """,
    "SOW-CLI-062": """10 no such input

        Why: A file that was named as an input is not there. Of several, nothing is published before all are found.
        Do: Correct the path; ``-`` stands for standard input.
        """,
    "SOW-CLI-070": """70 a bug of this program

        Why: Something happened that the program has no error for. What was reported as durable stays so.
        Do: Report it with the command line and the output of the same command with ``--debug``.
        """,
    "SOW-CLI-075": """2 a setting without name or value

        Why: An option that takes pairs got a text without an equals sign or without a name before it.
        Do: Write it as ``NAME=VALUE``.
        See: sowctl-pipeline(1)
        """,
    "SOW-CLI-076": """2 bounds of journal entries without a journal

        Why: ``--from`` and ``--to`` choose entries of the journal, and records of topics were asked for.
        Do: Add ``--journal``, or leave the bounds out.
        See: sowctl-pipeline-export(1)
        """,
    "SOW-CLI-077": """2 a view that is not fully said

        Why: The source is a view of the configuration and was given a projection, grouping, join or filter of its own
        as well; or it is no view, and projection or grouping are missing.
        Do: Name a view alone, or give ``--projection`` and ``--grouping`` over a topic.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-CLI-078": """2 an argument that is not UTF-8

        Why: Expressions, names and paths are UTF-8, and an argument has other bytes: mostly a terminal or a script in
        an older encoding.
        Do: Write the argument in UTF-8.
        """,
    "SOW-CLI-079": """2 a number that is no percentage

        Why: A share is given in percent, from 0 to 100.
        Do: Give a number from 0 to 100.
        """,
    "SOW-CLI-085": """2 a pattern that is none

        Why: The pattern of ``--regex`` is empty, or PCRE2 refuses it.
        Do: Correct it where the message points. Characters with a meaning of their own need a backslash.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-086": """2 topics of several message types

        Why: ``journal search`` or ``journal tail`` is given topics of more than one message type.
        Do: Ask for them one after the other, or leave the types out.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-087": """2 no key that could have such a text

        Why: ``--key`` takes the text of key fields, or a publisher's key, and none of the topics that are searched has
        keys of this kind in the configuration.
        Do: Give the SOW key with ``--sow-key``, as ``sowctl journal dump`` shows it.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-088": """2 no operation of an entry

        Why: ``--operation`` takes what entries do: publish, delete, and of queues ack, expire, requeue, begin.
        Do: Give one of these words.
        See: sowctl-journal-search(1)
        """,
    "SOW-CLI-090": """2 a configuration on standard input

        Why: Relative paths in a configuration count from its directory, which standard input does not have.
        Do: Save it to a file. ``validate``, ``lint`` and ``config show`` read one from standard input.
        """,
    "SOW-CLI-091": """2 an environment variable with a value that does not fit

        Why: One of the ``SOWCTL_`` variables holds a word that its option would not take.
        Do: Unset the variable, or give it one of the words in the message.
        """,
    "SOW-CLI-093": """2 standard input that would be mended

        Why: ``lint --fix`` and ``--diff`` change files, and what came through a pipe is none.
        Do: Name the file.
        See: sowctl-lint(7)
        """,
    "SOW-OUT-001": """2 a column that cannot be read

        Why: A column is neither a path that begins with a slash nor one of the names of metadata.
        Do: Write ``/price`` for a field of the message, ``sow_key`` for metadata.
        """,
    "SOW-OUT-002": """2 a delimiter that is no byte

        Why: The delimiter was given as a number, and a byte is at most 255.
        Do: Give a number from 0 to 255, or the text itself.
        """,
    "SOW-OUT-010": """2 an unknown output format

        Why: There is no format of this name.
        Do: Take one of those in the hint.
        """,
    "SOW-OUT-011": """2 bytes for a terminal

        Why: The format is not text, and standard output is a terminal, which it could set to strange states.
        Do: Send the output into a pipe, or to a file with ``--output``.
        """,
    "SOW-OUT-012": """2 an option of another output format

        Why: An option was given that the chosen format does not know, such as a template for csv.
        Do: Leave the option out, or choose the format that it belongs to.
        """,
    "SOW-OUT-013": """3 a record with too many members for columns

        Why: The record has more first-level members than a table, csv or tsv can have columns, or a template fields to
        choose from: 16,384.
        Do: Choose fields with ``--columns`` or ``--select``, or take ``--format ndjson``.
        """,
    "SOW-OUT-020": """2 a template format without template

        Why: ``--format template`` prints what ``--template`` says, which is missing.
        Do: Add ``--template``, such as ``'{sow_key} {/price}'``.
        """,
    "SOW-OUT-021": """2 a template that cannot be read

        Why: A brace in the template neither opens nor closes a placeholder.
        Do: Double it for a literal brace.
        """,
}
