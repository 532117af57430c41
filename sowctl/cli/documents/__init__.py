"""The JSON that commands print with ``--json``: one declaration per command.

From it come the section JSON of the command's page and its JSON Schema, and a test holds real outputs to it.

* ``shapes``: objects as Structs, derived from the reports of the engine or declared member by member
* ``meanings``: what a member means, the same in all documents
* ``table``: the documents of each command
* ``description``: a document as JSON Schema and as lines for a page
"""
