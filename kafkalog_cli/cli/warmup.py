"""`kafkalog warmup`: compile the fast kernels and archive Spark's classes beforehand, so that no later run has to."""

import os
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import ANY
from kafkalog_cli.disk.kernels import COMPILING, cache_directory, is_warm, reason_of, warm_up_kernels
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.output.stream import ResultStream

EXAMPLES = (
    ("Compile now, for example while building an image", "kafkalog warmup"),
    ("Put the compiled code where all users can read it", "NUMBA_CACHE_DIR=/opt/kafkalog kafkalog warmup"),
)
EXIT_CODES = ANY


def warmup(
    context: Context,
    quiet: Annotated[bool, Option("--quiet", "-q", envvar="KAFKALOG_QUIET", help="Print nothing.")] = False,
) -> int:
    """Compile the fast kernels, and prepare Spark's start.

    This takes 20 to 60 seconds of processor time, once for each version of kafkalog. Otherwise a run on much data
    compiles the kernels that it needs, in 2 to 20 seconds. The compiled code is kept in $NUMBA_CACHE_DIR, or in the
    cache of the user.

    With the extra `spark`, this also keeps the classes that Spark's Java loads (170 MB, another minute). The commands
    that use Spark then start in half of the processor time, until Java or PySpark changes.
    """
    from kafkalog_cli.output.progress import Waiting

    environment: Environment = context.obj
    out, errors = ResultStream(environment.stdout), ResultStream(environment.stderr)
    if cache_directory() is None:
        reason = "there is no directory of this user to keep compiled code in: set NUMBA_CACHE_DIR to an absolute path"
        raise KafkalogError(reason=reason)
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
    return _prepare_spark(environment, out, errors, quiet=quiet)


def _prepare_spark(environment: Environment, out: "ResultStream", errors: "ResultStream", *, quiet: bool) -> int:
    """Make the archive of Spark's classes where Spark and Java are installed; return the exit code."""
    from kafkalog_cli.output.progress import Waiting
    from kafkalog_cli.spark.starting import has_archive, java_environment, make_archive, need_pyspark

    try:
        need_pyspark()
        java_environment(os.environ)
    except KafkalogError:
        return ExitCode.OK  # there is nothing to prepare
    try:
        if has_archive():
            return ExitCode.OK
        with Waiting(environment.stderr, "preparing Spark's start", is_shown=not quiet):
            archive = make_archive()
    except KafkalogError as error:
        errors.write(f"kafkalog: Spark's start is not prepared: {error}\n")
        errors.flush()
        return ExitCode.FAILURE
    if archive is not None and not quiet:
        out.write(f"the classes of Spark are kept in {archive}\n")
        out.flush()
    return ExitCode.OK
