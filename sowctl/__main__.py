"""``python -m sowctl``."""

from sowctl.cli.main import run

run()
