/* The loops of kafkalog that touch every byte, batch or record. kafkalog_cli/format/native.py declares them to Python.
 *
 * Rules for every function:
 * - It keeps no state and allocates nothing: all memory is the caller's. The only globals are constants and the way to
 *   compute CRC-32C, which is chosen when the library is loaded. So calls may run in many threads at once.
 * - An input is a pointer and its size in bytes. Every length that the bytes state is checked against that size before
 *   anything is read. An input may have any contents.
 * - An output has a capacity, which is never exceeded: the function stops, and its result says where to continue.
 * - Integers are 64 bits wide and wrap as in Java. Little-endian processors only.
 * - Columns: a matrix of COLUMNS x `stride` integers. Column c of row r is at [c * stride + r].
 * - A call should end within about 50 ms, because Python cannot react to Ctrl-C before. Callers give it so much.
 */
#ifndef KAFKALOG_H
#define KAFKALOG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kafkalog runs on little-endian processors only"
#endif

#define EXPORT __attribute__((visibility("default")))

/* The columns of a batch, in the order of Batch in kafkalog_cli/format/batch.py. */
enum {
    B_POSITION, B_SIZE, B_BASE_OFFSET, B_LAST_OFFSET, B_EPOCH, B_MAGIC, B_CRC, B_ATTRIBUTES, B_BASE_TIMESTAMP,
    B_MAX_TIMESTAMP, B_PRODUCER_ID, B_PRODUCER_EPOCH, B_BASE_SEQUENCE, B_COUNT, B_VALID, BATCH_COLUMNS
};

/* The columns of a record, in the order of RecordColumns in kafkalog_cli/format/records.py. */
enum {
    R_OFFSET, R_TIMESTAMP, R_SEQUENCE, R_KEY_AT, R_KEY_SIZE, R_VALUE_AT, R_VALUE_SIZE, R_HEADERS_AT, R_HEADERS, R_CRC,
    R_VALID, RECORD_COLUMNS
};

/* Sizes and offsets of fields in an entry: a batch v2, or a message v0 or v1. */
enum {
    ENTRY_OVERHEAD = 12, ENTRY_SMALLEST = 14, TO_MAGIC = 17, AT_SIZE = 8, AT_EPOCH = 12, AT_MAGIC = 16, AT_CRC = 17,
    AT_ATTRIBUTES = 21, AT_LAST_DELTA = 23, AT_BASE_TIMESTAMP = 27, AT_MAX_TIMESTAMP = 35, AT_PRODUCER_ID = 43,
    AT_PRODUCER_EPOCH = 51, AT_BASE_SEQUENCE = 53, AT_COUNT = 57, BATCH_HEADER = 61,
    AT_OLD_CRC = 12, AT_OLD_ATTRIBUTES = 17, AT_V1_TIMESTAMP = 18, V0_HEADER = 18, V1_HEADER = 26
};

enum { CODEC = 0x07, APPEND_TIME = 0x08, CONTROL = 0x20, DELETE_HORIZON = 0x40 };

static inline uint64_t load_be64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return __builtin_bswap64(value);
}

static inline uint32_t load_be32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

static inline uint32_t load_le32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static inline uint64_t load_le64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline int64_t load_i64(const uint8_t *at) { return (int64_t)load_be64(at); }
static inline int64_t load_i32(const uint8_t *at) { return (int32_t)load_be32(at); }
static inline int64_t load_i16(const uint8_t *at) { return (int16_t)(uint16_t)(at[0] << 8 | at[1]); }

/* Store the lowest `size` bytes of a number, the highest first; return where they end. */
static inline uint8_t *store_be(uint8_t *to, uint64_t value, int size)
{
    for (int byte = size - 1; byte >= 0; byte--, value >>= 8)
        to[byte] = (uint8_t)value;
    return to + size;
}

/* Java's addition and subtraction, which wrap. */
static inline int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* The digest of the sources of which this library was built, as build.py computes it. */
EXPORT const char *kafkalog_sources(void);

/* CRC-32C (Castagnoli) and CRC-32 (IEEE) of `size` bytes that follow bytes with the CRC `before` (0 for none). */
EXPORT uint32_t kafkalog_crc32c(const uint8_t *data, int64_t size, uint32_t before);
EXPORT uint32_t kafkalog_crc32(const uint8_t *data, int64_t size, uint32_t before);
/* The same as kafkalog_crc32c without the processor's instruction. */
EXPORT uint32_t kafkalog_crc32c_by_table(const uint8_t *data, int64_t size, uint32_t before);

