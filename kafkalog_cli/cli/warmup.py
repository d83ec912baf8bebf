"""`kafkalog warmup`: archive Spark's classes, so that Spark starts sooner."""

import os
from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import ANY
from kafkalog_cli.disk.cache import cache_directory
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.output.stream import ResultStream

EXAMPLES = {
    "Prepare now, for example while building an image": "kafkalog warmup",
    "Put the archive where all users can read it": "KAFKALOG_CACHE_DIR=/opt/kafkalog kafkalog warmup",
}
EXIT_CODES = ANY


def warmup(
    context: Context,
    quiet: Annotated[bool, Option("--quiet", "-q", envvar="KAFKALOG_QUIET", help="Print nothing.")] = False,
) -> int:
    """Prepare Spark's start.

    With the extra `spark`, this keeps the classes that Spark's Java loads (170 MB, a minute of processor time). The
    commands that use Spark then start in half of the processor time, until Java or PySpark changes. The archive is kept
    in $KAFKALOG_CACHE_DIR, or in the cache of the user.
    """
    environment: Environment = context.obj
    out, errors = ResultStream(environment.stdout), ResultStream(environment.stderr)
    if cache_directory() is None:
        reason = "there is no directory of this user to keep the archive in: set KAFKALOG_CACHE_DIR to an absolute path"
        raise KafkalogError(reason=reason)
    return _prepare_spark(environment, out, errors, quiet=quiet)


def _prepare_spark(environment: Environment, out: ResultStream, errors: ResultStream, *, quiet: bool) -> int:
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
