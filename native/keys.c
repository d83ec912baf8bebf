/* Hashes of record keys: Kafka's, and a table that finds each key's last record and the records that it replaces.
 *
 * The bytes of the keys are in `arena`, one key after another, and are compared, so that equal hashes cause no errors.
 * A slot is 0, or the upper half of the key's hash combined with the number of its entry plus 1. An entry is two
 * numbers: the place of the flag of the key's last record, and the end of the key's bytes in the arena.
 *
 * The table can be larger than any cache, so most of the time is spent on reading it. What several records need is
 * therefore fetched ahead.
 */
#include "records.h"

enum { GONE = 1, AHEAD = 16, PART_SHIFT = 40 };
static const uint64_t LOW = 0xFFFFFFFFu, FIRST = 0x9E3779B97F4A7C15u, SECOND = 0xFF51AFD7ED558CCDu;

static uint64_t mix(uint64_t value)
{
    value ^= value >> 33;
    value *= SECOND;
    return value ^ value >> 29;
}

static uint64_t hash(const uint8_t *key, int64_t size)
{
    uint64_t value = (uint64_t)size * FIRST, rest = 0;
    int64_t at = 0;
    for (; at + 8 <= size; at += 8)
        value = mix(value ^ load_le64(key + at)) * FIRST;
    if (at < size && size >= 8)
        rest = load_le64(key + size - 8);
    else
        for (; at < size; at++)
            rest = rest << 8 | key[at];
    return mix(mix(value ^ rest) * FIRST);
}

static int64_t start_of(const struct key_table *table, int64_t number)
{
    return number > 0 ? table->entries[2 * number - 1] : 0;
}

/* Return the entry of a key, or -1; and its slot. The number of slots is a power of two, and one of them is free. */
static int64_t find(const struct key_table *table, const uint8_t *key, int64_t size, uint64_t value, uint64_t *slot)
{
    uint64_t mask = (uint64_t)table->slot_count - 1;
    for (*slot = value & mask;; *slot = (*slot + 1) & mask) {
        uint64_t found = (uint64_t)table->slots[*slot];
        if (found == 0)
            return -1;
        if ((found & ~LOW) == (value & ~LOW)) {
            int64_t number = (int64_t)(found & LOW) - 1, start = start_of(table, number);
            if (table->entries[2 * number + 1] - start == size && !memcmp(key, table->arena + start, (size_t)size))
                return number;
        }
    }
}

/* Return the size of a record's key (-1: none) and its bytes; -2 if they are not inside of `data`. */
static int64_t key_of(const uint8_t *data, int64_t size, const int64_t *record, int64_t stride, const uint8_t **key)
{
    int64_t at = record[R_KEY_AT * stride], bytes = record[R_KEY_SIZE * stride];
    *key = data;
    if (bytes < 0)
        return -1;
    if (at < 0)
        return 0; /* its size exceeds the bytes left in its message */
    if (!is_inside(at, bytes, size))
        return -2;
    *key = data + at;
    return bytes;
}

/* Hash the keys of `count` records, and fetch what they need of the table. */
static void look_ahead(const struct key_table *table, const uint8_t *data, int64_t size, const int64_t *records,
                       int64_t stride, int64_t count, uint64_t *hashes, const uint8_t *flags)
{
    uint64_t mask = (uint64_t)table->slot_count - 1;
    const uint8_t *key;
    for (int64_t row = 0; row < count; row++) {
        int64_t bytes = key_of(data, size, records + row, stride, &key);
        hashes[row] = bytes < 0 ? 0 : hash(key, bytes);
        __builtin_prefetch(table->slots + (hashes[row] & mask));
    }
    for (int64_t row = 0; row < count; row++) {
        uint64_t found = (uint64_t)table->slots[hashes[row] & mask];
        if (found)
            __builtin_prefetch(table->entries + 2 * (found & LOW) - 2);
    }
    for (int64_t row = 0; row < count; row++) {
        uint64_t found = (uint64_t)table->slots[hashes[row] & mask];
        if (found) {
            int64_t number = (int64_t)(found & LOW) - 1;
            __builtin_prefetch(table->arena + start_of(table, number));
            __builtin_prefetch((const void *)((uintptr_t)flags + (uintptr_t)table->entries[2 * number]));
        }
    }
}

