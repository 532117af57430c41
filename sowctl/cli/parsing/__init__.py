"""From argv to a call: finding the command, and parsing the values of its options.

* ``table``: the table of commands: name, module, summary, group.
* ``dispatch``: from argv to the command's function, and the call.
* ``loader``: importing one command with its declarations.
* ``parameters``: the options and operands that the Struct of a command declares, and building it from their values.
* ``options``: options that several commands share.
* ``global_options``: the parameters of the global options, and their environment variables.
* ``stats_options``: options of statistics.
* ``place_options``: options for the stored position of subscriptions.
* ``arguments``: reading plain command lines without Typer.
* ``application``: reading all other command lines with Typer.
* ``option_values``: option texts to instants, txids, keys, lifetimes and sizes.
* ``codes``: error codes given as operands.
* ``synonyms``: the words of other tools, and the nearest known word for an unknown one.
* ``helptext``: the text of ``sowctl COMMAND --help``.
* ``overview``: the text of ``sowctl --help`` and ``sowctl --version``.
"""
