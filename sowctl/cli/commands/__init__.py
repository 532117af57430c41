"""One file per command; ``sowctl.cli.table`` lists them."""
