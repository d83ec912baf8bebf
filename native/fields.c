/* Keys, values and headers of records as contiguous columns, as in Arrow: copied from records, and joined to records. */
#include "records.h"

int64_t kafkalog_copy_fields(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *sizes, int64_t rows,
                             int64_t *ends, uint8_t *out, int64_t capacity)
{
    int64_t to = 0;
    ends[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (sizes[row] > 0) {
            if (!is_inside(at[row], sizes[row], size) || sizes[row] > capacity - to)
                return -1;
            to = put_bytes(out, to, data + at[row], sizes[row]);
        }
        ends[row + 1] = to;
    }
    return to;
}

/* Read one field of a header: its size (below 0: null), and the start of its bytes. The position is below 0 after a field
 * that is not inside of `data`. */
static int64_t header_field(const uint8_t *data, int64_t size, int64_t *at, int64_t *start)
{
    int64_t bytes = varint(data, at, size, 5);
    *start = *at;
    if (*at >= 0 && bytes > 0)
        *at = bytes <= size - *at ? *at + bytes : BAD_SHORT;
    return bytes;
}

int64_t kafkalog_copy_headers(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *counts,
                              int64_t rows, const struct header_columns *out, int64_t *result)
{
    int64_t keys = 0, values = 0, number = 0, key_at, value_at;
    if (out != NULL)
        out->key_ends[0] = out->value_ends[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t here = at[row];
        if (counts[row] > 0 && !is_inside(here, 0, size))
            return -1;
        for (int64_t header = 0; header < counts[row]; header++, number++) {
            int64_t key = header_field(data, size, &here, &key_at), value = header_field(data, size, &here, &value_at);
            if (here < 0)
                return -1;
            if (out != NULL) {
                if (number == out->most || key > out->key_bytes - keys || value > out->value_bytes - values)
                    return -1;
                put_bytes(out->keys, keys, data + key_at, key);
                put_bytes(out->values, values, data + value_at, value);
                out->valid[number] = value >= 0;
            }
            keys += key > 0 ? key : 0;
            values += value > 0 ? value : 0;
            if (out != NULL) {
                out->key_ends[number + 1] = keys;
                out->value_ends[number + 1] = values;
            }
        }
    }
    result[0] = keys;
    result[1] = values;
    return 0;
}

static int64_t size_of(const struct field_column *column, int64_t row)
{
    int64_t begin = column->ends[row], end = column->ends[row + 1];
    if (column->valid != NULL && !column->valid[row])
        return -1;
    return begin < 0 || end < begin || end > column->size ? -2 : end - begin;
}

/* Append a field with its size before it; return the position after it, -1 if it does not fit or is not in its column. */
static int64_t put_sized(uint8_t *out, int64_t to, int64_t capacity, const struct field_column *column, int64_t row)
{
    int64_t size = size_of(column, row);
    if (to < 0 || size == -2 || varint_size(size) + (size > 0 ? size : 0) > capacity - to)
        return -1;
    to = put_varint(out, to, size);
    return put_bytes(out, to, column->data + (size > 0 ? column->ends[row] : 0), size);
}

int64_t kafkalog_join_columns(const struct field_column *keys, const struct field_column *values,
                              const int64_t *header_ends, int64_t header_count,
                              const struct field_column *header_keys, const struct field_column *header_values,
                              const int64_t *timestamps, int64_t rows, uint8_t *out, int64_t capacity, int64_t *columns)
{
    int64_t to = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t key = size_of(keys, row), value = size_of(values, row), first = header_ends[row],
                end = header_ends[row + 1], *column = columns + row, begin = to;
        if (key == -2 || value == -2 || first < 0 || end < first || end > header_count ||
            (key > 0 ? key : 0) + (value > 0 ? value : 0) > capacity - to)
            return -1;
        for (int field = NEW_EPOCH; field < NEW_COLUMNS; field++)
            column[field * rows] = UNKNOWN;
        column[R_OFFSET * rows] = UNKNOWN;
        column[R_TIMESTAMP * rows] = timestamps[row];
        column[R_SEQUENCE * rows] = -1;
        column[R_KEY_AT * rows] = to;
        column[R_KEY_SIZE * rows] = key;
        to = put_bytes(out, to, keys->data + (key > 0 ? keys->ends[row] : 0), key);
        column[R_VALUE_AT * rows] = to;
        column[R_VALUE_SIZE * rows] = value;
        to = put_bytes(out, to, values->data + (value > 0 ? values->ends[row] : 0), value);
        column[R_HEADERS_AT * rows] = to;
        column[R_HEADERS * rows] = end - first;
        for (int64_t header = first; header < end && to >= 0; header++)
            to = put_sized(out, put_sized(out, to, capacity, header_keys, header), capacity, header_values, header);
        if (to < 0)
            return -1;
        column[R_CRC * rows] = -1;
        column[R_VALID * rows] = 1;
        column[NEW_HEADERS_SIZE * rows] = to - column[R_HEADERS_AT * rows];
        column[NEW_BEGIN * rows] = begin;
    }
    return to;
}

