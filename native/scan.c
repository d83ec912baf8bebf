/* From the bytes of a log to columns of batches. */
#include "kafkalog.h"

static void put_batch(const uint8_t *entry, int64_t position, int64_t total, int check, int64_t *row, int64_t stride)
{
    int64_t base = load_i64(entry);
    row[B_POSITION * stride] = position;
    row[B_SIZE * stride] = total;
    row[B_BASE_OFFSET * stride] = base;
    row[B_LAST_OFFSET * stride] = add(base, load_i32(entry + AT_LAST_DELTA));
    row[B_EPOCH * stride] = load_i32(entry + AT_EPOCH);
    row[B_MAGIC * stride] = (int8_t)entry[AT_MAGIC];
    row[B_CRC * stride] = load_be32(entry + AT_CRC);
    row[B_ATTRIBUTES * stride] = entry[AT_ATTRIBUTES + 1];
    row[B_BASE_TIMESTAMP * stride] = load_i64(entry + AT_BASE_TIMESTAMP);
    row[B_MAX_TIMESTAMP * stride] = load_i64(entry + AT_MAX_TIMESTAMP);
    row[B_PRODUCER_ID * stride] = load_i64(entry + AT_PRODUCER_ID);
    row[B_PRODUCER_EPOCH * stride] = load_i16(entry + AT_PRODUCER_EPOCH);
    row[B_BASE_SEQUENCE * stride] = load_i32(entry + AT_BASE_SEQUENCE);
    row[B_COUNT * stride] = load_i32(entry + AT_COUNT);
    row[B_VALID * stride] = -1;
    if (check)
        row[B_VALID * stride] =
            total >= BATCH_HEADER &&
            kafkalog_crc32c(entry + AT_ATTRIBUTES, total - AT_ATTRIBUTES, 0) == load_be32(entry + AT_CRC);
}

static void put_message(const uint8_t *entry, int64_t position, int64_t total, int check, int64_t *row, int64_t stride)
{
    int64_t offset = load_i64(entry), is_set = entry[AT_OLD_ATTRIBUTES] & CODEC;
    int64_t timestamp = entry[AT_MAGIC] ? load_i64(entry + AT_V1_TIMESTAMP) : -1;
    row[B_POSITION * stride] = position;
    row[B_SIZE * stride] = total;
    row[B_BASE_OFFSET * stride] = is_set ? -1 : offset;
    row[B_LAST_OFFSET * stride] = offset;
    row[B_EPOCH * stride] = -1;
    row[B_MAGIC * stride] = entry[AT_MAGIC];
    row[B_CRC * stride] = load_be32(entry + AT_OLD_CRC);
    row[B_ATTRIBUTES * stride] = entry[AT_OLD_ATTRIBUTES];
    row[B_BASE_TIMESTAMP * stride] = timestamp;
    row[B_MAX_TIMESTAMP * stride] = timestamp;
    row[B_PRODUCER_ID * stride] = -1;
    row[B_PRODUCER_EPOCH * stride] = -1;
    row[B_BASE_SEQUENCE * stride] = -1;
    row[B_COUNT * stride] = is_set ? -1 : 1;
    row[B_VALID * stride] = -1;
    if (check)
        row[B_VALID * stride] =
            kafkalog_crc32(entry + AT_MAGIC, total - AT_MAGIC, 0) == load_be32(entry + AT_OLD_CRC);
}

static void finish(int64_t *result, int64_t rows, int64_t at, int64_t needed, int64_t why)
{
    result[0] = rows;
    result[1] = at;
    result[2] = needed;
    result[3] = why;
}

void kafkalog_scan(const uint8_t *data, int64_t size, int64_t left, int64_t position, int64_t max_batch, int check,
                   int64_t *rows, int64_t capacity, int64_t *result)
{
    int64_t at = 0, row = 0;
    while (at < left - TO_MAGIC) {
        if (row == capacity || size - at < TO_MAGIC)
            return finish(result, row, at, TO_MAGIC, SCAN_CONTINUES);
        const uint8_t *entry = data + at;
        int64_t stated = load_i32(entry + AT_SIZE), total = ENTRY_OVERHEAD + stated, magic = (int8_t)entry[AT_MAGIC];
        int64_t header = magic >= 2 ? BATCH_HEADER : magic == 1 ? V1_HEADER : V0_HEADER;
        if (stated < ENTRY_SMALLEST)
            return finish(result, row, at, 0, SCAN_TOO_SMALL);
        if (total > left - at)
            return finish(result, row, at, 0, SCAN_TRAILING);
        if (total > max_batch)
            return finish(result, row, at, 0, SCAN_TOO_LARGE);
        if (magic < 0 || header > left - at)
            return finish(result, row, at, 0, SCAN_HEADER);
        int64_t wanted = check && total > header ? total : header;
        if (wanted > size - at)
            return finish(result, row, at, wanted, SCAN_CONTINUES);
        (magic >= 2 ? put_batch : put_message)(entry, position + at, total, check, rows + row, capacity);
        row++;
        at += total;
    }
    finish(result, row, at, 0, at < left ? SCAN_TRAILING : SCAN_END);
}
