"""Options and arguments that several commands share, each spelled once."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH...", help="Files, partition directories, log directories, or globs of them."),
]

SELECTION_PANEL = "Selection"
LIMITS_PANEL = "Limits"
OUTPUT_PANEL = "Output"

MaxBatchBytes = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=1,
        help="Largest batch that is loaded; a larger one is damage.",
        rich_help_panel=LIMITS_PANEL,
    ),
]
MaxOutputBytes = Annotated[
    int,
    typer.Option(
        metavar="BYTES", min=1, help="Most bytes that one batch may decompress to.", rich_help_panel=LIMITS_PANEL
    ),
]
MaxRatio = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Most bytes out per byte in, looked at once a batch gives over 1 MiB.",
        rich_help_panel=LIMITS_PANEL,
    ),
]


class OutputFormat(Enum):
    """What results are printed as."""

    TEXT = "text"
    JSON = "json"


Format = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        help="What results are printed as; json is one object a line (NDJSON), errors too, on stderr.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