/* The bytes of a new record without those that say how it is stored. */
static int64_t bytes_of(const int64_t *record, int64_t stride)
{
    const int64_t most = (int64_t)1 << 40; /* so that no sum overflows, whatever the columns hold */
    const int fields[] = {R_KEY_SIZE, R_VALUE_SIZE, NEW_HEADERS_SIZE};
    int64_t bytes = 0;
    for (int field = 0; field < 3; field++) {
        int64_t size = record[fields[field] * stride];
        bytes += size < 0 ? 0 : size < most ? size : most;
    }
    return bytes;
}

int64_t kafkalog_copy_records(const uint8_t *data, int64_t size, const int64_t *columns, int64_t stride,
                              int64_t most, const int64_t *rows, int64_t count, uint8_t *out, int64_t to,
                              int64_t capacity, int64_t *target, int64_t target_stride)
{
    const int positions[] = {R_KEY_AT, R_VALUE_AT, R_HEADERS_AT, NEW_BEGIN};
    if (to < 0 || to > capacity || (rows == NULL && count > most))
        return -1;
    for (int64_t row = 0; rows != NULL && row < count; row++)
        if (rows[row] < 0 || rows[row] >= most)
            return -1;
    for (int column = 0; column < NEW_COLUMNS; column++)
        for (int64_t row = 0; row < count; row++)
            target[column * target_stride + row] = columns[column * stride + (rows ? rows[row] : row)];
    for (int64_t row = 0; row < count; row++) {
        int64_t *record = target + row, begin = record[NEW_BEGIN * target_stride],
                bytes = bytes_of(record, target_stride);
        if (!is_inside(begin, bytes, size) || bytes > capacity - to)
            return -1;
        for (int position = 0; position < 4; position++) {
            uint64_t at = (uint64_t)record[positions[position] * target_stride];
            record[positions[position] * target_stride] = (int64_t)(at + (uint64_t)(to - begin));
        }
        to = put_bytes(out, to, data + begin, bytes);
    }
    return to;
}

int64_t kafkalog_batch_ends(int64_t *columns, int64_t stride, int64_t rows, int64_t room, int64_t most,
                            int64_t most_of_block, int keeps, int64_t *current, int64_t *ends)
{
    enum { OVERHEAD = 21, MOST_DELTA = 0x7FFFFFFF }; /* DefaultRecord.MAX_RECORD_OVERHEAD */
    int64_t count = 0, begin = 0, block = 0, filled = 0, append_time = INT64_MIN;
    for (int64_t row = 0; row < rows; row++) {
        int64_t *record = columns + row, *epoch = record + NEW_EPOCH * stride, *codec = record + NEW_CODEC * stride,
                bytes = bytes_of(record, stride) + OVERHEAD,
                time = record[NEW_IS_APPEND_TIME * stride] == 1 ? record[R_TIMESTAMP * stride] : INT64_MIN;
        uint64_t delta = (uint64_t)record[R_OFFSET * stride] - (uint64_t)columns[R_OFFSET * stride + begin];
        *epoch = *epoch < -1 ? current[0] : *epoch;
        *codec = *codec < 0 ? current[1] : *codec;
        int is_other = ((keeps & KEEPS_EPOCHS) && *epoch != current[0]) ||
                       ((keeps & KEEPS_CODECS) && *codec != current[1]) ||
                       ((keeps & KEEPS_OFFSETS) && time != append_time);
        int is_full = filled + bytes > room || row - begin >= most || row - block >= most_of_block ||
                      ((keeps & KEEPS_OFFSETS) && delta > MOST_DELTA);
        if (row > begin && (is_other || is_full)) {
            ends[count++] = row;
            begin = row;
            filled = 0;
            block = is_other || row - block >= most_of_block ? row : block;
        }
        filled += bytes;
        current[0] = *epoch;
        current[1] = *codec;
        append_time = time;
    }
    if (rows > begin)
        ends[count++] = rows;
    return count;
}
