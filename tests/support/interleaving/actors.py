"""The verbs that workers run, each with its reports and its possible results.

An actor is prepared in the test (it writes its messages to its owner's book) and acts in its worker.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from typing import ClassVar

from msgspec.structs import replace as replace_struct

from sowctl.engine.api import InstanceHandle
from sowctl.engine.maintenance.backup.creation import take_backup
from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.journal_repair import repair_journal as mend
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.maintenance.retention.rotation import rotate_journal
from sowctl.engine.options import DeleteOptions, PublishOptions, ReplayOptions, SubscribeOptions
from sowctl.engine.topics.targets import Target, build_new_topic_resolver, resolve_followed_topics
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.expire import expire_records
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.subscribe import subscribe_topics
from sowctl.engine.verbs.upkeep.clean import clean_stores
from sowctl.engine.verbs.upkeep.compact import compact_stores
from sowctl.engine.verbs.upkeep.repair import repair_stores
from sowctl.engine.verbs.upkeep.restore import restore_backup
from sowctl.engine.writing.batches import ListSource
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import MissingError
from tests.support.folded import Folded, lines_of
from tests.support.interleaving.model import TEMPLATE, Owner, groups_of
from tests.support.interleaving.stage import Stage
from tests.support.interleaving.worker import Baton
from tests.support.verbs import Event, log_of


class Actor(ABC):
    """One verb of one run; ``number`` is that of its worker."""

    name: ClassVar[str]
    publishes: ClassVar[bool] = False

    def __init__(self, number: int, stage: Stage, chance: random.Random, *, small: bool) -> None:
        """``small``: the minimum number of calls."""
        self.number, self.stage, self.chance, self.small = number, stage, chance, small

    def prepare(self, owner: Owner | None) -> None:  # noqa: B027  # most verbs hand nothing in
        """Record the messages to be submitted in the book."""

    @abstractmethod
    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        """Run the verb, in the worker."""


class Publish(Actor):
    """Publishes messages in groups to several topics, and deletes at the end."""

    name = "publish"
    publishes = True

    def prepare(self, owner: Owner | None) -> None:
        assert owner is not None
        self.owner, chance, stage = owner, self.chance, self.stage
        base = TEMPLATE * (self.number + 1)
        old = [0, 2, 3] if owner.begins else []
        if self.small:
            plan = [("j", [*old[:1], base, base + 1], 2), ("q", [base], 1), ("a", [base], 1)]
        else:
            plan = [
                (
                    topic,
                    [chance.choice([*old, *range(base, base + 6)]) for _ in range(chance.randint(1, 6))],
                    chance.randint(1, 3),
                )
                for topic in (chance.choice("jhqab") for _ in range(chance.randint(1, 4)))
            ]
        self.parts = [(topic, stage.fresh(topic, ids), size) for topic, ids, size in plan]
        for _, events, size in self.parts:
            for group in groups_of(events, size):
                owner.book.hand_in(group)
        self.gone = [base] if self.small else [number for number in range(base, base + 6) if chance.random() < 0.3]
        if self.gone:
            owner.book.hand_in([Event("j", number, None) for number in self.gone])

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        for topic, events, size in self.parts:

            def told(what: AcknowledgedBatch, topic: str = topic) -> None:
                baton.say(told=log_of(topic), count=len(what.payloads))

            source = ListSource([str(event.payload).encode() for event in events], size)
            publish_messages(instance, topic, [("in", source)], PublishOptions(batch=size), on_acknowledged=told)
        if self.gone:
            options = DeleteOptions(filter=f"/id IN ({', '.join(map(str, self.gone))})")
            delete_records(instance, [Target(topic=instance.topic("j").config)], options)
            baton.say(told=log_of("j"), count=len(self.gone))


class Query(Actor):
    """Queries topics repeatedly."""

    name = "query"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        topic_names = "jqa" if self.small else [self.chance.choice("jhqab") for _ in range(6)]
        for topic in [*topic_names, *topic_names[:1]]:
            baton.say(asks=topic)
            try:
                rows = [record.payload.decode() for record in instance.topic(topic).query(batch_size=2).records()]
            except MissingError:
                rows = []
            baton.say(found=topic, rows={json.loads(row)["id"]: row for row in rows}, count=len(rows))


class Subscribe(Actor):
    """Follows topics and is replaced repeatedly: a fold of its events must be a possible result of a query."""

    name = "subscribe"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        topic_names = "ja" if self.small else "jhqab"
        target = f"^[{topic_names}]$"
        folded = Folded(oof=True)
        options = SubscribeOptions(oof=True, events=False, filter="/id < 2")
        asked = subscribe_topics(
            instance,
            resolve_followed_topics(instance, target),
            options,
            joining=build_new_topic_resolver(instance, target),
        )
        with asked as subscription:
            folded.take(lines_of(subscription.ready()))
            for text in ["/id >= 0"] if self.small else ["/id >= 0", "/id > 2", "/id IN (0, 3)", "/id >= 0"]:
                whole = text == "/id >= 0"
                for topic in topic_names if whole else "":
                    baton.say(asks=topic)
                folded.take(lines_of(subscription.replace(replace_struct(options, filter=text))))
                if whole:
                    self._tell(folded, topic_names, baton)
            for topic in topic_names:
                baton.say(asks=topic)
            folded.take(lines_of(subscription.ready()))
            self._tell(folded, topic_names, baton)

    @staticmethod
    def _tell(folded: Folded, topic_names: str, baton: Baton) -> None:
        assert folded.wrong == [], folded.wrong
        for topic in topic_names:
            rows = [row for (name, _), row in folded.held.items() if name == topic]
            texts = {row["id"]: json.dumps(row, separators=(",", ":")) for row in rows}
            baton.say(found=topic, rows=texts, count=len(rows))


class Rebuild(Actor):
    name = "rebuild"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        topics = [topic for topic in instance.topics if not self.small or topic.name == "j"]
        replay_topics(instance, topics, ReplayOptions(rebuild=True))


class Expire(Actor):
    name = "expire"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        expire_records(instance, [topic for topic in instance.topics if not self.small or topic.name == "q"])


class Compact(Actor):
    name = "compact"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        topics = [topic for topic in instance.topics if not self.small or topic.name in "ja"]
        list(compact_stores(instance, [Target(topic=topic) for topic in topics], always=True))


class Backup(Actor):
    name = "backup"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        baton.say(backs_up=True)
        _, path = take_backup(instance, self.stage.backups, full=self.chance.random() < 0.3)
        baton.say(backed_up=path.name)


class Restore(Actor):
    """Restores the template's backup to an empty directory, during everything else."""

    name = "restore"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        to = self.stage.root / f"restored-{self.number}"
        first = min(path.name for path in self.stage.backups.iterdir() if not path.name.startswith("."))
        restore_backup(
            self.stage.backups,
            to,
            self.stage.opened,
            name=first,
            seam=instance.seam,
            now=instance.now,
            lineage=bytes([self.number + 1]) * 16,
        )


