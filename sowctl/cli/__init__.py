"""The command line: the command table, the error boundary, one command per file under ``commands/``."""
