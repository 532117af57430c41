"""The schema of a protobuf message type: the files of its definition (``sowctl-messages(7)``, protobuf).

``ProtoFile`` is a descriptor set, as written by ``protoc --include_imports --descriptor_set_out``, or a ``.proto``
file, which the compiler of ``grpcio-tools`` converts to one, together with its imports. ``ProtoPath`` gives
directories, with an alias for them at the start of names: ``alias;directory``, ``;directory`` or ``directory``.

The compiler runs in a process of its own, once per definition and process. That takes 60 ms of processor time, as much
as importing the library of protobuf. In this process it would take 40 ms, bypass Python to write its errors to standard
error, and hook into the import system for all ``_pb2`` modules.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, Message

from sowctl.errors import ConfigError
from sowctl.extras import build_missing_package_error
from sowctl.messages.base import BAD_DEFINITION, MISSING_EXTRA
from sowctl.messages.definition import TypeDefinition

_MAX_DEFINITION_BYTES = 16 << 20
"""Maximum size of the file of a definition in bytes."""
_COMPILER_TIMEOUT_SECONDS = 60
"""Time limit of the compiler in seconds."""
_COMPILE_HINT = (
    "compile the file: protoc --include_imports --descriptor_set_out=NAME.desc NAME.proto, and let ProtoFile name it"
)
_OPTION_PATTERN = re.compile("[-@]")
_NO_PART = ("", ".", "..")
"""Parts that the compiler accepts in no file name; an absolute one begins with the first."""
_FILE_NOT_FOUND_PATTERN = re.compile(r"(?m)^(.+): File not found\.$")
_COMPILER_FAULT_PATTERN = re.compile(r"(?m)^(.+?):(\d+):(\d+): (?!warning: )(.+)$")


@lru_cache(maxsize=64)
def build_message_class(definition: TypeDefinition) -> type[Message]:
    """The class of the messages of ``definition``.

    Raises ConfigError ``SOW-MSG-007`` for an unusable definition, ``SOW-MSG-011`` for a ``.proto`` file without a
    compiler. Errors are not cached, because the file may be fixed meanwhile.
    """
    schema = _DefinitionFiles(definition)
    # A pool of its own: two definitions may have different messages with one full name.
    pool = descriptor_pool.DescriptorPool()
    found = schema.list_files()
    # Imports come before their importers: a pool refuses a file whose imports it does not have.
    for file in found:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as problem:
            raise schema.build_error(f"the schema {file.name!r} cannot be used: {problem}") from None
    return cast("type[Message]", message_factory.GetMessageClass(_find_descriptor(pool, schema, found)))


def _find_descriptor(
    pool: descriptor_pool.DescriptorPool, schema: _DefinitionFiles, found: Iterable[FileDescriptorProto]
) -> Descriptor:
    name = schema.definition.proto_type.lstrip(".")
    if not name:
        raise schema.build_error(
            "a protobuf message type needs a Type", "name the message, such as <Type>trade.Order</Type>"
        )
    try:
        descriptor: Descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        names = [known for file in found for known in _list_message_names(file.message_type, file.package)]
        near = get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
        raise schema.build_error(
            f"the schema has no message {name!r}", "it has " + ", ".join(near) if near else None
        ) from None
    return descriptor


def _list_message_names(messages: Iterable[DescriptorProto], scope: str) -> Iterable[str]:
    for message in messages:
        name = f"{scope}.{message.name}" if scope else message.name
        # The compiler generates a message for every map; it has no name in the schema as written.
        if not message.options.map_entry:
            yield name
        yield from _list_message_names(message.nested_type, name)


class _DefinitionFiles:
    """The files of one definition, each once, after its imports."""

    def __init__(self, definition: TypeDefinition) -> None:
        self.definition = definition
        self._base = Path(definition.directory)
        self._mapped: list[tuple[str, Path]] = []
        for text in definition.proto_paths:
            alias, semicolon, directory = text.strip().partition(";")
            # A text without a semicolon is a directory, and one that begins with a semicolon has an empty alias.
            if not semicolon:
                alias, directory = "", alias
            self._mapped.append((alias.strip().strip("/"), self._base / directory.strip()))
        # The directory of the configuration comes last, so that ProtoPath has precedence.
        self._mapped.append(("", self._base))

    def list_files(self) -> list[FileDescriptorProto]:
        """All files, in an order that a pool accepts."""
        name = self.definition.proto_file.strip()
        if not name:
            raise self.build_error(
                "a protobuf message type needs a ProtoFile", "add <ProtoFile>: the file of its definition"
            )
        if not self.definition.proto_paths:
            hint = "add <ProtoPath>: the directory of the file; <ProtoPath>.</ProtoPath> is that of the configuration"
            raise self.build_error("a protobuf message type needs a ProtoPath", hint)
        path, data = self._read_definition(name)
        if name.endswith(".proto"):
            # the compiler writes imports before their importers
            return list(FileDescriptorSet.FromString(self._compile_proto(name, path)).file)
        try:
            return self._order_file_set({file.name: file for file in FileDescriptorSet.FromString(data).file})
        except DecodeError:
            raise self.build_error(f"{name!r} is neither a .proto file nor a descriptor set", _COMPILE_HINT) from None

    def build_error(self, words: str, hint: str | None = None, code: str = BAD_DEFINITION) -> ConfigError:
        """Create an error of the definition."""
        words = f"message type {self.definition.name!r}: {words}"
        return ConfigError(code, words, place=self.definition.place or None, hint=hint)

    def _order_file_set(self, given: dict[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
        """Order the files of a set: tools other than the compiler write them in any order."""
        placed: dict[str, FileDescriptorProto] = {}
        for first in given:
            # depth first without recursion: a file is placed after its imports; ``above`` are the waiting ones
            above = [first]
            while above:
                name = above[-1]
                file = given.get(name) or _find_shipped_file(name)
                if file is None:
                    words = f"{name!r} is imported and not in the descriptor set"
                    raise self.build_error(words, "make the set with protoc --include_imports")
                waiting = [needed for needed in file.dependency if needed not in placed]
                if name in placed or not waiting:
                    placed.setdefault(name, file)
                    above.pop()
                elif waiting[0] in above:
                    raise self.build_error(f"{waiting[0]!r} imports itself through {', '.join(above)}")
                else:
                    above.append(waiting[0])
        return list(placed.values())

    def _compile_proto(self, name: str, path: Path) -> bytes:
        """The descriptor set of a ``.proto`` file and its imports."""
        if find_spec("grpc_tools") is None:
            words = f"message type {self.definition.name!r}: a .proto file needs the package grpcio-tools, "
            error = build_missing_package_error(
                MISSING_EXTRA, words + "which is not installed", "protobuf", more=f"or {_COMPILE_HINT}"
            )
            error.place = self.definition.place or None
            raise error
        mapped, virtual = self._mapped, name
        if _OPTION_PATTERN.match(name) or any(part in _NO_PART for part in name.split("/")):
            # a name that the compiler does not accept: the file itself is mapped to the last part of its name
            virtual = path.name.lstrip("-@")
            mapped = [(virtual, path), *mapped]
        with TemporaryDirectory(prefix="sowctl-") as folder:
            options = []
            for number, (alias, place) in enumerate(mapped):
                # a link, because the option is split at colons and equals signs, which directories may contain
                if place.exists():
                    Path(folder, f"p{number}").symlink_to(place.absolute())
                    options.append(f"-I{alias}=p{number}")
            ran = self._run_compiler([*options, "--include_imports", "--descriptor_set_out=set", virtual], folder)
            if ran.returncode:
                raise self._build_compiler_error(ran.stderr.decode(errors="replace"), [alias for alias, _ in mapped])
            return Path(folder, "set").read_bytes()

    def _run_compiler(self, arguments: Sequence[str], folder: str) -> subprocess.CompletedProcess[bytes]:
        # -P keeps the working directory out of the import path: a file there must not replace a module.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *arguments]
        try:
            return subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILER_TIMEOUT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise self.build_error(f"the compiler of grpcio-tools cannot be run: {problem}", _COMPILE_HINT) from None

    def _build_compiler_error(self, told: str, aliases: Sequence[str]) -> ConfigError:
        """Build one error from the compiler's output: the first fault, with the name by which the file is imported."""
        if absent := _FILE_NOT_FOUND_PATTERN.search(told):
            return self._build_missing_error(absent[1])
        fault = _COMPILER_FAULT_PATTERN.search(told)
        if fault is None:
            last = (told.strip().splitlines() or ["no reason was given"])[-1]
            return self.build_error(f"the schema cannot be compiled: {last}", _COMPILE_HINT)
        # The compiler names files by their links; the message must use the names of the configuration.
        link, _, rest = fault[1].partition("/")
        alias = aliases[int(link[1:])] if re.fullmatch(r"p\d+", link) else link
        place = "/".join(part for part in (alias, rest) if part)
        return self.build_error(f"{place}:{fault[2]}:{fault[3]}: {fault[4]}", _COMPILE_HINT)

    def _build_missing_error(self, name: str) -> ConfigError:
        tried = list(dict.fromkeys(self._list_candidate_paths(name)))
        return self.build_error(f"there is no file {name!r}", "looked for " + ", ".join(map(str, tried[:3])))

    def _read_definition(self, name: str) -> tuple[Path, bytes]:
        """The file of the definition: its path and its bytes."""
        place = next((place for place in self._list_candidate_paths(name) if place.is_file()), None)
        if place is None:
            raise self._build_missing_error(name)
        try:
            with place.open("rb") as stream:
                # One byte more than allowed is enough to find out that the file is too large.
                data = stream.read(_MAX_DEFINITION_BYTES + 1)
        except OSError as problem:
            raise self.build_error(f"{place} cannot be read: {problem.strerror}") from None
        if len(data) > _MAX_DEFINITION_BYTES:
            raise self.build_error(f"{place} has more than {_MAX_DEFINITION_BYTES:,} bytes")
        return place, data

    def _list_candidate_paths(self, name: str) -> Iterable[Path]:
        """List the possible places of a file: the directories of ProtoPath, then the name itself, as for the
        compiler."""
        for alias, directory in self._mapped:
            if not alias:
                yield directory / name
            elif name.startswith(alias + "/"):
                yield directory / name[len(alias) + 1 :]


def _find_shipped_file(name: str) -> FileDescriptorProto | None:
    """A file that is part of the library, for descriptor sets that import it and do not contain it."""
    # Only modules of google.protobuf can be imported by such a name, whatever a file contains.
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto").replace("/", ".")
    if stem == name or not all(part.isidentifier() for part in stem.split(".")):
        return None
    try:
        module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
