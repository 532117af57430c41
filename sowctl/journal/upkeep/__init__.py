"""Looking after the files of a journal; nothing that reads or writes entries imports this room."""
