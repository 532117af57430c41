"""Messages that consist of messages of other types.

* ``type``: parts behind their lengths; ``localtype``: a path names its part; ``globaltype``: one message of all parts
"""
