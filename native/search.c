/* The first batch after damage: every byte is tried as the start of an entry.
 *
 * Where bytes look like a header, the entry that it states is a candidate until its CRC can be checked. Candidates
 * overlap, so one running CRC of each kind goes over the bytes: a candidate remembers it at the start of what its own
 * CRC covers, and at its end the two give its CRC. A heap has the pending candidates by their ends. When it is full,
 * no header is tried until all of them are checked. So each byte is read about once, whatever the bytes are.
 */
#include "kafkalog.h"

enum { V0_TO_KEY = 22, V1_TO_KEY = 30, V07_TO_CRC = 5, V07_SMALLEST = 9, V07_GZIP = 1, V07_SNAPPY = 2 };

/* Whether key and value fill a message of `total` bytes; `in_data` of them can be read. */
static int is_filled(const uint8_t *entry, int64_t total, int64_t in_data, int magic)
{
    int64_t to_key = magic ? V1_TO_KEY : V0_TO_KEY;
    if (to_key + 4 > total || to_key > in_data)
        return 0;
    int64_t key_size = load_i32(entry + to_key - 4), value_at = to_key + (key_size > 0 ? key_size : 0);
    if (key_size < -1 || value_at + 4 > total)
        return 0;
    if (value_at + 4 > in_data)
        return 1; /* the CRC decides */
    int64_t value_size = load_i32(entry + value_at);
    return value_size >= -1 && value_at + 4 + (value_size > 0 ? value_size : 0) == total;
}

/* Whether an entry can begin at `entry`, of which `in_data` bytes can be read, and `left` are in the file. Sets its size
 * and the start of what its CRC covers, from `entry` on; the CRC itself is before that. */
static int is_header(const struct search *s, const uint8_t *entry, int64_t in_data, int64_t left, int64_t *total,
                     int64_t *covered)
{
    int magic = entry[AT_MAGIC];
    int64_t size = load_i32(entry + AT_SIZE);
    *total = ENTRY_OVERHEAD + size;
    if (magic > 2 || entry[0] >= 0x80 || size < ENTRY_SMALLEST || *total > s->largest || *total > left)
        return 0;
    if (magic < 2) {
        *covered = AT_MAGIC;
        return load_i64(entry) > s->last_offset && entry[AT_OLD_ATTRIBUTES] <= (magic ? 0x0F : 0x07) &&
               is_filled(entry, *total, in_data, magic);
    }
    *covered = AT_ATTRIBUTES;
    if (*total < BATCH_HEADER || in_data < BATCH_HEADER)
        return 0;
    int64_t last_delta = load_i32(entry + AT_LAST_DELTA), count = load_i32(entry + AT_COUNT);
    return entry[AT_ATTRIBUTES] == 0 && entry[AT_ATTRIBUTES + 1] < 0x80 && (entry[AT_ATTRIBUTES + 1] & CODEC) <= 4 &&
           last_delta >= 0 && count >= 0 && count <= last_delta + 1;
}

/* The same for a message of 0.7, which has no offset. */
static int is_v07_header(const struct search *s, const uint8_t *entry, int64_t in_data, int64_t left, int64_t *total,
                         int64_t *covered)
{
    int magic = entry[4], codec = magic ? entry[5] : 0;
    int64_t size = load_i32(entry);
    *total = 4 + size;
    *covered = V07_TO_CRC + magic + 4;
    if (magic > 1 || size < V07_TO_CRC + magic || *total > s->largest || *total > left)
        return 0;
    if (codec == V07_GZIP)
        return in_data >= 12 && entry[10] == 0x1F && entry[11] == 0x8B;
    return codec == V07_SNAPPY || (codec == 0 && !s->is_in_compressed);
}

static void sink(struct candidate *heap, int64_t count, int64_t at)
{
    struct candidate moved = heap[at];
    for (int64_t below; (below = 2 * at + 1) < count; at = below) {
        below += below + 1 < count && heap[below + 1].end < heap[below].end;
        if (heap[below].end >= moved.end)
            break;
        heap[at] = heap[below];
    }
    heap[at] = moved;
}

static void push(struct search_lane *lane, struct candidate added)
{
    int64_t at = lane->count++;
    for (; at > 0 && lane->heap[(at - 1) / 2].end > added.end; at = (at - 1) / 2)
        lane->heap[at] = lane->heap[(at - 1) / 2];
    lane->heap[at] = added;
}

