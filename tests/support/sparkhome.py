"""A home of Spark whose Python processes begin quickly.

Spark puts ``python/lib/pyspark.zip`` of its home before everything else that its Python processes import. There are no
compiled modules in it: each process compiles pyspark anew. Where the home has no such file, they import the pyspark
that is installed, which is the same.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def quick_home(directory: Path) -> dict[str, str]:
    """The variable that makes a Spark with links in ``directory`` to all that is installed, its Python files apart.

    Nothing, where Spark does not come with the Python package.
    """
    spec = find_spec("pyspark")
    installed = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if not installed or not (installed[0] / "jars").is_dir():
        return {}
    for name in ("bin", "sbin", "jars", "data", "licenses"):
        if (installed[0] / name).exists():
            (directory / name).symlink_to(installed[0] / name)
    return {"SPARK_HOME": str(directory)}
