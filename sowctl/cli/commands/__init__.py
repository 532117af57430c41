"""One file per command; ``sowctl.cli.words.table`` lists them."""
