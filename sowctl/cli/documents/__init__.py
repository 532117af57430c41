"""The JSON that commands print with ``--json``: one declaration per command.

Used for the section JSON of the command's page and its JSON Schema; a test checks real outputs against it.

* ``shapes``: objects as Structs, derived from the reports of the engine or declared member by member
* ``meanings``: the meanings of members, the same in all documents
* ``table``: the documents of each command
* ``description``: a document as JSON Schema and as lines for a page
"""