/* The CRC of the last `size` bytes of some, from the CRC of what is before them and the CRC of all. */
enum { CRC_32C, CRC_32 };
uint32_t crc_of_end(int kind, uint32_t before, uint32_t all, int64_t size);

enum { SCAN_CONTINUES, SCAN_END, SCAN_TRAILING, SCAN_TOO_SMALL, SCAN_TOO_LARGE, SCAN_HEADER };

/* Find the batches in `data`, which contains a log from byte `position` on. The log has `left` bytes from there on, and
 * `size` of them are in `data`. Batches v2, v1 and v0 may be mixed (FileLogInputStream.nextBatch).
 *
 * `rows` gets BATCH_COLUMNS columns with the stride `capacity`. With `check` the CRCs are computed: B_VALID is 1 or 0.
 * Otherwise it is -1, and only the headers of batches have to be in `data`. A batch above `max_batch` bytes ends the scan.
 *
 * `result` gets four integers: the number of rows; the bytes that they cover; the bytes from there on that the next
 * call needs in `data` (0 if the scan is complete); and why it ended, SCAN_*.
 */
EXPORT void kafkalog_scan(const uint8_t *data, int64_t size, int64_t left, int64_t position, int64_t max_batch,
                          int check, int64_t *rows, int64_t capacity, int64_t *result);

/* An entry that may begin at byte `start` of a file; its CRC covers the bytes `covered` to `end`. */
struct candidate {
    int64_t start, covered, end;
    uint32_t stored, before; /* the CRC that it states, and the running CRC at `covered` */
};

/* Candidates whose CRC is pending, as a heap with room for `capacity` of them, and the running CRC up to `position`. */
struct search_lane {
    struct candidate *heap;
    int64_t count, position;
    uint32_t crc;
};

/* A search for the first right batch v2, v1 or v0 (`is_v07`: message of 0.7) whose smallest form ends at `header_end`
 * or before. It has `largest` bytes at most. Messages v0 and v1 have offsets above `last_offset`; messages of 0.7 are
 * compressed if `is_in_compressed`: others may be in the contents of the damaged one. A search begins with `position`,
 * `found` = `resume` = -1, and no candidates. */
struct search {
    int64_t is_v07, is_in_compressed, last_offset, largest, header_end, file_end, capacity;
    int64_t position; /* where the bytes of the next call begin */
    int64_t found;    /* the start of the first right batch, -1 */
    int64_t resume;   /* where headers are tried again when no candidate is pending */
    struct search_lane lanes[2];
};

enum { SEARCH_DONE, SEARCH_FREE, SEARCH_PENDING };

/* Continue a search with the bytes from `position` on, at least 61 of them or all that are left. `is_last`: the file
 * ends after them, or cannot be read there; candidates that are longer are dropped. Returns whether it is done, or no
 * candidate is pending (bytes of a hole may be left out then, except the last 61), or some are. */
EXPORT int64_t kafkalog_search(struct search *search, const uint8_t *data, int64_t size, int is_last);

/* Why a record is not one: it ends past the batch; a varint has no end in it, or too many bytes; the fields do not fill
 * the record; the number of headers or the size of a header's key is impossible. */
enum { BAD_SHORT = -1, BAD_VARINT = -2, BAD_SIZE = -3, BAD_LENGTH = -4, BAD_HEADER_COUNT = -5, BAD_HEADER_KEY = -6 };

/* Decode the records of `count` batches v2. The (decompressed) records of batch i are bytes starts[i] to ends[i] of
 * `data`; `batches` are its columns. If `starts` is NULL, the batches are as stored, and `data` contains the log from byte
 * `position` on. `out` gets RECORD_COLUMNS columns with the stride `capacity`, and record_ends[i] the number of records
 * up to and including batch i. It stops before a batch that is damaged or does not fit; as stored, also before a batch
 * that has another format, a codec, control records, or more than `most` records.
 * `result` gets two integers: the number of batches, and of records. */
EXPORT void kafkalog_decode_batches(const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
                                    int64_t position, int64_t most, int64_t count, const int64_t *batches,
                                    int64_t stride, int64_t *out, int64_t capacity, int64_t *record_ends,
                                    int64_t *result);

