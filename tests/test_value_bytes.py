"""The bytes of stored values and of LMDB's pages are known in one module each (``sow-store(5)``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sowctl

ROOT = Path(sowctl.__file__).parent
VALUES = {"value", "values", "digest", "digests", "stored"}
CODECS = {Path("store/codec.py"), Path("store/changes.py")}
"""The codecs of values: of records, and of the change list."""
SLICED = {*VALUES, "before"}
KEYS = {"key", "keys", "olds"}
"""Keys of records and versions: of a longer one, ``extract_sow_key`` gives the first eight bytes."""
DIGESTERS = {"compute_key_digest", "compute_user_key_digest"}
BYTE_OFFSETS = {4, 8, 12, 20, 28, 36}
"""Where fields of a record's header, or the two halves of a digest, begin and end."""
READERS = {"frombuffer", "iter_unpack", "unpack", "unpack_from"}
"""What makes several numbers of bytes."""
COLUMNS = {"extract_headers": "HEADER_DTYPE", "extract_raw_stamps": "STAMP_DTYPE"}
"""What the codec gives of many values, and the type by which numpy reads it."""


def name_of(node: ast.AST) -> str:
    """The name of what a value is taken from, by however many indexes."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def find_known_layouts(tree: ast.AST) -> Iterator[int]:
    """Lines with a slice of a stored value, a digest or a key at a fixed place, a number read from one, or a header as
    numpy reads it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            bounds = {one.value for one in (node.slice.lower, node.slice.upper) if isinstance(one, ast.Constant)}
            digester = name_of(node.value.func) if isinstance(node.value, ast.Call) else ""
            if (
                (name_of(node.value) in SLICED and BYTE_OFFSETS & bounds)
                or (name_of(node.value) in KEYS and 8 in bounds)
                or digester in DIGESTERS
            ):
                yield node.lineno
        elif isinstance(node, ast.Call):
            if name_of(node.func) not in READERS:
                continue
            given = [name_of(one.func) for one in node.args if isinstance(one, ast.Call)]
            types = {name_of(one) for one in (*node.args, *(word.value for word in node.keywords))}
            if any(name_of(one) in VALUES for one in node.args) or any(
                COLUMNS[name] not in types for name in given if name in COLUMNS
            ):
                yield node.lineno
        elif isinstance(node, ast.List):
            fields = [one.elts[0].value for one in node.elts if isinstance(one, ast.Tuple) and one.elts
                      and isinstance(one.elts[0], ast.Constant)]  # fmt: skip
            if fields[:2] == ["txid", "time"] or {"txid", "time", "check"} <= set(fields):
                yield node.lineno


def test_the_finder_knows_slices_and_types() -> None:
    source = (
        'value[4:12]\ndigests[at][:8]\n[("txid", "<u8"), ("time", "<i8")]\nkey[:8]\nvalue[at:]\n'
        "STAMPS.unpack_from(value, 4)\nnp.frombuffer(stored.digests, '<u8')\nint.from_bytes(key, 'big')\n"
        "np.frombuffer(extract_raw_stamps(some), '<u8')\nnp.frombuffer(extract_raw_stamps(some), STAMP_DTYPE)\n"
        "keys[0][:8]\nkey[:KEY_SIZE]\nkey[:4]\ncompute_key_digest(domain, row)[:8]\n"
    )
    assert sorted(find_known_layouts(ast.parse(source))) == [1, 2, 3, 4, 6, 7, 9, 11, 14]


def test_no_module_but_the_codecs_takes_values_or_digests_apart() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT) not in CODECS
        for line in find_known_layouts(ast.parse(path.read_text()))
    ]
    assert not found
