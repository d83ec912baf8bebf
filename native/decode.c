/* From the bytes of record batches v2 to columns of records (DefaultRecordBatch.iterator, DefaultRecord.readFrom). */
#include "records.h"

int64_t long_varint(const uint8_t *data, int64_t *at, int64_t end, int most)
{
    uint64_t value = 0;
    for (int byte = 0; byte < most; byte++) {
        if (*at + byte >= end) {
            *at = BAD_SHORT;
            return 0;
        }
        uint64_t next = data[*at + byte];
        value |= (next & 0x7F) << 7 * byte;
        if (next < 0x80) {
            *at += byte + 1;
            if (most == 5)
                value = (uint32_t)value;
            return zigzag(value);
        }
    }
    *at = BAD_VARINT;
    return 0;
}

/* Move behind a key or value. The position may be behind `end` then, where no varint is read. */
static inline void skip(int64_t *at, int64_t size)
{
    if (*at >= 0 && size > 0)
        *at += size;
}

int64_t skip_headers(const uint8_t *data, int64_t at, int64_t end, int64_t count, int64_t *valid, int64_t *detail)
{
    *valid = 1;
    if (count < 0 || count > end - at) {
        *detail = count;
        return BAD_HEADER_COUNT;
    }
    for (int64_t header = 0; header < count && at >= 0; header++) {
        int64_t size = varint(data, &at, end, 5);
        if (at >= 0 && size < 0) {
            *detail = size;
            return BAD_HEADER_KEY;
        }
        skip(&at, size);
        size = varint(data, &at, end, 5);
        skip(&at, size);
        if (size < -1)
            *valid = UNUSUAL_HEADER;
    }
    return at;
}

/* Write `count` records from byte `at` on to the rows of `out` (NULL: only check them). `detail` has two integers.
 * Returns the number of records before the first that is bad, and in `at` where that begins. */
static int64_t decode(const uint8_t *data, int64_t *at, int64_t end, int64_t count, const int64_t *batch,
                      int64_t stride, int64_t *out, int64_t capacity, int64_t *why, int64_t *detail)
{
    int64_t base = batch[B_BASE_OFFSET * stride], base_timestamp = batch[B_BASE_TIMESTAMP * stride];
    int64_t append_time = batch[B_MAX_TIMESTAMP * stride], base_sequence = batch[B_BASE_SEQUENCE * stride];
    int is_append_time = (batch[B_ATTRIBUTES * stride] & APPEND_TIME) != 0;
    for (int64_t record = 0; record < count; record++) {
        int64_t here = *at;
        /* The fields of records are too far apart for the processor to fetch them ahead by itself. */
        __builtin_prefetch((const void *)((uintptr_t)data + (uintptr_t)here + 768));
        __builtin_prefetch((const void *)((uintptr_t)data + (uintptr_t)here + 832));
        int64_t length = varint(data, &here, end, 5), body = here, valid = 1;
        if (here >= 0 && length > end - here) {
            *why = BAD_SIZE;
            detail[0] = length;
            detail[1] = end - here;
            return record;
        }
        skip(&here, 1); /* the attributes, which are unused */
        int64_t timestamp = varint(data, &here, end, 10), delta = varint(data, &here, end, 5);
        int64_t key_size = varint(data, &here, end, 5), key_at = here;
        skip(&here, key_size);
        int64_t value_size = varint(data, &here, end, 5), value_at = here;
        skip(&here, value_size);
        int64_t headers = varint(data, &here, end, 5), headers_at = here;
        if (here >= 0 && headers)
            here = skip_headers(data, here, end, headers, &valid, detail);
        if (here >= 0 && here != body + length) {
            here = BAD_LENGTH;
            detail[0] = length;
        }
        if (here < 0) {
            *why = here;
            return record;
        }
        *at = here;
        if (out == NULL)
            continue;
        int64_t *row = out + record;
        row[R_OFFSET * capacity] = add(base, delta);
        row[R_TIMESTAMP * capacity] = is_append_time ? append_time : add(base_timestamp, timestamp);
        row[R_SEQUENCE * capacity] = base_sequence < 0 ? -1 : increment_sequence(base_sequence, delta);
        row[R_KEY_AT * capacity] = key_at;
        row[R_KEY_SIZE * capacity] = key_size;
        row[R_VALUE_AT * capacity] = value_at;
        row[R_VALUE_SIZE * capacity] = value_size;
        row[R_HEADERS_AT * capacity] = headers_at;
        row[R_HEADERS * capacity] = headers;
        row[R_CRC * capacity] = -1;
        row[R_VALID * capacity] = valid;
    }
    *why = 0;
    return count;
}

/* Decode all records of a batch into the rows from `row` on; whether they fill its bytes exactly and have room. */
static int decode_whole(const uint8_t *data, int64_t size, int64_t at, int64_t end, const int64_t *batch,
                        int64_t stride, int64_t *out, int64_t capacity, int64_t row)
{
    int64_t records = batch[B_COUNT * stride], why, detail[2];
    if (at < 0 || end < at || end > size || records < 0 || records > capacity - row)
        return 0;
    return !records || (decode(data, &at, end, records, batch, stride, out + row, capacity, &why, detail) == records &&
                        at == end);
}

/* Whether the batch is one of usual records as stored, whose bytes are inside of `data`. Sets where they begin and end. */
static int is_usual(const int64_t *batch, int64_t stride, int64_t position, int64_t size, int64_t most, int64_t *begin,
                    int64_t *end)
{
    int64_t at = subtract(batch[B_POSITION * stride], position), bytes = batch[B_SIZE * stride];
    *begin = at + BATCH_HEADER;
    *end = at + bytes;
    return batch[B_MAGIC * stride] >= 2 && !(batch[B_ATTRIBUTES * stride] & (CODEC | CONTROL)) &&
           bytes >= BATCH_HEADER && batch[B_COUNT * stride] <= most && is_inside(at, bytes, size);
}

void kafkalog_decode_batches(const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
                             int64_t position, int64_t most, int64_t count, const int64_t *batches, int64_t stride,
                             int64_t *out, int64_t capacity, int64_t *record_ends, int64_t *result)
{
    int64_t row = 0, number = 0, begin, end;
    for (; number < count; number++) {
        const int64_t *batch = batches + number;
        if (starts != NULL) {
            begin = starts[number];
            end = ends[number];
        } else if (!is_usual(batch, stride, position, size, most, &begin, &end)) {
            break;
        }
        if (!decode_whole(data, size, begin, end, batch, stride, out, capacity, row))
            break;
        record_ends[number] = row += batch[B_COUNT * stride];
    }
    result[0] = number;
    result[1] = row;
}

void kafkalog_decode_records(const uint8_t *data, int64_t size, int64_t at, int64_t end, int64_t count,
                             const int64_t *batch, int64_t stride, int64_t *out, int64_t capacity, int64_t *result)
{
    result[0] = result[2] = result[3] = result[4] = 0;
    if (at >= 0 && at <= end && end <= size) {
        int64_t most = out != NULL && count > capacity ? capacity : count;
        result[0] = decode(data, &at, end, most, batch, stride, out, capacity, &result[2], &result[3]);
    }
    result[1] = at;
}
