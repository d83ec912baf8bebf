"""The meaning of findings in batches and records: how bad they are, what a broker does, and what to do."""

from __future__ import annotations

from kafkalog_cli.ops.checks.finding_kinds import Diagnosis, FindingKind, Severity
from kafkalog_cli.ops.next_steps import EPOCHS_STAY, REPLICATE, SALVAGE

_INFO, _WARNING, _CORRUPTION = Severity.INFO, Severity.WARNING, Severity.CORRUPTION

_OF_CONTENTS = (
    f"{SALVAGE.text}. A batch with a correct checksum is in the copy, too, and perhaps in other replicas. Then"
    " the only remedy is to set consumers to the offset after it"
)
_READABLE = "nothing has to be done to the log: consumers get the records as they are"
_RECOVER = "`kafkalog recover PATH` cuts the tail off and keeps the bytes"
_CUTS_AT_IT = (
    "after an unclean stop a broker reads the segments from the recovery point on. In them it cuts the log there, and"
    " sets all later segments aside. In other segments it keeps the damage, and consumers fail at it"
)
_CONSUMERS_FAIL = "a broker does not look inside batches: it serves it, and consumers fail at it"


LOG_DIAGNOSES = {
    # the chain of batches
    FindingKind.TORN_TAIL: Diagnosis(
        _WARNING,
        "after an unclean stop a broker cuts it off; after a clean stop it stays, and the log may end at the last"
        " segment's base offset for readers",
        _RECOVER,
    ),
    FindingKind.ZERO_TAIL: Diagnosis(
        _WARNING,
        "after an unclean stop a broker cuts it off; after a clean stop it does not start",
        _RECOVER,
    ),
    FindingKind.BAD_TAIL_BATCH: Diagnosis(
        _WARNING,
        "after an unclean stop a broker cuts it off; after a clean stop it keeps it, and consumers fail at it",
        _RECOVER,
    ),
    FindingKind.DAMAGED_RANGE: Diagnosis(_CORRUPTION, _CUTS_AT_IT, SALVAGE.text),
    FindingKind.ZEROED_RANGE: Diagnosis(
        _CORRUPTION,
        "after an unclean stop a broker cuts the log there and sets all later segments aside; where it only reads the"
        " segment at start, it does not start",
        SALVAGE.text,
    ),
    FindingKind.CRC_MISMATCH: Diagnosis(_CORRUPTION, _CUTS_AT_IT, SALVAGE.text),
    FindingKind.UNREADABLE_RANGE: Diagnosis(
        _CORRUPTION,
        "a broker takes the whole log directory offline when it reads there",
        "use another disk from now on; " + SALVAGE.text,
    ),
    FindingKind.BATCH_TOO_LARGE: Diagnosis(
        _CORRUPTION,
        "a broker reads a batch of any size that lies within the file",
        "if the size is right, verify with a larger limit: `kafkalog verify PATH --max-batch-bytes BYTES`. Else, "
        + SALVAGE.text,
    ),
    FindingKind.UNKNOWN_MAGIC: Diagnosis(
        _CORRUPTION,
        "a broker treats it as a batch of the newest format; consumers fail at it",
        SALVAGE.text,
    ),
    FindingKind.OFFSETS_NOT_ASCENDING: Diagnosis(
        _CORRUPTION,
        "consumers miss records or read them twice. A broker notices it only where an index entry would go back: it"
        " then empties the segment, or does not start",
        SALVAGE.text,
    ),
    FindingKind.OFFSET_OUTSIDE_SEGMENT: Diagnosis(
        _CORRUPTION,
        "a broker that recovers the segment splits it, or does not start",
        SALVAGE.text,
    ),
    FindingKind.OFFSET_GAP: Diagnosis(_INFO, "none: compaction leaves gaps, and consumers pass over them", ""),
    FindingKind.MISSING_OFFSETS: Diagnosis(
        _WARNING,
        "none: consumers pass over the gap without an error. The records are lost, unless the topic was once compacted:"
        " an earlier compaction may explain the gap",
        "compare with another replica or a backup (--against); if the topic is or was compacted, that explains the gap:"
        " `kafkalog verify PATH --config cleanup.policy=compact`",
    ),
    FindingKind.EPOCH_GOES_BACK: Diagnosis(
        _CORRUPTION,
        "a broker does not notice; replicas that compare epochs may cut their logs at the wrong place",
        EPOCHS_STAY.text,
    ),
    FindingKind.EMPTY_SEGMENT: Diagnosis(_INFO, "none: it is kept", ""),
    FindingKind.SEGMENT_TOO_LARGE: Diagnosis(
        _CORRUPTION, "a broker does not open a segment of 2 GiB or more", SALVAGE.text
    ),
    # batches and records
    FindingKind.FUTURE_TIMESTAMP: Diagnosis(
        _WARNING,
        "retention by time keeps the segment until that time is past; look-ups by time find it too early",
        _READABLE + ". Correct the clock of the producer. retention.bytes removes the segment, retention.ms does not",
    ),
    FindingKind.TIMESTAMP_UNIT: Diagnosis(
        _WARNING,
        "retention by time deletes the segment at once (seconds) or never (microseconds, nanoseconds)",
        _READABLE + ". Have the producer send milliseconds; until these records are removed, set retention.ms=-1 and"
        " retention.bytes for the topic",
    ),
    FindingKind.NEGATIVE_TIMESTAMP: Diagnosis(
        _WARNING,
        "look-ups by time do not find it; retention uses the modification time of the file",
        _READABLE + ". Have the producer send milliseconds since 1970",
    ),
    FindingKind.MAX_TIMESTAMP: Diagnosis(
        _WARNING,
        "look-ups by time and retention use the header, not the records",
        _READABLE,
    ),
    FindingKind.RECORD_COUNT: Diagnosis(_CORRUPTION, _CONSUMERS_FAIL, _OF_CONTENTS),
    FindingKind.INVALID_RECORD: Diagnosis(_CORRUPTION, _CONSUMERS_FAIL, _OF_CONTENTS),
    FindingKind.DECOMPRESSION: Diagnosis(
        _CORRUPTION,
        "a broker does not decompress at start: it serves it, and consumers and the cleaner fail at it",
        _OF_CONTENTS,
    ),
    FindingKind.UNKNOWN_CODEC: Diagnosis(_CORRUPTION, _CONSUMERS_FAIL, _OF_CONTENTS),
    FindingKind.OUTPUT_TOO_LARGE: Diagnosis(
        _CORRUPTION,
        "a broker that cleans the log, and consumers, need that much memory",
        "if the size may be right, verify with the largest limits, for which up to 2 GiB of memory are needed:"
        " `kafkalog verify PATH --level deep --max-output-bytes 2147483647 --max-ratio 2147483647`. A batch that is"
        " over these limits too was made to do harm; the topic's retention removes it",
    ),
    FindingKind.INNER_MESSAGE: Diagnosis(_CORRUPTION, _CONSUMERS_FAIL, _OF_CONTENTS),
    FindingKind.PACKED_VALUE: Diagnosis(
        _WARNING,
        "a broker serves it as one record with the compressed bytes as its value: consumers do not get the messages"
        " inside",
        "ask the owner of the producers: if values are meant to be such sets, nothing has to be done. Else, if another"
        f" replica is in sync, {REPLICATE}",
    ),
    FindingKind.RECORD_OFFSET: Diagnosis(
        _CORRUPTION,
        "a broker does not check the offsets of records; consumers get them as they are, out of order or twice",
        _OF_CONTENTS,
    ),
    FindingKind.CONTROL_RECORD: Diagnosis(
        _CORRUPTION,
        "a broker that rebuilds the producers' state fails at it, or treats the transaction as still open",
        SALVAGE.text,
    ),
}