/* Decode at most `count` records of one batch v2, those in bytes `at` to `end`. `out` may be NULL: then they are only
 * checked. `result` gets five integers: the number of records, the position after them, 0 or BAD_*, and two details:
 * of BAD_SIZE the stated size and the bytes left, otherwise the number that is wrong. */
EXPORT void kafkalog_decode_records(const uint8_t *data, int64_t size, int64_t at, int64_t end, int64_t count,
                                    const int64_t *batch, int64_t stride, int64_t *out, int64_t capacity,
                                    int64_t *result);

/* Write batches v2 from number `first` on to `out`, from byte `at` on. Batch i contains the records begins[i] to ends[i]
 * (exclusive) of the `rows` in `records`, those whose byte in `keep` is not 0 (NULL: all). Their bytes are in `data`.
 *
 * `batches` has BATCH_COLUMNS columns with the stride `count`, which are the wanted headers, and become those written.
 * The base timestamp is the first record's unless there is a delete horizon, and the largest timestamp the records'
 * unless it is the append time. A batch with a codec gets its records without compression, after space for the header.
 * It stops before a batch that does not fit. `result` gets the number of batches that are done, the position after
 * them, and whether it stopped at a record whose fields are not inside of `data`. */
EXPORT void kafkalog_encode_batches(const uint8_t *data, int64_t size, const int64_t *records, int64_t record_stride,
                                    int64_t rows, const uint8_t *keep, const int64_t *begins, const int64_t *ends,
                                    int64_t count, int64_t *batches, int64_t first, uint8_t *out, int64_t capacity,
                                    int64_t at, int64_t *result);

/* Write the headers of `count` batches whose records, as stored, are in `out` after space for them. Positions in the
 * columns are those in `out`. Returns how many are done: it stops at a batch that is not inside of `out`. */
EXPORT int64_t kafkalog_finish_batches(uint8_t *out, int64_t size, int64_t *batches, int64_t count);

/* The columns of a run of records on the way into a log: those of a record, the bytes of its headers, and where its bytes
 * begin. */
enum {
    NEW_HEADERS_SIZE = RECORD_COLUMNS, NEW_BEGIN, NEW_EPOCH, NEW_IS_APPEND_TIME, NEW_CODEC, NEW_PARTITION, NEW_TOPIC,
    NEW_IS_TRANSACTIONAL, NEW_COLUMNS
};

/* An offset of a new record, or a fact about where it comes from, that its input does not say. -1 is an epoch, too. */
enum { UNKNOWN = -2 };

/* A hash table of keys; see keys.c. The caller has all memory, and keeps the table from one call to the next. `slots`
 * has a power of two of them, at least one more than `entry_count`, which is below 2^32. */
struct key_table {
    int64_t *slots, *entries;
    uint8_t *arena;
    int64_t slot_count, entry_count, arena_bytes, count, used;
};

enum { KEYS_DONE, KEYS_NEED_SLOTS, KEYS_NEED_ARENA, KEYS_OUTSIDE };

/* Add the keys of records `first` to `end` of `records`; set bit 0 in `flags` of earlier records with the same keys.
 * The flag of row r is flags[first_flag + r]. Keys whose hash does not match `part` under `mask` are skipped. `result` gets
 * the next row, and KEYS_*: there is no room, or a key or a flag is outside of what was given. */
EXPORT void kafkalog_put_keys(struct key_table *table, const uint8_t *data, int64_t size, const int64_t *records,
                              int64_t stride, int64_t first, int64_t end, int64_t first_flag, int64_t mask, int64_t part,
                              uint8_t *flags, int64_t flag_count, int64_t *result);

/* Set bit 0 in `flags` of the records whose key is in the table; return their number, -1 for one outside. */
EXPORT int64_t kafkalog_mark_keys(const struct key_table *table, const uint8_t *data, int64_t size,
                                  const int64_t *records, int64_t stride, int64_t first, int64_t end, int64_t first_flag,
                                  int64_t mask, int64_t part, uint8_t *flags, int64_t flag_count);

/* Insert all keys into new slots, which must be 0. */
EXPORT void kafkalog_fill_slots(struct key_table *table);

/* Copy the fields at[i], sizes[i] of `data` to `out`, one after another; nothing for a size below 0, which is null.
 * `ends` (rows + 1) gets the start of each and the end of the last. Returns the bytes, -1 for a field outside. */
