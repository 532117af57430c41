"""The exit statuses, as a published table: ``sowctl(1)`` prints it, a test compares it with the error classes."""

from __future__ import annotations

EXITS: tuple[tuple[int, str], ...] = (
    (0, "Done."),
    (1, "The asked condition is false: findings, differences, no such key."),
    (2, "Wrong usage: an unknown option, a value out of range, a filter that cannot be read."),
    (3, "Done, but some input messages were refused."),
    (4, "The configuration cannot be used."),
    (5, "Stored data is damaged."),
    (6, "The operating system refused: full disk, permission, input/output error."),
    (7, "A safety limit was hit."),
    (8, "Refused: needs --yes or --force, is read-only, or belongs to another definition."),
    (9, "Written by a newer format."),
    (10, "The store, journal or topic does not exist."),
    (11, "Somebody else held a lock for longer than --lock-wait."),
    (70, "A bug in sowctl."),
    (129, "Hung up (SIGHUP)."),
    (130, "Interrupted (SIGINT)."),
    (141, "The reader of standard output went away (SIGPIPE)."),
    (143, "Terminated (SIGTERM)."),
)
