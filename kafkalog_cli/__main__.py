"""The entry point of the command line."""

import sys


def main() -> None:
    """Run the command line and end the process; the installed command calls this."""
    try:
        from kafkalog_cli.cli.process import exit_code

        sys.exit(exit_code(sys.argv[1:]))
    except KeyboardInterrupt:  # while modules were imported
        sys.exit(130)


if __name__ == "__main__":
    main()
