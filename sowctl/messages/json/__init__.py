"""Message type ``json``, in the order in which payloads pass.

* ``type``: the door
* ``plan``: what a fast reader looks for; ``rows``: makes the readers of slots and keys
* ``fast``: many payloads at once through msgspec; ``batch``: what is found out about them
* ``exact``: the definition of what is accepted, for what the fast reader may not judge
* ``shape``: paths in parsed JSON, and slot values
* ``select``: select lists by the bytes of members
* ``write``: select lists, and fields written into a message; ``text``: scalars as JSON
"""
