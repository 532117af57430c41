"""Manual pages: made, found, shown.

In the order in which data passes: ``roff`` has a page as values and its one escape; ``commandpages`` (section 1, from
the table of commands), ``expressionpage`` and ``elementpage`` make pages; ``generators`` makes those of the error codes
and of the lint rules, lists all generators and writes the committed files (``python -m sowctl.cli.manual man/``).
``viewer`` finds and shows a page for ``sowctl man``, ``rofftext`` makes text of one where nothing on the machine does.
"""
