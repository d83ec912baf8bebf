/* From columns of records to record batches v2 (DefaultRecord.writeTo, MemoryRecordsBuilder). */
#include "records.h"

enum { NO_ROOM = -1, BAD_FIELD = -2 };

/* The stored size of a key or value: -1 for null, 0 if it reaches past the bytes of its message (its position is -1). */
static int64_t stored_size(int64_t at, int64_t size)
{
    return size < 0 ? -1 : at < 0 ? 0 : size;
}

/* Append a record; return the position after it, or one of the above. */
static int64_t put_record(const uint8_t *data, int64_t size, const int64_t *record, int64_t stride,
                          int64_t base_offset, int64_t base_timestamp, uint8_t *out, int64_t capacity, int64_t at)
{
    int64_t timestamp = subtract(record[R_TIMESTAMP * stride], base_timestamp);
    int64_t offset = subtract(record[R_OFFSET * stride], base_offset);
    int64_t key_at = record[R_KEY_AT * stride], value_at = record[R_VALUE_AT * stride];
    int64_t key = stored_size(key_at, record[R_KEY_SIZE * stride]);
    int64_t value = stored_size(value_at, record[R_VALUE_SIZE * stride]);
    int64_t headers = record[R_HEADERS * stride], headers_at = record[R_HEADERS_AT * stride], headers_size = 0;
    if ((key > 0 && !is_inside(key_at, key, size)) || (value > 0 && !is_inside(value_at, value, size)))
        return BAD_FIELD;
    if (headers > 0) {
        int64_t valid, detail;
        if (!is_inside(headers_at, 0, size))
            return BAD_FIELD;
        int64_t end = skip_headers(data, headers_at, size, headers, &valid, &detail);
        if (end < 0 || end > size)
            return BAD_FIELD;
        headers_size = end - headers_at;
    }
    int64_t body = 1 + varint_size(timestamp) + varint_size(offset) + varint_size(key) + (key > 0 ? key : 0) +
                   varint_size(value) + (value > 0 ? value : 0) + varint_size(headers) + headers_size;
    if (varint_size(body) + body > capacity - at)
        return NO_ROOM;
    at = put_varint(out, at, body);
    out[at++] = 0;
    at = put_varint(out, at, timestamp);
    at = put_varint(out, at, offset);
    at = put_varint(out, at, key);
    at = put_bytes(out, at, data + (key > 0 ? key_at : 0), key);
    at = put_varint(out, at, value);
    at = put_bytes(out, at, data + (value > 0 ? value_at : 0), value);
    at = put_varint(out, at, headers);
    return put_bytes(out, at, data + (headers_size > 0 ? headers_at : 0), headers_size);
}

/* Write the header of a batch whose records are in `out` already, and its CRC into the columns too. */
static void put_header(uint8_t *out, int64_t *batch, int64_t stride)
{
    uint8_t *at = out + batch[B_POSITION * stride];
    int64_t size = batch[B_SIZE * stride];
    store_be(at, (uint64_t)batch[B_BASE_OFFSET * stride], 8);
    store_be(at + AT_SIZE, (uint64_t)(size - ENTRY_OVERHEAD), 4);
    store_be(at + AT_EPOCH, (uint64_t)batch[B_EPOCH * stride], 4);
    at[AT_MAGIC] = 2;
    store_be(at + AT_ATTRIBUTES, (uint64_t)batch[B_ATTRIBUTES * stride], 2);
    store_be(at + AT_LAST_DELTA, (uint64_t)subtract(batch[B_LAST_OFFSET * stride], batch[B_BASE_OFFSET * stride]), 4);
    store_be(at + AT_BASE_TIMESTAMP, (uint64_t)batch[B_BASE_TIMESTAMP * stride], 8);
    store_be(at + AT_MAX_TIMESTAMP, (uint64_t)batch[B_MAX_TIMESTAMP * stride], 8);
    store_be(at + AT_PRODUCER_ID, (uint64_t)batch[B_PRODUCER_ID * stride], 8);
    store_be(at + AT_PRODUCER_EPOCH, (uint64_t)batch[B_PRODUCER_EPOCH * stride], 2);
    store_be(at + AT_BASE_SEQUENCE, (uint64_t)batch[B_BASE_SEQUENCE * stride], 4);
    store_be(at + AT_COUNT, (uint64_t)batch[B_COUNT * stride], 4);
    uint32_t crc = kafkalog_crc32c(at + AT_ATTRIBUTES, size - AT_ATTRIBUTES, 0);
    store_be(at + AT_CRC, crc, 4);
    batch[B_CRC * stride] = crc;
}

void kafkalog_encode_batches(const uint8_t *data, int64_t size, const int64_t *records, int64_t record_stride,
                             int64_t rows, const uint8_t *keep, const int64_t *begins, const int64_t *ends,
                             int64_t count, int64_t *batches, int64_t first, uint8_t *out, int64_t capacity,
                             int64_t at, int64_t *result)
{
    int64_t number = first;
    result[2] = 0;
    for (; number < count; number++) {
        int64_t *batch = batches + number, here = at + BATCH_HEADER, largest = -1, written = 0;
        int64_t base_timestamp = batch[B_BASE_TIMESTAMP * count];
        int has_base = (batch[B_ATTRIBUTES * count] & DELETE_HORIZON) != 0;
        if (begins[number] < 0 || ends[number] > rows) {
            result[2] = 1;
            break;
        }
        if (!is_inside(at, BATCH_HEADER, capacity))
            break;
        for (int64_t row = begins[number]; row < ends[number] && here >= 0; row++) {
            if (keep != NULL && !keep[row])
                continue;
            int64_t timestamp = records[R_TIMESTAMP * record_stride + row];
            if (!has_base) {
                base_timestamp = timestamp;
                has_base = 1;
            }
            here = put_record(data, size, records + row, record_stride, batch[B_BASE_OFFSET * count], base_timestamp,
                              out, capacity, here);
            largest = timestamp > largest ? timestamp : largest;
            written++;
        }
        if (here < 0) {
            result[2] = here == BAD_FIELD;
            break;
        }
        batch[B_COUNT * count] = written;
        if (written == 0) {
            batch[B_ATTRIBUTES * count] &= ~(int64_t)(CODEC | DELETE_HORIZON);
            batch[B_BASE_TIMESTAMP * count] = -1;
        } else {
            batch[B_BASE_TIMESTAMP * count] = base_timestamp;
            if (!(batch[B_ATTRIBUTES * count] & APPEND_TIME))
                batch[B_MAX_TIMESTAMP * count] = largest;
        }
        batch[B_POSITION * count] = at;
        batch[B_SIZE * count] = here - at;
        batch[B_MAGIC * count] = 2;
        batch[B_VALID * count] = 1;
        if (!(batch[B_ATTRIBUTES * count] & CODEC))
            put_header(out, batch, count);
        at = here;
    }
    result[0] = number;
    result[1] = at;
}

int64_t kafkalog_finish_batches(uint8_t *out, int64_t size, int64_t *batches, int64_t count)
{
    for (int64_t number = 0; number < count; number++) {
        int64_t batch_size = batches[B_SIZE * count + number];
        if (batch_size < BATCH_HEADER || !is_inside(batches[B_POSITION * count + number], batch_size, size))
            return number;
        put_header(out, batches + number, count);
    }
    return count;
}
