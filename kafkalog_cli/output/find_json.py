"""Found records as NDJSON, where records around the matches are printed too, and the counts of partitions."""

from typing import Annotated, TypedDict

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.ops.find.partition_search import SearchedPartition
from kafkalog_cli.output.ndjson import Count, ObjectKind, PathText
from kafkalog_cli.output.record_json import RecordJson
from kafkalog_cli.output.stream import ResultStream


class MatchCountObject(TypedDict):
    """The number of matching records of a partition, with `find --count`."""

    topic: PathText
    partition: Annotated[int, "-1: the directory's name has no number"]
    path: PathText
    matches: Count


MATCH_COUNT = ObjectKind("kafkalog.match-count/1", MatchCountObject)


def match_count(searched: SearchedPartition) -> MatchCountObject:
    """Return the object of a partition."""
    partition = searched.partition
    return {
        "topic": PathText(partition.topic),
        "partition": partition.number,
        "path": PathText(partition.path),
        "matches": searched.matches,
    }


def write_marked(out: ResultStream, text: RecordJson, block: RecordBlock, *, is_match: bool) -> None:
    """Write the lines of records, each with the member `match`. Large lines come in pieces."""
    end = f',"match":{"true" if is_match else "false"}}}\n'
    for piece in text.block(block):
        out.write(piece[:-2] + end if piece.endswith("}\n") else piece)