class Prune(Actor):
    name = "prune"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        prune_files(instance, KeepRule(keep_size=self.chance.choice([1, 1500, 4000])))


class Archive(Actor):
    name = "archive"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        list(archive_files(instance, keep=self.chance.choice([0, 1])))


class Compress(Actor):
    name = "compress"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        list(compress_files(instance, kind=self.chance.choice([".zst", ".gz"]), keep=self.chance.choice([0, 1])))


class Rotate(Actor):
    name = "rotate"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        rotate_journal(instance)


class Repair(Actor):
    """``store repair``: of damaged stores, or intact ones."""

    name = "repair"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        list(repair_stores(instance, [Target(topic=topic) for topic in instance.topics]))


class Mend(Actor):
    """``journal repair`` of an intact journal: it must find no damage, whatever the others do at its end."""

    name = "mend"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        mend(instance)


class Clean(Actor):
    """Removes the files left by workers killed earlier."""

    name = "clean"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        list(clean_stores(instance, [Target(topic=topic) for topic in instance.topics]))


_ALL: list[type[Actor]] = [Publish, Query, Subscribe, Rebuild, Expire, Compact, Backup, Restore]
_ALL += [Prune, Archive, Compress, Rotate, Repair, Mend, Clean]
ACTORS: dict[str, type[Actor]] = {actor.name: actor for actor in _ALL}
