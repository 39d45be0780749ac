"""The command line: ``python -m simjoin`` and ``simjoin``."""

from __future__ import annotations

import sys

from . import _native


def run() -> None:
    """Runs the command line of this process."""
    sys.exit(_native.main(["simjoin", *sys.argv[1:]]))


if __name__ == "__main__":
    run()