EXPORT int64_t kafkalog_copy_fields(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *sizes,
                                    int64_t rows, int64_t *ends, uint8_t *out, int64_t capacity);

/* Columns of the keys and values of headers, as kafkalog_copy_fields makes them; `valid` gets 0 for each null value. All
 * arrays have room for `most` headers. */
struct header_columns {
    int64_t *key_ends, *value_ends;
    uint8_t *keys, *values, *valid;
    int64_t key_bytes, value_bytes, most;
};

/* Copy the keys and values of all headers; counts[i] headers are at byte at[i] of `data`. If `out` is NULL, nothing is
 * copied. `result` gets the bytes of all keys and of all values. Returns 0, -1 if something is outside. */
EXPORT int64_t kafkalog_copy_headers(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *counts,
                                     int64_t rows, const struct header_columns *out, int64_t *result);

/* A column of byte fields: field i is bytes ends[i] to ends[i + 1] of `data`, or null where `valid` is 0 (NULL: none). */
struct field_column {
    const uint8_t *data;
    int64_t size;
    const int64_t *ends;
    const uint8_t *valid;
};

/* Copy key, value and headers of each record into `out`, record after record; return the bytes, -1 if they do not fit.
 * Record i has the headers header_ends[i] to header_ends[i + 1]. `columns` gets NEW_COLUMNS with the stride `rows`. */
EXPORT int64_t kafkalog_join_columns(const struct field_column *keys, const struct field_column *values,
                                     const int64_t *header_ends, int64_t header_count,
                                     const struct field_column *header_keys, const struct field_column *header_values,
                                     const int64_t *timestamps, int64_t rows, uint8_t *out, int64_t capacity,
                                     int64_t *columns);

/* Read NDJSON lines from byte `at` of `text` on, as dump-log prints them, until one is unusual or `columns` is full. The
 * last line ends in a newline, and 8 more bytes follow it. The bytes of the records are put into `out` from byte `to` on,
 * where it has room for those of the lines and 64 more. `columns` gets NEW_COLUMNS from row `row` on, with a stride,
 * which is also the largest number of records. `now_ms` is the timestamp of a record whose line has none. `result` gets
 * the position after the lines, the end of the bytes in `out` and of the rows, and the number of lines. */
EXPORT void kafkalog_read_lines(const uint8_t *text, int64_t size, int64_t at, int64_t now_ms, uint8_t *out,
                                int64_t capacity, int64_t to, int64_t *columns, int64_t stride, int64_t row,
                                int64_t *result);

/* Copy `count` of the new records with their bytes: to `out` from byte `to` on, and to the columns `target`. `rows` says
 * which of the `most` there are; NULL: the first. Returns where the bytes end; -1 for a row that is not there, a record
 * outside of `data`, or if they do not fit. */
EXPORT int64_t kafkalog_copy_records(const uint8_t *data, int64_t size, const int64_t *columns, int64_t stride,
                                     int64_t most, const int64_t *rows, int64_t count, uint8_t *out, int64_t to,
                                     int64_t capacity, int64_t *target, int64_t target_stride);

/* What batches keep of new records: their codecs, leader epochs; offsets and append times. */
enum { KEEPS_CODECS = 1, KEEPS_EPOCHS = 2, KEEPS_OFFSETS = 4 };

/* Put the row after each batch of new records into `ends`, which has room for all rows, and return the number of
 * batches. The records of a batch have at most `room` bytes if there are several, and at most `most` rows; each
 * `most_of_block` rows end a batch, too. Records of a batch have one value of what `keeps` says. `current` are the epoch
 * and the codec of the record before; a record gets them if its own are UNKNOWN. */
EXPORT int64_t kafkalog_batch_ends(int64_t *columns, int64_t stride, int64_t rows, int64_t room, int64_t most,
                                   int64_t most_of_block, int keeps, int64_t *current, int64_t *ends);

/* The indexes of a segment, which grow as batches are appended. `interval` are the bytes between two batches with
 * entries, `indexed_position` where the last of them begins. The timestamp is the largest of all batches, and its
 * offset. There are `offsets` and `times` entries; the rest is the last of each. */
