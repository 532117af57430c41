"""From argv to a call: which command is meant, and what its options say.

``table`` lists the commands; ``dispatch`` finds the word in it, ``loader`` imports that one module and its declarations
(``declarations``: how they are made; ``options``, ``queryoptions``: those that several commands share). ``arguments``
reads a plain command line, ``application`` every other one with Typer. ``option_values`` makes instants, lifetimes and
sizes of texts; ``codes`` finds the error codes that are meant; ``synonyms`` knows what other tools call things.
``helptext`` and ``overview`` are what --help prints.
"""
