/* The entries of a segment's indexes (LogSegment.append, OffsetIndex.append, TimeIndex.maybeAppend). */
#include "kafkalog.h"

enum { NO_TIMESTAMP = -1, MOST_RELATIVE = 0x7FFFFFFF };

static int64_t append_time(struct growing_indexes *s, uint8_t **to)
{
    if (s->times > 0 && s->offset_of_max < s->last_time_offset)
        return INDEX_TIME_BELOW;
    if (s->max_timestamp > (s->times > 0 ? s->last_time : NO_TIMESTAMP)) {
        *to = store_be(*to, (uint64_t)s->max_timestamp, 8);
        *to = store_be(*to, (uint64_t)subtract(s->offset_of_max, s->base_offset), 4);
        s->last_time = s->max_timestamp;
        s->last_time_offset = s->offset_of_max;
        s->times++;
    }
    return INDEX_ADDED;
}

static int64_t append_entry(struct growing_indexes *s, int64_t offset, int64_t position, uint8_t **offset_to,
                            uint8_t **time_to)
{
    if (s->offsets >= s->most_offsets)
        return INDEX_FULL;
    if (s->offsets > 0 && offset <= s->last_offset)
        return INDEX_NOT_ABOVE;
    *offset_to = store_be(store_be(*offset_to, (uint64_t)(offset - s->base_offset), 4), (uint64_t)position, 4);
    s->last_offset = offset;
    s->offsets++;
    return s->times >= s->most_times - 1 ? INDEX_TIMES_FULL : append_time(s, time_to);
}

void kafkalog_index_batches(struct growing_indexes *s, const int64_t *positions, const int64_t *last_offsets,
                            const int64_t *timestamps, int64_t rows, int is_last, uint8_t *offset_entries,
                            uint8_t *time_entries, int64_t *result)
{
    uint8_t *offset_to = offset_entries, *time_to = time_entries;
    int64_t row = 0, why = INDEX_ADDED;
    for (; row < rows; row++) {
        int64_t offset = last_offsets[row], relative = subtract(offset, s->base_offset);
        if (offset < s->base_offset || relative < 0 || relative > MOST_RELATIVE) {
            why = INDEX_OUT_OF_RANGE;
            break;
        }
        if (timestamps[row] > s->max_timestamp) {
            s->max_timestamp = timestamps[row];
            s->offset_of_max = offset;
        }
        if (subtract(positions[row], s->indexed_position) <= s->interval)
            continue;
        why = append_entry(s, offset, positions[row], &offset_to, &time_to);
        if (why != INDEX_ADDED)
            break;
        s->indexed_position = positions[row];
    }
    if (is_last && why == INDEX_ADDED)
        why = append_time(s, &time_to);
    result[0] = row;
    result[1] = why;
    result[2] = offset_to - offset_entries;
    result[3] = time_to - time_entries;
}

int64_t kafkalog_index_columns(const uint8_t *data, int64_t size, int64_t rows, int64_t base_offset,
                               int is_time_index, int64_t *first, int64_t *second, int64_t *rises)
{
    int64_t entry = is_time_index ? 12 : 8, row = 0;
    for (; row < rows && size >= entry; row++, data += entry, size -= entry) {
        first[row] = is_time_index ? load_i64(data) : add(base_offset, load_i32(data));
        second[row] = is_time_index ? add(base_offset, load_i32(data + 8)) : load_i32(data + 4);
    }
    for (int column = 0; column < 2 && row > 0; column++) {
        int64_t extremes[4];
        kafkalog_extremes(column ? second : first, row, extremes);
        rises[column] = extremes[2];
    }
    return row;
}