struct growing_indexes {
    int64_t base_offset, interval, most_offsets, most_times, indexed_position, max_timestamp, offset_of_max;
    int64_t offsets, last_offset, times, last_time, last_time_offset;
};

/* The offset of a batch is below the base offset or too far above it; the offset index is full; the offset is not above
 * the last one; the time index is full; the offset of the largest timestamp is below the last one. */
enum { INDEX_ADDED, INDEX_OUT_OF_RANGE, INDEX_FULL, INDEX_NOT_ABOVE, INDEX_TIMES_FULL, INDEX_TIME_BELOW };

/* Append batches; `is_last` also adds the entry that a closed segment gets. `offset_entries` gets the bytes of at most
 * `rows` entries, `time_entries` of one more. `result` gets the number of batches before the one that was refused, why
 * (INDEX_*), and the bytes of the two outputs. */
EXPORT void kafkalog_index_batches(struct growing_indexes *indexes, const int64_t *positions,
                                   const int64_t *last_offsets, const int64_t *timestamps, int64_t rows, int is_last,
                                   uint8_t *offset_entries, uint8_t *time_entries, int64_t *result);

/* Read `rows` entries of an offset index (offset, position), or of a time index (timestamp, offset), into two columns.
 * Offsets become absolute. Returns how many are in `data`; `rises` gets how each column rises, as in
 * kafkalog_extremes, if there are any. */
EXPORT int64_t kafkalog_index_columns(const uint8_t *data, int64_t size, int64_t rows, int64_t base_offset,
                                      int is_time_index, int64_t *first, int64_t *second, int64_t *rises);

/* What is true of one or more batches. `result` gets the least of each column, the largest of each column, and how many
 * batches do not follow the one before without a gap; begin at or below its last offset, or above their own; and have
 * another number of records than offsets. */
EXPORT void kafkalog_survey(const int64_t *batches, int64_t stride, int64_t rows, int64_t *result);

/* The first of `count` batches, from `number` on, whose records contradict it; `count` if there is none. `record_ends`
 * is as kafkalog_decode_batches makes it. `result` gets whether offsets do not ascend or are outside of the batch's,
 * whether its largest timestamp is not the largest of the records, and that of the records. */
EXPORT int64_t kafkalog_contradiction(const int64_t *records, int64_t record_stride, int64_t record_count,
                                      const int64_t *record_ends, const int64_t *batches, int64_t stride,
                                      int64_t count, int64_t number, int64_t *result);

/* How many entries of an offset index from the first on have the position and the last offset of a batch v2. Those
 * entries and the batches ascend in positions. `single` gets 1 for an entry whose batch has one offset, 0 for others. */
EXPORT int64_t kafkalog_match_positions(const int64_t *offsets, const int64_t *positions, int64_t entries,
                                        const int64_t *batches, int64_t stride, int64_t rows, uint8_t *single);

/* How many entries of a time index from the first on have the last offset and the timestamp of a batch, while all
 * batches before it have smaller timestamps. Entries and batches ascend in offsets; `largest` is the largest timestamp
 * before the first batch. */
EXPORT int64_t kafkalog_match_times(const int64_t *timestamps, const int64_t *offsets, int64_t entries,
                                    const int64_t *batches, int64_t stride, int64_t rows, int64_t largest);

/* The least and the largest of one or more integers, and whether each is above the one before it (1), or some are equal
 * (0), or some are below it (-1), and the bits that are set in any of them. */
EXPORT void kafkalog_extremes(const int64_t *values, int64_t rows, int64_t *result);

/* The rows where the first offset does not follow the last offset without a gap. `found` has room for all rows; returns
 * how many there are. */
EXPORT int64_t kafkalog_gaps(const int64_t *lasts, const int64_t *firsts, int64_t rows, int64_t *found);

/* How many bytes from `text` on, where no character of UTF-8 is, become one U+FFFD in Java (String.decodeUTF8_UTF16,
 * JDK 17). At least one byte of the `left` is there. */
EXPORT int64_t kafkalog_malformed_bytes(const uint8_t *text, int64_t left);

/* The hashes of keys as in Kafka's producers (Utils.murmur2), unsigned: of sizes[i] bytes at at[i] of `data`, of no byte
 * for a size below 0. Returns how many are hashed: it stops at a key outside. */
EXPORT int64_t kafkalog_murmur2(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *sizes, int64_t rows,
                                int64_t *hashes);

#endif
