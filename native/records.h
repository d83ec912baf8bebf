/* What the files of this directory share about records in batches v2. */
#ifndef RECORDS_H
#define RECORDS_H

#include "kafkalog.h"

static inline int64_t zigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

/* The valid-column of a record with a header whose value has a length below -1. */
enum { UNUSUAL_HEADER = 2 };

/* Return the position after `count` headers, or BAD_*; `detail` is the number that is wrong. `data` is readable up to
 * `end`, and `at` is not behind it. */
int64_t skip_headers(const uint8_t *data, int64_t at, int64_t end, int64_t count, int64_t *valid, int64_t *detail);

int64_t long_varint(const uint8_t *data, int64_t *at, int64_t end, int most);

/* Read a varint of at most `most` bytes (5 or 10). The position becomes BAD_SHORT or BAD_VARINT if there is none before
 * `end`, and stays so. */
static inline int64_t varint(const uint8_t *data, int64_t *at, int64_t end, int most)
{
    if (*at < 0)
        return 0;
    if (*at < end && data[*at] < 0x80)
        return zigzag(data[(*at)++]);
    return long_varint(data, at, end, most);
}

/* Java's DefaultRecordBatch.incrementSequence, in int arithmetic that wraps. */
static inline int64_t increment_sequence(int64_t sequence, int64_t by)
{
    uint32_t room = 0x7FFFFFFFu - (uint32_t)by;
    if ((int32_t)sequence > (int32_t)room)
        return (int32_t)((uint32_t)by - (0x7FFFFFFFu - (uint32_t)sequence) - 1);
    return (int32_t)((uint32_t)sequence + (uint32_t)by);
}

/* The bytes of the character at `text`, of which `left` are there; 0 if it is not UTF-8 (RFC 3629). */
static inline int character_bytes(const uint8_t *text, int64_t left)
{
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4 || left < 2 || (text[1] & 0xC0) != 0x80)
        return 0;
    if (first < 0xE0)
        return 2;
    if (left < 3 || (text[2] & 0xC0) != 0x80)
        return 0;
    if (first < 0xF0)
        return (first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] >= 0xA0) ? 0 : 3;
    if ((first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F) || left < 4 || (text[3] & 0xC0) != 0x80)
        return 0;
    return 4;
}

/* Whether `size` bytes at `at` are inside of `end` bytes. */
static inline int is_inside(int64_t at, int64_t size, int64_t end)
{
    return at >= 0 && size >= 0 && at <= end && size <= end - at;
}

static inline int64_t varint_size(int64_t value)
{
    uint64_t bits = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    int64_t size = 1;
    for (; bits >= 0x80; bits >>= 7)
        size++;
    return size;
}

/* Write a number as a zigzag varint (at most 10 bytes); return the position after it. The caller has checked the room. */
static inline int64_t put_varint(uint8_t *out, int64_t at, int64_t value)
{
    uint64_t bits = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; bits >= 0x80; bits >>= 7)
        out[at++] = (uint8_t)(bits | 0x80);
    out[at++] = (uint8_t)bits;
    return at;
}

static inline int64_t put_bytes(uint8_t *out, int64_t at, const uint8_t *from, int64_t size)
{
    if (size > 0)
        memcpy(out + at, from, (size_t)size);
    return at + (size > 0 ? size : 0);
}

#endif
