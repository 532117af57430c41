"""The schema of a protobuf message type: the files that its definition names (``sowctl-messages(7)``, protobuf).

``ProtoFile`` is a descriptor set, as ``protoc --include_imports --descriptor_set_out`` writes it, or a ``.proto``
file, which :mod:`sowctl.messages.proto.parse` reads together with what it imports. ``ProtoPath`` gives directories,
with an alias that stands for them at the start of names: ``alias;directory``, ``;directory`` or ``directory``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, Message

from sowctl.errors import ConfigError
from sowctl.messages.base import BAD_DEFINITION
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.proto.parse import ProtoError, parse_proto

_LARGEST = 16 << 20
_MOST_FILES = 1000
_SHIPPED = "google/protobuf/"
"""Files that the library brings along."""
_HINT = (
    "compile the file: protoc --include_imports --descriptor_set_out=NAME.desc NAME.proto, and let ProtoFile name it"
)


def message_class(definition: TypeDefinition) -> type[Message]:
    """The class of the messages that ``definition`` means. Raises ConfigError ``SOW-MSG-007``."""
    files = _Files(definition)
    pool = descriptor_pool.DescriptorPool()
    found = files.read()
    for file in found:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as problem:
            raise files.error(f"the schema {file.name!r} cannot be used: {problem}") from None
    return cast("type[Message]", message_factory.GetMessageClass(_type(pool, files, found)))


def _type(pool: Any, files: _Files, found: Iterable[FileDescriptorProto]) -> Descriptor:
    name = files.definition.proto_type.lstrip(".")
    if not name:
        raise files.error("a protobuf message type needs a Type", "name the message, such as <Type>trade.Order</Type>")
    try:
        descriptor: Descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        names = [known for file in found for known in _names(file.message_type, file.package)]
        near = get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
        raise files.error(
            f"the schema has no message {name!r}", "it has " + ", ".join(near) if near else None
        ) from None
    return descriptor


def _names(messages: Iterable[DescriptorProto], scope: str) -> Iterable[str]:
    for message in messages:
        name = f"{scope}.{message.name}" if scope else message.name
        if not message.options.map_entry:
            yield name
        yield from _names(message.nested_type, name)


class _Files:
    """The files of one definition, each once, what they import before them."""

    def __init__(self, definition: TypeDefinition) -> None:
        self.definition = definition
        self._order: dict[str, FileDescriptorProto] = {}
        self._open: list[str] = []
        self._set: dict[str, FileDescriptorProto] = {}

    def read(self) -> list[FileDescriptorProto]:
        name = self.definition.proto_file.strip()
        if not name:
            raise self.error("a protobuf message type needs a ProtoFile", "add <ProtoFile>: the file of its definition")
        if not self.definition.proto_paths:
            hint = "add <ProtoPath>: the directory of the file; <ProtoPath>.</ProtoPath> is that of the configuration"
            raise self.error("a protobuf message type needs a ProtoPath", hint)
        if name.endswith(".proto"):
            self._add(name)
        else:
            try:
                files = FileDescriptorSet.FromString(self._bytes(name)).file
            except DecodeError:
                raise self.error(f"{name!r} is neither a .proto file nor a descriptor set", _HINT) from None
            self._set = {file.name: file for file in files}
            for file in files:
                self._add(file.name)
        return list(self._order.values())

    def error(self, words: str, hint: str | None = None) -> ConfigError:
        """An error of the definition."""
        words = f"message type {self.definition.name!r}: {words}"
        return ConfigError(BAD_DEFINITION, words, place=self.definition.place or None, hint=hint)

    def _add(self, name: str) -> None:
        """Read a file and what it imports."""
        if name in self._order:
            return
        if name in self._open:
            raise self.error(f"{name!r} imports itself by way of {', '.join(self._open)}")
        if len(self._order) + len(self._open) >= _MOST_FILES:
            raise self.error(f"the schema has more than {_MOST_FILES:,} files")
        self._open.append(name)
        file = self._file(name)
        for needed in file.dependency:
            self._add(needed)
        self._open.pop()
        self._order[name] = file

    def _file(self, name: str) -> FileDescriptorProto:
        if name in self._set:
            return self._set[name]
        if name.startswith(_SHIPPED) and (shipped := _shipped(name)) is not None:
            return shipped
        if self._set:
            words = f"{name!r} is imported and not in the descriptor set"
            raise self.error(words, "make the set with protoc --include_imports")
        try:
            text = self._bytes(name).decode()
            return parse_proto(name, text)
        except UnicodeDecodeError:
            raise self.error(f"{name!r} is not UTF-8") from None
        except ProtoError as problem:
            raise self.error(f"{name}:{problem}", _HINT) from None

    def _bytes(self, name: str) -> bytes:
        tried = list(dict.fromkeys(self._places(name)))
        for place in tried:
            if place.is_file():
                try:
                    with place.open("rb") as stream:
                        data = stream.read(_LARGEST + 1)
                except OSError as problem:
                    raise self.error(f"{place} cannot be read: {problem.strerror}") from None
                if len(data) > _LARGEST:
                    raise self.error(f"{place} has more than {_LARGEST:,} bytes")
                return data
        raise self.error(f"there is no file {name!r}", "looked for " + ", ".join(map(str, tried[:3])))

    def _places(self, name: str) -> Iterable[Path]:
        """Where a file may be: in the directories of ProtoPath, then at the name itself."""
        base = Path(self.definition.directory)
        for text in self.definition.proto_paths:
            alias, semicolon, directory = text.strip().partition(";")
            if not semicolon:
                alias, directory = "", alias
            alias = alias.strip().strip("/")
            if not alias:
                yield base / directory.strip() / name
            elif name.startswith(alias + "/"):
                yield base / directory.strip() / name[len(alias) + 1 :]
        yield base / name


def _shipped(name: str) -> FileDescriptorProto | None:
    """A file that the library brings along."""
    stem = name[len(_SHIPPED) :].removesuffix(".proto").replace("/", ".")
    if not all(part.isidentifier() for part in stem.split(".")):
        return None
    try:
        module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
