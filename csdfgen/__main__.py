"""`python -m csdfgen` is the `csdfgen` command."""

from __future__ import annotations

import sys

from csdfgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
