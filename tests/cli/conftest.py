"""Runs command lines in this process, with the test's own streams."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.main import main


class Tty(io.BytesIO):
    """A stream that reports itself as a terminal."""

    def isatty(self) -> bool:
        return super().isatty() or True


@dataclass(frozen=True)
class Result:
    """The result of a run: exit status, standard output and standard error as text."""

    status: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """``cli("query", "orders", stdin=b"", environ={}, tty="out err")``, in an empty working directory."""
    monkeypatch.chdir(str(tmp_path))

    def call(*argv: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None, tty: str = "") -> Result:
        given = Tty(stdin) if "in" in tty else io.BytesIO(stdin)
        out = Tty() if "out" in tty else io.BytesIO()
        err = Tty() if "err" in tty else io.BytesIO()
        status = main(argv, environ=environ or {}, stdin=given, stdout=out, stderr=err)
        return Result(status, out.getvalue().decode("utf-8", "surrogateescape"), err.getvalue().decode())

    return call


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., int]], None]:
    """Replaces the command ``completion``, without its options, by a function."""
    from sowctl.cli.commands import completion

    def plant(run: Callable[..., int]) -> None:
        def call(invocation: Invocation, arguments: NoArguments) -> int:
            return run(invocation)

        monkeypatch.setattr(completion, "NoArguments", NoArguments, raising=False)
        monkeypatch.setattr(completion, "run", call)

    return plant


class NoArguments(Struct, frozen=True):
    """Arguments of a command without any."""
