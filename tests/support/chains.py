"""Instances with a topic whose keys come from chains."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.instances import Lab, config_xml, topic_xml

MakeLab = Callable[..., Lab]

MODULES = (
    "<Modules><Module><Name>chain</Name><Library>libamps_id_chaining_key_generator.so</Library></Module></Modules>"
)

PATHS = "<Primary>/id</Primary><Secondary>/parent</Secondary>"


def generator(options: str = PATHS) -> str:
    return f"<KeyGenerator><Module>chain</Module><Options>{options}</Options></KeyGenerator>"


def chained(make_lab: MakeLab, options: str = PATHS, *, logged: bool = True, name: str = "lab") -> Lab:
    topics_xml = topic_xml("c", generator(options), key=None) + topic_xml("t")
    xml = config_xml(topics_xml, ("c", "t") if logged else ()).replace("<SOW>", MODULES + "<SOW>")
    return make_lab(xml, name=name)
