"""The exit codes that the help of commands lists. A command adds its own codes and meanings to one of these sets."""

from kafkalog_cli.errors import EXIT_CODE_MEANINGS, ExitCode


def exit_codes(*codes: ExitCode) -> dict[ExitCode, str]:
    """Return exit codes with their usual meanings."""
    return {code: EXIT_CODE_MEANINGS[code] for code in codes}


ANY = exit_codes(ExitCode.OK, ExitCode.FAILURE, ExitCode.USAGE, ExitCode.NO_SPACE, ExitCode.INTERRUPTED)
PATHS = ANY | exit_codes(ExitCode.NOT_FOUND)
READ = PATHS | exit_codes(ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.PARTIAL)
CHANGE = PATHS | exit_codes(
    ExitCode.WARNINGS, ExitCode.PARTIAL, ExitCode.LOCKED, ExitCode.UNSUPPORTED, ExitCode.REFUSED
)
CHANGE_DAMAGED = CHANGE | exit_codes(ExitCode.CORRUPTION)
