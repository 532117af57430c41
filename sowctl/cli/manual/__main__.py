"""``python -m sowctl.cli.manual man/``: regenerate the generated pages."""

from __future__ import annotations

import sys
from pathlib import Path

from sowctl.cli.manual.generators import write_pages

write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "man"))
