"""A subscription as a program goes through it: ``for`` and ``async for``, ``with`` and ``async with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from sowctl.engine.subscriptions.events import Delivery, Event


class IterableSubscription(ABC):
    """A base for what hands out deliveries until it is cancelled, and has to be closed."""

    @abstractmethod
    def deliveries(self) -> Generator[Delivery]:
        """Everything, as it comes."""

    @abstractmethod
    def cancel(self) -> None:
        """Let the iteration end; a wait ends at once."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all files."""

    def __iter__(self) -> Iterator[Event]:
        for delivery in self.deliveries():
            yield from delivery

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events, without holding up the loop: a thread of its own waits for them."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        deliveries = self.deliveries()
        with ThreadPoolExecutor(1, "subscription") as waiting:
            try:
                loop = asyncio.get_running_loop()
                while (delivery := await loop.run_in_executor(waiting, next, deliveries, None)) is not None:
                    for event in delivery:
                        yield event
            finally:
                # The thread may be waiting for the next change, and is waited for when this block is left.
                self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
