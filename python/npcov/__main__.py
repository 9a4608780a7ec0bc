"""The command ``npcov``."""

from __future__ import annotations

import sys

from . import _npcov


def main() -> int:
    """Runs the command line, and gives its exit code."""
    return _npcov.run_command(["npcov", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
