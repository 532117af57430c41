"""The command line: argv in, an exit status out; the only room that prints.

In the order in which a run passes: ``main`` is the entry and holds the one error boundary (``boundary``: what ended a
run, in words; ``crash``: what to say where damaged pages end the process). ``context`` has what a command is given
besides its options, ``streams`` among it. ``words/`` finds the command in the table and reads its options,
``commands/`` has one file per command, ``io/`` brings messages in and records out, ``manual/`` makes and shows the
pages. ``configuring`` and ``lookup`` say which configuration, topics and records the words of a command line mean.
"""
