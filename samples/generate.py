"""Writes the sample instance ``samples/demo`` again: what ``sowctl demo`` makes, as files. Same program, same bytes."""

from pathlib import Path

from sowctl.cli.commands.bodies.demo import write

if __name__ == "__main__":
    write(Path(__file__).parent / "demo")
