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

/* Read the varint of a header that skip_headers accepted before; the position stays within `end` in any case. */
static inline int64_t header_varint(const uint8_t *data, int64_t *at, int64_t end)
{
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 35; shift += 7) {
        uint64_t byte = data[(*at)++];
        value |= (byte & 0x7F) << shift;
        if (byte < 0x80)
            break;
    }
    return zigzag((uint32_t)value);
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
