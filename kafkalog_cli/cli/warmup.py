"""`kafkalog warmup`: compile the fast kernels beforehand, so that no later run has to."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.errors import ExitCode

command = typer.Typer(add_completion=False)


@command.command("warmup")
def warmup(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> int:
    """Compile the fast kernels now, once per machine.

    This takes 20 to 90 seconds of processor time, once for each version of kafkalog and of Python. Otherwise the first
    run on much data compiles them. The compiled code is kept in $NUMBA_CACHE_DIR, or in the cache of the user.
    """
    from kafkalog_cli.disk.kernels import COMPILING, cache_directory, is_warm, reason_of, warm_up_kernels
    from kafkalog_cli.output.stream import ResultStream
    from kafkalog_cli.output.waiting import Waiting

    environment = environment_of(context)
    out, errors = ResultStream(environment.stdout), ResultStream(environment.stderr)
    try:
        if not is_warm() and not quiet:
            errors.write(f"kafkalog: {COMPILING}\n")
            errors.flush()
        with Waiting(environment.stderr, "compiling", is_shown=not quiet):
            warm_up_kernels()
    except Exception as error:  # for any error, other commands use the plain kernels; this command reports why
        errors.write(f"kafkalog: the compiled kernels do not load, and plain Python is slower: {reason_of(error)}\n")
        errors.flush()
        return ExitCode.FAILURE
    if not quiet:
        out.write(f"fast kernels are ready in {cache_directory()}\n")
        out.flush()
    return ExitCode.OK
