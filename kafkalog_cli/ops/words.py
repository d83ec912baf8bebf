"""Words of results that several commands have."""

from typing import Annotated

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.format.compression import Codec, codec_name
from kafkalog_cli.results import keywords, lower_names

CodecWord = Annotated[str, keywords(enum=tuple(map(codec_name, Codec)))]
DirectoryWord = Annotated[
    DirectoryKind,
    lower_names(*(kind for kind in DirectoryKind if kind not in (DirectoryKind.REMOTE_INDEX_CACHE, DirectoryKind.OWN))),
    "by the directory's name",
]
