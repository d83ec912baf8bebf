"""`kafkalog warmup`: compile the fast kernels now, so that no later run has to."""

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
    """Compile the fast kernels now (5 to 20 seconds, once a machine and version)."""
    from kafkalog_cli.output.stream import ResultStream
    from kafkalog_cli.storage.kernels import cache_directory, warm_up_kernels

    environment = environment_of(context)
    out, errors = ResultStream(environment.stdout), ResultStream(environment.stderr)
    try:
        warm_up_kernels()
    except ImportError as error:
        errors.write(f"kafkalog: no compiled kernels on this platform, the plain ones serve: {error}\n")
        errors.flush()
        return ExitCode.FAILURE
    if not quiet:
        out.write(f"fast kernels are ready in {cache_directory()}\n")
        out.flush()
    return ExitCode.OK
