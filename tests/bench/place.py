"""Where the benchmarks keep their data: inputs, instances and databases in one directory, made once and used again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.bench import data
from tests.bench.contents import Contents, of_lines
from tests.bench.rounds import Wrong, process

SCRIPT = Path(sys.executable).with_name("sowctl")
SOWCTL = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "sowctl"]
"""The program as users start it."""
PEERS = [sys.executable, str(Path(__file__).with_name("peers.py"))]

_TOPIC = """
    <Topic><Name>{0}</Name><MessageType>json</MessageType><Key>/orderId</Key><FileName>sow/%n.sow</FileName></Topic>"""
_LOGGED = "<Topic><Name>{0}</Name><MessageType>json</MessageType></Topic>"


class Place:
    """The directory, and how much data: ``count`` messages over half as many keys."""

    def __init__(self, root: Path, count: int) -> None:
        self.root = root
        self.count = count
        self.keys = count // 2

    def input(self, count: int = 0) -> Path:
        """A file of ``count`` messages (default: :attr:`count`)."""
        count = count or self.count
        path = self.root / f"orders-{count}.ndjson"
        if not path.exists():
            print(f"  making {path}", file=sys.stderr)
            part = path.with_suffix(".part")
            data.write(count, count // 2, part)
            part.rename(path)
        return path

    def reference(self) -> Contents:
        """What every store must hold after :meth:`input` was loaded: the last message per key, by a plain dict."""
        with self.input().open("rb") as lines:
            return of_lines(lines)

    def instance(self, name: str, topic_names: tuple[str, ...] = ("orders",), *, fresh: bool = False) -> Instance:
        """An instance of its own directory; ``fresh`` empties it."""
        directory = self.root / name
        if fresh:
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sowctl.xml").write_text(
            f"<AMPSConfig>\n  <Name>{name}</Name>\n  <SOW>{''.join(map(_TOPIC.format, topic_names))}\n  </SOW>\n"
            f"  <TransactionLog><JournalDirectory>journal</JournalDirectory>"
            f"{''.join(map(_LOGGED.format, topic_names))}</TransactionLog>\n</AMPSConfig>\n"
        )
        return Instance(directory)

    def loaded(self) -> Instance:
        """An instance that holds the input, published once."""
        name = f"loaded-{self.count}"
        instance = self.instance(name)
        if not (instance.directory / "complete").exists():
            instance = self.instance(name, fresh=True)
            process(instance.publish(), feed=self.input())
            (instance.directory / "complete").touch()
        return instance

    def database(self, kind: str) -> Path:
        """A peer's database that holds the input; ``kind`` as :mod:`tests.bench.peers` calls its loads."""
        path = self.root / f"{kind}-{self.count}.db"
        if not path.exists():
            process([*PEERS, kind, str(path)], feed=self.input())
        return path


class Instance:
    """One instance's directory and the command lines for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "sowctl.xml"

    def command(self, word: str, *rest: str) -> list[str]:
        """A command line."""
        return [*SOWCTL, word, *rest, "--config", str(self.config)]

    def publish(self, topic: str = "orders") -> list[str]:
        """Publish from a pipe, every option as it comes."""
        return self.command("publish", topic, "-")

    def clear(self, *names: str) -> None:
        """Remove directories of the instance: ``sow``, ``journal``."""
        for name in names:
            shutil.rmtree(self.directory / name, ignore_errors=True)


def same(found: Contents, wanted: Contents, what: str) -> None:
    """Raises Wrong where two contents differ."""
    if found != wanted:
        raise Wrong(f"{what} holds {found}, not {wanted}: nothing is ranked")
