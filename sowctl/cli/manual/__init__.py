"""Generating, finding and showing manual pages. ``python -m sowctl.cli.manual man/`` writes the committed files.

* ``roff``: a manual page as data, written as roff or as plain text.
* ``commandpages``: the pages of section 1, from the table of commands.
* ``expressionpage``: sowctl-expressions(7).
* ``elementpage``: the tables of elements in sow-config(5).
* ``generators``: the list of these generators; writing their pages.
* ``viewer``: finding and formatting a page for ``sowctl man``.
* ``rofftext``: the source of a page as plain text if no roff formatter is installed.
"""
