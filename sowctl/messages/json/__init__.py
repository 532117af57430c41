"""Message type ``json``, in the order in which payloads pass.

* ``type``: the message type, which the rest of the program calls.
* ``plan``: the plan of the fast reader for a set of paths.
* ``rows``: decoded values to slot values and key texts.
* ``fast_reader``: many payloads at once through msgspec.
* ``batch``: payloads of a batch, and which of them the fast reader must not read.
* ``template_match``: many payloads of one template at once, by one regular expression.
* ``template``: the template of a message: constant bytes, and slots between them.
* ``digits``: numbers from a text, many at once.
* ``columns``: slots of template messages as columns.
* ``exact_reader``: the definition of accepted messages, for payloads that the fast reader must not read.
* ``limits``: sizes from which on templates are used.
* ``paths``: paths in parsed JSON, and slot values.
* ``select``: select lists applied to the bytes of members.
* ``write``: rewriting messages: select lists, delta merge, constructed fields.
* ``text``: scalars as JSON text.
"""
