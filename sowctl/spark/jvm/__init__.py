"""The Java virtual machine of a session.

* ``java``: finding the Java to run.
* ``machine``: starting and ending the virtual machine.
* ``masters``: names of masters, and a check that a standalone one answers.
* ``packed_environment``: shipping a packed environment to executors.
"""
