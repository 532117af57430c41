"""Message type ``json``, in the order in which payloads pass.

* ``type``: the door
* ``plan``: what a fast reader looks for; ``rows``: makes the readers of slots and keys
* ``fast_reader``: many payloads at once through msgspec; ``batch``: what is found out about them
* ``template_match``: many payloads of one shape at once, by one pattern; ``template``: a shape, read off one of them;
  ``digits``: numbers out of a text; ``columns``: slots of payloads of shapes as columns, without an object for each
* ``exact_reader``: the definition of what is accepted, for what the fast reader may not judge
* ``limits``: sizes from which on shapes are used, and long payloads looked through in pieces
* ``paths``: paths in parsed JSON, and slot values
* ``select``: select lists by the bytes of members
* ``write``: select lists, and fields written into a message; ``text``: scalars as JSON
"""
