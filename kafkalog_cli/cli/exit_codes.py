"""The exit codes that the help of commands lists. A command adds its own codes and meanings to one of these sets."""

from kafkalog_cli.errors import ExitCode

MEANINGS = {
    ExitCode.OK: "success, or nothing to do",
    ExitCode.FAILURE: "failure",
    ExitCode.USAGE: "wrong usage",
    ExitCode.WARNINGS: "only warnings, or damage at the end of a log",
    ExitCode.CORRUPTION: "corruption found",
    ExitCode.PARTIAL: "some of several targets failed",
    ExitCode.NOT_FOUND: "no such path, not a Kafka log directory, or nothing selected",
    ExitCode.LOCKED: "locked by a broker or by another run",
    ExitCode.UNSUPPORTED: "unsupported format or codec",
    ExitCode.NO_SPACE: "no space left on the disk",
    ExitCode.REFUSED: "refused without a stronger option",
    ExitCode.INTERRUPTED: "interrupted",
}


def exit_codes(*codes: ExitCode) -> dict[ExitCode, str]:
    """Return exit codes with their usual meanings."""
    return {code: MEANINGS[code] for code in codes}


ANY = exit_codes(ExitCode.OK, ExitCode.FAILURE, ExitCode.USAGE, ExitCode.NO_SPACE, ExitCode.INTERRUPTED)
PATHS = ANY | exit_codes(ExitCode.NOT_FOUND)
READ = PATHS | exit_codes(ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.PARTIAL)
HOST_MISSING = {ExitCode.PARTIAL: f"{MEANINGS[ExitCode.PARTIAL]}, or a host did not answer (--each-host)"}
CHANGE = PATHS | exit_codes(
    ExitCode.WARNINGS, ExitCode.PARTIAL, ExitCode.LOCKED, ExitCode.UNSUPPORTED, ExitCode.REFUSED
)
CHANGE_DAMAGED = CHANGE | exit_codes(ExitCode.CORRUPTION)
