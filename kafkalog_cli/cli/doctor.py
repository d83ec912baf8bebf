"""`kafkalog doctor`: what a broker will do at its next start, what is wrong, and the next commands."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context

from kafkalog_cli.cli.environment import now_of
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import BrokerConfigOption, Format, MetadataOption, Now, OutputFormat
from kafkalog_cli.cli.verify import LevelChoice
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.choices import Level

if TYPE_CHECKING:
    from kafkalog_cli.disk.fs import Filesystem

EXAMPLES = (
    ("See what a broker will do at its next start, and what to do before", "kafkalog doctor /var/lib/kafka"),
    (
        "Find the page of a line of the broker's log",
        "kafkalog doctor /var/lib/kafka 'No readable meta.properties files found.'",
    ),
)
EXIT_CODES = (
    READ
    | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)
    | {
        ExitCode.OK: "no damage found",
        ExitCode.WARNINGS: "only warnings, damage that a broker cuts off, or an unknown ERROR-TEXT",
    }
)

_LONGEST_PATH = 4096


def doctor(  # noqa: PLR0913, PLR0917 options
    context: Context,
    words: Annotated[list[str], Argument(metavar="LOG_DIR... [ERROR-TEXT]", show_default=False,
        help="The log directories of a broker (a partition directory stands for its own), then lines of the broker's"
        " log. Their pages are found, also by a part of a line.")],
    level: LevelChoice = Level.NORMAL,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Print a broker's next start, and the commands that help now.

    The steps of the next start are listed in the order in which a broker takes them. They come from the findings of
    verify and from the plans of recover --like-broker. A step that removes bytes of a log, or that ends the start,
    is marked.

    The commands come from the findings and from the pages of the broker's lines. Commands that change nothing come
    first, then copies, then changes that can be undone. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.run import Run
    from kafkalog_cli.ops.doctor.examination import examine_all
    from kafkalog_cli.ops.session.options import SessionOptions
    from kafkalog_cli.output.doctor_view import DoctorText, write_objects

    run = Run(context, output)
    run.show_reads()
    now_ms = None if now is None else now_of(run.environment, now)
    options = SessionOptions(now_ms=now_ms, broker_config=broker_config, metadata=metadata)
    paths = [word for word in words[1:] if _is_path(run.fs, word)]
    text = "\n".join(word for word in words[1:] if word not in paths)
    examinations = examine_all(run.session_context, options, [words[0], *paths], text, level)
    counts = Counter[str]()
    for number, found in enumerate(examinations):
        if run.lines is not None:
            counts.update(write_objects(run.lines, found))
            continue
        if number:
            run.out.write("\n")
        DoctorText(run.out).write(found)
    run.codes += [found.exit_code for found in examinations]
    code = run.end(**counts)
    run.messages.report(*(note for found in examinations for note in found.notes))
    if any(found.text_is_unknown for found in examinations):
        run.messages.warn("unknown-text", "no page of docs/broker-messages is about this text")
    return code


def _is_path(fs: "Filesystem", word: str) -> bool:
    """Whether an argument is a path, perhaps a misspelt one, and not lines of a log."""
    return bool(re.fullmatch(r"(\.{0,2}|~)/\S*", word)) or (len(word) < _LONGEST_PATH and fs.status(word) is not None)
