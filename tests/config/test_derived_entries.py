"""Views, conflated topics and queues in the model, and the parts that are known but not used: modules, actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.actions import Action, FunctionConfig, ModuleConfig
from sowctl.config.derived_entries import ConflatedTopic, Queue, View
from sowctl.config.instance import load_instance
from sowctl.config.model import InstanceConfig, OtherEntry

Write = Callable[..., Path]
JSON = "<MessageType>json</MessageType>"
FIELDS = "<Projection><Field>/b</Field><Field>SUM(/c) AS /d</Field></Projection><Grouping><Field>/b</Field></Grouping>"


def load(path: Path) -> InstanceConfig:
    return load_instance(path, environment={})


def entry(instance: Write, text: str) -> OtherEntry:
    (found,) = load(instance(text)).sow
    assert isinstance(found, OtherEntry)
    return found


def test_a_view_of_one_topic(instance: Write) -> None:
    found = entry(
        instance,
        f"<ViewDefinition><Topic>v</Topic>{JSON}<UnderlyingTopic>[xml].[a]</UnderlyingTopic>{FIELDS}"
        "<KeyDomain>d</KeyDomain><Conflation>Inline</Conflation><Filter>/x &gt; 1</Filter>"
        "<HashIndex><Key>/d</Key></HashIndex><JoinNullEquivalency>ENABLED</JoinNullEquivalency></ViewDefinition>",
    )
    assert isinstance(found, View)
    assert (found.kind, found.name, found.message_type) == ("View", "v", "json")
    assert (found.underlying, found.joins, found.sources) == ("[xml].[a]", (), (("a", "xml"),))
    assert (found.projection, found.grouping) == (("/b", "SUM(/c) AS /d"), ("/b",))
    assert (found.key_domain, found.conflation, found.filter) == ("d", "inline", "/x > 1")
    assert (found.join_null_equivalency, [[str(p) for p in i] for i in found.hash_indexes]) == (True, [["/d"]])


def test_a_view_of_joined_topics(instance: Write) -> None:
    joins = "<Join>[a]./x = [b]./x</Join><Join>[b]./y = [xml].[c]./y</Join>"
    found = entry(instance, f"<View><Name>v</Name>{JSON}<UnderlyingTopic>{joins}</UnderlyingTopic>{FIELDS}</View>")
    assert isinstance(found, View)
    assert (found.underlying, found.joins) == (None, ("[a]./x = [b]./x", "[b]./y = [xml].[c]./y"))
    assert found.sources == (("a", "json"), ("b", "json"), ("c", "xml"))
    assert (found.key_domain, found.conflation, found.filter, found.hash_indexes) == ("v", "none", None, ())


def test_a_conflated_topic(instance: Write) -> None:
    source = f"<Name>c</Name>{JSON}<UnderlyingTopic>a</UnderlyingTopic>"
    found = entry(instance, f"<ReplicaDefinition>{source}</ReplicaDefinition>")
    assert isinstance(found, ConflatedTopic)
    assert (found.kind, found.underlying, found.interval_us) == ("ConflatedTopic", "a", 5_000_000)
    assert (found.filter, found.enrichment, found.topic_format) == (None, (), None)
    more = "<Interval>250ms</Interval><Enrichment><Field>/a AS /b</Field></Enrichment><TopicFormat>%n-C</TopicFormat>"
    found = entry(instance, f"<ConflatedTopic>{source}{more}</ConflatedTopic>")
    assert isinstance(found, ConflatedTopic)
    assert (found.interval_us, found.enrichment, found.topic_format) == (250_000, ("/a AS /b",), "%n-C")
    assert found.sources == (("a", "json"),)


def test_defaults_of_a_queue(instance: Write) -> None:
    found = entry(instance, f"<Queue><Name>q</Name>{JSON}</Queue>")
    assert isinstance(found, Queue)
    assert (found.kind, found.underlying, found.default_publish_target) == ("Queue", "q", "q")
    assert (found.semantics, found.fairness, found.leasing) == ("at-least-once", "proportional", "sublet")
    assert (found.lease_period_us, found.max_backlog, found.max_per_subscription_backlog) == (None, None, 1)
    assert (found.expiration_us, found.expiration_model, found.recovery_point) == (None, "default", "epoch")
    assert (found.max_deliveries, found.max_cancels, found.deferred_ack_expiration_us) == (0, 0, 86_400_000_000)
    assert (found.priority, found.barrier, found.filter, found.initial_owner) == (None, None, None, None)
    assert (found.file_backed_metadata, found.target_queue_depth, found.group_domain) == (False, None, None)


def test_a_queue_of_a_group(instance: Write) -> None:
    found = entry(
        instance,
        f"<GroupLocalQueue><Name>q</Name>{JSON}<UnderlyingTopic>^in\\.</UnderlyingTopic>"
        "<DefaultPublishTarget>in.a</DefaultPublishTarget><Semantics>At-Most-Once</Semantics>"
        "<LeasePeriod>10s</LeasePeriod><MaxBacklog>2k</MaxBacklog><Priority>/p</Priority>"
        "<FileBackedMetadata>enabled</FileBackedMetadata><InitialOwner>one</InitialOwner>"
        "<GroupLocalQueueDomain>g</GroupLocalQueueDomain><Expiration>1m</Expiration></GroupLocalQueue>",
    )
    assert isinstance(found, Queue)
    assert (found.kind, found.underlying, found.default_publish_target) == ("GroupLocalQueue", r"^in\.", "in.a")
    assert (found.semantics, found.fairness) == ("at-most-once", "round-robin")
    assert (found.lease_period_us, found.max_backlog, found.expiration_us) == (10_000_000, 2_000, 60_000_000)
    assert (found.priority, found.file_backed_metadata) == ("/p", True)
    assert (found.initial_owner, found.group_domain) == ("one", "g")


@pytest.fixture
def known(instance: Write) -> InstanceConfig:
    return load(
        instance(
            top="""<Modules><Module><Name>m</Name><Library>/nowhere/l.so</Library>
            <Options><Lookup>a;1</Lookup><Lookup>b;2</Lookup></Options></Module></Modules>
            <UserDefinedFunctions><Function><Name>F</Name><Module>m</Module><Symbol>f</Symbol></Function>
            <Function><Name>G</Name><Module>m</Module><Symbol>g</Symbol><ParameterCount>2</ParameterCount></Function>
            </UserDefinedFunctions>
            <Actions><Action><On><Module>amps-action-on-schedule</Module><Options><Every>1d</Every></Options></On>
            <Do><Module>amps-action-do-delete-sow</Module><Options><Topic>^a b</Topic><MessageType>json</MessageType>
            <Filter>/x = 'it''s'
            OR /y</Filter></Options></Do>
            <If><Module>amps-action-if-condition</Module><Options><Condition>1=1</Condition></Options></If>
            <Do><Module>amps-action-do-nothing</Module></Do></Action></Actions>"""
        )
    )


def test_modules_are_known_and_not_loaded(known: InstanceConfig) -> None:
    place = known.modules[0].place
    assert known.modules == (ModuleConfig("m", "/nowhere/l.so", (("Lookup", "a;1"), ("Lookup", "b;2")), place),)
    assert place.line == 3
    assert known.functions == (FunctionConfig("F", "m", "f", None, place), FunctionConfig("G", "m", "g", 2, place))


def test_actions_keep_the_order_of_their_steps(known: InstanceConfig) -> None:
    (action,) = known.actions
    assert isinstance(action, Action)
    assert [step.kind for step in action.steps] == ["On", "Do", "If", "Do"]
    assert action.steps[0].options == (("Every", "1d"),)
    assert action.steps[3].options == ()
    assert (action.place.line, action.steps[1].place.line) == (8, 9)


def test_a_step_names_the_command_that_does_the_same(known: InstanceConfig) -> None:
    said = [step.equivalent_command for step in known.actions[0].steps]
    assert said[0] is None
    assert said[1] == (
        "sowctl delete '^a b' --regex --message-type json --filter '/x = '\"'\"'it'\"'\"''\"'\"'s'\"'\"' OR /y'"
    )
    assert said[3] is None