/* Keep only the candidates before the right one. */
static void drop_later(struct search *s)
{
    for (int kind = 0; kind < 2; kind++) {
        struct search_lane *lane = s->lanes + kind;
        int64_t kept = 0;
        for (int64_t each = 0; each < lane->count; each++)
            if (lane->heap[each].start < s->found)
                lane->heap[kept++] = lane->heap[each];
        lane->count = kept;
        for (int64_t at = kept / 2; at-- > 0;)
            sink(lane->heap, kept, at);
    }
}

/* Continue the CRC of a kind up to byte `to`, and check the candidates that end there or before. */
static void advance(struct search *s, int kind, const uint8_t *data, int64_t begin, int64_t to)
{
    struct search_lane *lane = s->lanes + kind;
    while (lane->count > 0) {
        int64_t end = lane->heap[0].end < to ? lane->heap[0].end : to;
        if (end > lane->position) {
            lane->crc = (kind == CRC_32C ? kafkalog_crc32c : kafkalog_crc32)(data + (lane->position - begin),
                                                                             end - lane->position, lane->crc);
            lane->position = end;
        }
        if (lane->heap[0].end > to)
            return;
        struct candidate ended = lane->heap[0];
        lane->heap[0] = lane->heap[--lane->count];
        sink(lane->heap, lane->count, 0);
        if (crc_of_end(kind, ended.before, lane->crc, ended.end - ended.covered) == ended.stored) {
            s->found = ended.start;
            drop_later(s);
        }
    }
}

/* Try the starts from `at` to `stop`; return where it ended: before a candidate for which there is no room. */
static int64_t try_starts(struct search *s, const uint8_t *data, int64_t begin, int64_t at, int64_t stop, int64_t end,
                          int64_t file_end)
{
    for (; at < stop && s->found < 0; at++) {
        const uint8_t *entry = data + (at - begin);
        int64_t total, covered;
        if (load_le64(entry + (s->is_v07 ? 0 : AT_SIZE)) == 0) {
            at += 4; /* no size in the next five is above 0 */
            continue;
        }
        if (!(s->is_v07 ? is_v07_header : is_header)(s, entry, end - at, file_end - at, &total, &covered))
            continue;
        int kind = s->is_v07 || entry[AT_MAGIC] < 2 ? CRC_32 : CRC_32C;
        struct search_lane *lane = s->lanes + kind;
        advance(s, kind, data, begin, at + covered);
        if (s->found >= 0 || lane->count == s->capacity)
            return at;
        if (lane->count == 0) {
            lane->position = at + covered;
            lane->crc = 0;
        }
        push(lane, (struct candidate){at, at + covered, at + total, load_be32(entry + covered - 4), lane->crc});
    }
    return at < stop ? at : stop;
}

int64_t kafkalog_search(struct search *s, const uint8_t *data, int64_t size, int is_last)
{
    int64_t begin = s->position, end = begin + size, file_end = is_last ? end : s->file_end, at = begin;
    int64_t smallest = s->is_v07 ? V07_SMALLEST : ENTRY_OVERHEAD + ENTRY_SMALLEST, header_end = s->header_end;
    if (s->found < 0 && s->resume < 0) {
        int64_t stop = end - (is_last ? smallest : BATCH_HEADER) + 1;
        stop = stop < header_end - smallest + 1 ? stop : header_end - smallest + 1;
        at = try_starts(s, data, begin, at, stop, end, file_end);
        if (at < stop)
            s->resume = at;
        else if (is_last || at + smallest > header_end)
            s->resume = header_end;
    }
    int is_stopped = s->found >= 0 || s->resume >= 0;
    s->position = is_stopped ? end : at;
    for (int kind = 0; kind < 2; kind++)
        advance(s, kind, data, begin, s->position);
    if (is_last) /* the others need bytes that cannot be read */
        s->lanes[0].count = s->lanes[1].count = 0;
    if (s->lanes[0].count + s->lanes[1].count > 0)
        return SEARCH_PENDING;
    if (s->found >= 0)
        return SEARCH_DONE;
    if (is_stopped) {
        s->position = s->resume;
        s->resume = -1;
    }
    return s->position + smallest > header_end ? SEARCH_DONE : SEARCH_FREE;
}
