"""`kafkalog doctor`: what a broker will do at its next start, what is wrong, and the next commands."""

from typing import Annotated

from kafkalog_cli.cli.declared import Argument, Command, CommandContext
from kafkalog_cli.cli.environment import now_of
from kafkalog_cli.cli.options import BrokerConfigOption, Format, MetadataOption, Now, OutputFormat
from kafkalog_cli.cli.shown_reading import shown_reading
from kafkalog_cli.cli.verify import LevelChoice
from kafkalog_cli.ops.choices import Level


def doctor(  # noqa: PLR0913, PLR0917 options
    context: CommandContext,
    path: Annotated[str, Argument(metavar="LOG_DIR", help="A log directory, or a partition directory in it.",
        show_default=False)],
    error_text: Annotated[str, Argument(metavar="[ERROR-TEXT]", show_default=False,
        help="Lines of the broker's log. Their pages are found, also by a part of a line.")] = "",
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
    from kafkalog_cli.cli.command_output import CommandOutput
    from kafkalog_cli.ops.doctor.examination import examine
    from kafkalog_cli.ops.session.options import SessionOptions
    from kafkalog_cli.output.doctor_view import DoctorText, write_objects

    environment = context.environment
    shown = CommandOutput(environment, as_json=output.is_json)
    now_ms = None if now is None else now_of(environment, now)
    options = SessionOptions(now_ms=now_ms, broker_config=broker_config, metadata=metadata)
    found = examine(environment.context, options, path, error_text, level)
    counts = {}
    if shown.lines is not None:
        counts = write_objects(shown.lines, found)
    else:
        DoctorText(shown.out).write(found)
    shown.end(found.exit_code, **counts)
    shown.messages.report(*found.notes)
    if found.text_is_unknown:
        shown.messages.warn("unknown-text", "no page of docs/broker-messages is about this text")
    return found.exit_code


command = Command(doctor, surroundings=shown_reading)
