"""The entry point of the command line."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process; the installed command calls this."""
    try:
        from kafkalog_cli.cli.process import exit_code

        code = exit_code(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were imported
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # at one more Ctrl-C, Python would end with another code
    sys.exit(code)


if __name__ == "__main__":
    main()
