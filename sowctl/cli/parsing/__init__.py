"""From argv to a call: which command is meant, and the values of its options.

* ``table``: the table of commands: name, module, summary, group.
* ``dispatch``: from argv to the command's function, and the call.
* ``loader``: importing one command with its declarations.
* ``declarations``: declaring the options and arguments of a command.
* ``options``: options that several commands share.
* ``queryoptions``: options of queries.
* ``replayoptions``: options for the beginning, pace and stored position of subscriptions.
* ``arguments``: reading plain command lines without Typer.
* ``application``: reading all other command lines with Typer.
* ``option_values``: option texts to instants, txids, keys, lifetimes and sizes.
* ``codes``: error codes given as operands.
* ``synonyms``: the words of other tools, and the nearest known word for a wrong one.
* ``helptext``: the text of ``sowctl COMMAND --help``.
* ``overview``: the text of ``sowctl --help`` and ``sowctl --version``.
"""
