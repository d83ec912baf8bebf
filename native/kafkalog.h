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

enum { CODEC = 0x07, APPEND_TIME = 0x08, DELETE_HORIZON = 0x40 };

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

static inline uint64_t load_le64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline int64_t load_i64(const uint8_t *at) { return (int64_t)load_be64(at); }
static inline int64_t load_i32(const uint8_t *at) { return (int32_t)load_be32(at); }
static inline int64_t load_i16(const uint8_t *at) { return (int16_t)(uint16_t)(at[0] << 8 | at[1]); }

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

/* Copy `rows` rows from row `first` on of `columns` columns with a stride into a matrix with the stride `rows`. */
EXPORT void kafkalog_take_rows(const int64_t *from, int64_t stride, int64_t columns, int64_t first, int64_t rows,
                               int64_t *to);

enum { SCAN_CONTINUES, SCAN_END, SCAN_TRAILING, SCAN_TOO_SMALL, SCAN_TOO_LARGE, SCAN_HEADER };

/* Find the batches in `data`, which contains a log from byte `position` on. The log has `left` bytes from there on, and
 * `size` of them are in `data`. Batches v2, v1 and v0 may be mixed (FileLogInputStream.nextBatch).
 *
 * `rows` gets BATCH_COLUMNS columns with the stride `capacity`. With `check` the CRCs are computed: B_VALID is 1 or 0,
 * otherwise -1. A batch above `max_batch` bytes ends the scan.
 *
 * `result` gets four integers: the number of rows; the bytes that they cover; the bytes from there on that the next
 * call needs in `data` (0 if the scan is complete); and why it ended, SCAN_*.
 */
EXPORT void kafkalog_scan(const uint8_t *data, int64_t size, int64_t left, int64_t position, int64_t max_batch,
                          int check, int64_t *rows, int64_t capacity, int64_t *result);

#endif