void kafkalog_put_keys(struct key_table *table, const uint8_t *data, int64_t size, const int64_t *records,
                       int64_t stride, int64_t first, int64_t end, int64_t first_flag, int64_t mask, int64_t part,
                       uint8_t *flags, int64_t flag_count, int64_t *result)
{
    uint64_t hashes[AHEAD], slot;
    const uint8_t *key;
    int64_t row = first;
    result[1] = KEYS_DONE;
    for (; row < end; row++) {
        int64_t ahead = (row - first) % AHEAD;
        if (ahead == 0)
            look_ahead(table, data, size, records + row, stride, end - row < AHEAD ? end - row : AHEAD, hashes, flags);
        int64_t bytes = key_of(data, size, records + row, stride, &key);
        if (bytes == -1)
            continue;
        if (bytes < 0 || !is_inside(first_flag + row, 1, flag_count)) {
            result[1] = KEYS_OUTSIDE;
            break;
        }
        uint64_t value = hashes[ahead];
        if ((int64_t)(value >> PART_SHIFT & (uint64_t)mask) != part)
            continue;
        int64_t number = find(table, key, bytes, value, &slot);
        if (number >= 0) {
            if (!is_inside(table->entries[2 * number], 1, flag_count)) {
                result[1] = KEYS_OUTSIDE;
                break;
            }
            flags[table->entries[2 * number]] |= GONE;
            table->entries[2 * number] = first_flag + row;
            continue;
        }
        if (table->count == table->entry_count || bytes > table->arena_bytes - table->used) {
            result[1] = table->count == table->entry_count ? KEYS_NEED_SLOTS : KEYS_NEED_ARENA;
            break;
        }
        table->used = put_bytes(table->arena, table->used, key, bytes);
        table->entries[2 * table->count] = first_flag + row;
        table->entries[2 * table->count + 1] = table->used;
        table->count++;
        table->slots[slot] = (int64_t)((value & ~LOW) | (uint64_t)table->count);
    }
    result[0] = row;
}

int64_t kafkalog_mark_keys(const struct key_table *table, const uint8_t *data, int64_t size, const int64_t *records,
                           int64_t stride, int64_t first, int64_t end, int64_t first_flag, int64_t mask, int64_t part,
                           uint8_t *flags, int64_t flag_count)
{
    uint64_t hashes[AHEAD], slot;
    const uint8_t *key;
    int64_t marked = 0;
    for (int64_t row = first; row < end; row++) {
        int64_t ahead = (row - first) % AHEAD;
        if (ahead == 0)
            look_ahead(table, data, size, records + row, stride, end - row < AHEAD ? end - row : AHEAD, hashes, flags);
        int64_t bytes = key_of(data, size, records + row, stride, &key);
        if (bytes == -1)
            continue;
        if (bytes < 0 || !is_inside(first_flag + row, 1, flag_count))
            return -1;
        uint64_t value = hashes[ahead];
        if ((int64_t)(value >> PART_SHIFT & (uint64_t)mask) == part && find(table, key, bytes, value, &slot) >= 0) {
            flags[first_flag + row] |= GONE;
            marked++;
        }
    }
    return marked;
}

void kafkalog_fill_slots(struct key_table *table)
{
    uint64_t mask = (uint64_t)table->slot_count - 1;
    int64_t start = 0;
    for (int64_t number = 0; number < table->count; number++) {
        int64_t end = table->entries[2 * number + 1];
        uint64_t value = hash(table->arena + start, end - start), slot = value & mask;
        while (table->slots[slot] != 0)
            slot = (slot + 1) & mask;
        table->slots[slot] = (int64_t)((value & ~LOW) | (uint64_t)(number + 1));
        start = end;
    }
}

static uint32_t murmur2(const uint8_t *key, int64_t size)
{
    const uint32_t multiplier = 0x5BD1E995u;
    uint32_t found = 0x9747B28Cu ^ (uint32_t)size, rest = 0;
    for (; size >= 4; size -= 4, key += 4) {
        uint32_t word = load_le32(key) * multiplier;
        found = found * multiplier ^ (word ^ word >> 24) * multiplier;
    }
    for (int64_t byte = 0; byte < size; byte++)
        rest |= (uint32_t)key[byte] << 8 * byte;
    if (size > 0)
        found = (found ^ rest) * multiplier;
    found = (found ^ found >> 13) * multiplier;
    return found ^ found >> 15;
}

int64_t kafkalog_murmur2(const uint8_t *data, int64_t size, const int64_t *at, const int64_t *sizes, int64_t rows,
                         int64_t *hashes)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t bytes = sizes[row] < 0 ? 0 : sizes[row];
        if (bytes > 0 && !is_inside(at[row], bytes, size))
            return row;
        hashes[row] = murmur2(bytes ? data + at[row] : data, bytes);
    }
    return rows;
}
