"""What ``sowctl.open`` gives a program: an instance whose topics have the verbs as methods.

Each method is the function of its verb; the command line calls the same functions. Nothing in the engine imports this
module, because it imports every verb.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from sowctl.engine.instance import Instance
from sowctl.engine.options import DeleteOptions, PublishOptions, QueryOptions
from sowctl.engine.topics.targets import Target, find_topic

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.records import StoredRecord
    from sowctl.engine.reports import DeleteReport, ExpireReport, PublishReport, ReplayReport, TopicInfo
    from sowctl.engine.sources.digest import Digest
    from sowctl.engine.verbs.history import VersionRecord
    from sowctl.engine.verbs.query import QueryResult


class InstanceHandle(Instance, frozen=True):
    """An instance, and a way to its topics; :meth:`Instance.open` says how it is opened."""

    lasting: ClassVar[bool] = True

    def topic(self, name: str, message_type: str | None = None) -> TopicHandle:
        """The verbs of one topic. Raises MissingError (exit 10) and UsageError (exit 2, ambiguous)."""
        return TopicHandle(self, find_topic(self, name, message_type))


class TopicHandle:
    """One topic of an instance. Every method opens what it needs and closes it again.

    Within the instance's ``with`` statement the store stays open for the next question, which spares a small one half
    of its time; others may write in between.
    """

    def __init__(self, instance: Instance, config: TopicConfig) -> None:
        self.instance = instance
        self.config = config
        self.target = Target(topic=config)

    @property
    def name(self) -> str:
        """The topic's name, or the logical topic's."""
        return self.config.label

    def publish(
        self, messages: Iterable[bytes], options: PublishOptions | None = None, **changes: Any
    ) -> PublishReport:
        """Publish payloads; ``changes`` are fields of :class:`PublishOptions`. Durable when this returns.

        Raises InputError (exit 3) at a bad message unless ``on_error="skip"``.
        """
        from sowctl.engine.verbs.publish import publish
        from sowctl.engine.writing.batching import Listed

        chosen = replace(options or PublishOptions(), **changes)
        source = Listed(messages, chosen.batch)
        return publish(self.instance, self.name, [("messages", source)], chosen, message_type=self.config.message_type)

    def query(self, filter: str | None = None, **changes: Any) -> QueryResult:
        """Start a query; ``changes`` are fields of :class:`QueryOptions`. Iterate for batches or ``.records()``."""
        from sowctl.engine.verbs.query import query

        return query(self.instance, [self.target], QueryOptions(filter=filter, **changes))

    def get(self, *keys: str, fields: bool = False, at: int | None = None) -> Iterator[StoredRecord]:
        """The records of SOW keys, else of key field texts (with ``fields`` these alone), in the order asked for."""
        from sowctl.engine.verbs.get import get

        batch, _ = get(self.instance, self.target, keys, fields=fields, at=at)
        return iter(batch.records)

    def versions(self, *keys: str, fields: bool = False, journal: bool = False) -> Iterator[VersionRecord]:
        """The versions of the records of SOW keys or key field texts, each key's oldest first."""
        from sowctl.engine.verbs.history import versions

        batch, _ = versions(self.instance, self.target, keys, fields=fields, journal=journal)
        return iter(batch.records)

    def delete(
        self,
        *,
        filter: str | None = None,
        sow_keys: Sequence[str] | None = None,
        data: Sequence[bytes] | None = None,
        dry_run: bool = False,
    ) -> DeleteReport:
        """Delete records by exactly one selector. Durable when this returns."""
        from sowctl.engine.verbs.delete import delete

        options = DeleteOptions(
            filter,
            tuple(sow_keys) if sow_keys is not None else None,
            tuple(data) if data is not None else None,
            dry_run,
        )
        return delete(self.instance, [self.target], options)[0]

    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Remove what has expired."""
        from sowctl.engine.verbs.expire import expire

        return expire(self.instance, [self.config], dry_run=dry_run)[0]

    def replay(self, **changes: Any) -> ReplayReport:
        """Bring the store in line with the journals; ``changes`` are fields of ``ReplayOptions``."""
        from sowctl.engine.options import ReplayOptions
        from sowctl.engine.verbs.replay import replay

        return replay(self.instance, [self.config], ReplayOptions(**changes))[0]

    def digest(self, at: int | None = None) -> Digest:
        """The digest of the state."""
        from sowctl.engine.sources.digest import digest

        return digest(self.instance, self.target, at)

    def info(self) -> TopicInfo:
        """Sizes, counts and position."""
        from sowctl.engine.verbs.info import info

        return info(self.instance, [self.target])[0]
