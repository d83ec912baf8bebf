"""The entry point: answers --version at once, everything else through the command line proper."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] == ["--version"]:
        from kafkalog_cli import __version__

        print(f"kafkalog {__version__}")  # noqa: T201
        return
    from kafkalog_cli.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
