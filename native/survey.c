/* What is true of all batches of a log that was scanned, and which entries of its indexes fit them. */
#include "kafkalog.h"

void kafkalog_extremes(const int64_t *values, int64_t rows, int64_t *result)
{
    int64_t least = values[0], largest = values[0], rise = 1, bits = values[0];
    for (int64_t row = 1; row < rows; row++) {
        int64_t step = values[row] > values[row - 1] ? 1 : values[row] < values[row - 1] ? -1 : 0;
        rise = step < rise ? step : rise;
        least = values[row] < least ? values[row] : least;
        largest = values[row] > largest ? values[row] : largest;
        bits |= values[row];
    }
    result[0] = least;
    result[1] = largest;
    result[2] = rise;
    result[3] = bits;
}

int64_t kafkalog_gaps(const int64_t *lasts, const int64_t *firsts, int64_t rows, int64_t *found)
{
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++)
        if (subtract(firsts[row], lasts[row]) != 1)
            found[count++] = row;
    return count;
}

void kafkalog_survey(const int64_t *batches, int64_t stride, int64_t rows, int64_t *result)
{
    for (int64_t column = 0; column < BATCH_COLUMNS; column++) {
        int64_t found[4];
        kafkalog_extremes(batches + column * stride, rows, found);
        result[column] = found[0];
        result[BATCH_COLUMNS + column] = found[1];
    }
    const int64_t *base = batches + B_BASE_OFFSET * stride, *last = batches + B_LAST_OFFSET * stride;
    const int64_t *count = batches + B_COUNT * stride;
    int64_t gaps = 0, disordered = 0, uneven = 0;
    for (int64_t row = 0; row < rows; row++) {
        gaps += row > 0 && subtract(base[row], last[row - 1]) != 1;
        disordered += base[row] > last[row] || (row > 0 && base[row] <= last[row - 1]);
        uneven += add(subtract(last[row], base[row]), 1) != count[row];
    }
    result[2 * BATCH_COLUMNS] = gaps;
    result[2 * BATCH_COLUMNS + 1] = disordered;
    result[2 * BATCH_COLUMNS + 2] = uneven;
}

int64_t kafkalog_match_positions(const int64_t *offsets, const int64_t *positions, int64_t entries,
                                 const int64_t *batches, int64_t stride, int64_t rows, uint8_t *single)
{
    int64_t entry = 0, row = 0;
    for (; entry < entries && positions[entry] > 0; entry++) {
        while (row < rows && batches[B_POSITION * stride + row] < positions[entry])
            row++;
        if (row == rows || batches[B_POSITION * stride + row] != positions[entry] ||
            batches[B_LAST_OFFSET * stride + row] != offsets[entry] || batches[B_MAGIC * stride + row] < 2)
            break;
        single[entry] = batches[B_BASE_OFFSET * stride + row] == offsets[entry];
    }
    return entry;
}

int64_t kafkalog_match_times(const int64_t *timestamps, const int64_t *offsets, int64_t entries,
                             const int64_t *batches, int64_t stride, int64_t rows, int64_t largest)
{
    int64_t entry = 0, row = 0;
    for (; entry < entries; entry++) {
        for (; row < rows && batches[B_LAST_OFFSET * stride + row] < offsets[entry]; row++)
            if (batches[B_MAX_TIMESTAMP * stride + row] > largest)
                largest = batches[B_MAX_TIMESTAMP * stride + row];
        if (row == rows || batches[B_LAST_OFFSET * stride + row] != offsets[entry] ||
            batches[B_MAX_TIMESTAMP * stride + row] != timestamps[entry] || largest >= timestamps[entry])
            break;
    }
    return entry;
}

int64_t kafkalog_contradiction(const int64_t *records, int64_t record_stride, int64_t record_count,
                               const int64_t *record_ends, const int64_t *batches, int64_t stride, int64_t count,
                               int64_t number, int64_t *result)
{
    const int64_t *offset = records + R_OFFSET * record_stride, *timestamp = records + R_TIMESTAMP * record_stride;
    for (; number < count; number++) {
        int64_t begin = number ? record_ends[number - 1] : 0, end = record_ends[number];
        if (begin < 0 || end > record_count)
            return count;
        if (end <= begin)
            continue;
        int64_t base = batches[B_BASE_OFFSET * stride + number], largest = timestamp[begin];
        int64_t last = batches[B_LAST_OFFSET * stride + number], header = batches[B_MAX_TIMESTAMP * stride + number];
        int is_wrong = (base != -1 && offset[begin] < base) || offset[end - 1] > last;
        for (int64_t record = begin + 1; record < end; record++) {
            is_wrong |= offset[record] <= offset[record - 1];
            largest = timestamp[record] > largest ? timestamp[record] : largest;
        }
        /* A broker's MemoryRecordsBuilder begins with a maximum of -1, and keeps it if all timestamps are below. */
        int is_other = largest != header && (header != -1 || largest >= -1);
        if (is_wrong || is_other) {
            result[0] = is_wrong;
            result[1] = is_other;
            result[2] = largest;
            return number;
        }
    }
    return count;
}
