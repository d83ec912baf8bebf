#include "render.h"
#include "records.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef uint8_t Block __attribute__((vector_size(16)));

enum {
    BLOCK = 16,
    MOST_OPS = 160,
    SMALL = 64,             /* room for an operation that is not piecewise, for what is around a field, or for blocks */
    CHECK_BYTES = 16 << 20, /* how much of a field is checked in one call */
    SHARED_BYTES = 4096,
    WORTH_SHARING = 3       /* records of a batch from which it pays to write what they share only once */
};
enum { NEXT, FULL, STOP, INVALID };
/* What is written next: the text before an operation, or a part of its field. The field begins with MODE_START if an
 * output was full before it. */
enum { MODE_BEFORE, MODE_START, MODE_CHECK, MODE_TEXT, MODE_BASE64 };

typedef struct {
    uint8_t *at, *end;
} Out;

typedef struct {
    const uint8_t *data;
    int64_t size; /* below 0: null */
    int is_outside;
} Field;

static int64_t room(const Out *o) { return o->end - o->at; }

static void put(Out *o, const void *source, int64_t size)
{
    memcpy(o->at, source, (size_t)size);
    o->at += size;
}

/* Copies a text in blocks, which is cheaper than a copy of exact size. It reads and writes up to two blocks more. */
static inline uint8_t *put_blocks(uint8_t *to, const uint8_t *source, int64_t size)
{
    int64_t done = 0;
    do {
        memcpy(to + done, source + done, BLOCK);
        memcpy(to + done + BLOCK, source + done + BLOCK, BLOCK);
        done += 2 * BLOCK;
    } while (done < size);
    return to + size;
}

/* ---- numbers */

enum { EIGHT_DIGITS = 100000000 };
static const uint64_t ZEROS = 0x3030303030303030u;

/* The digits of a number below EIGHT_DIGITS, one in each byte, the first in the lowest: two numbers of four digits in one
 * word become four of two, then eight of one. */
static inline uint64_t digits_of(uint64_t number)
{
    uint64_t high = number / 10000, pairs = high | (number - high * 10000) << 32;
    uint64_t hundreds = pairs * 10486 >> 20 & 0x0000007F0000007Fu;
    pairs = hundreds | (pairs - hundreds * 100) << 16;
    uint64_t tens = pairs * 103 >> 10 & 0x000F000F000F000Fu;
    return tens | (pairs - tens * 10) << 8;
}

/* Writes a number below EIGHT_DIGITS without leading zeros; stores eight bytes. */
static inline uint8_t *put_to_eight(uint8_t *to, uint64_t number)
{
    uint64_t digits = digits_of(number), last = (uint64_t)1 << 56; /* the last digit is written even if it is 0 */
    int zeros = __builtin_ctzll(digits | last) >> 3;
    digits = (digits | ZEROS) >> 8 * zeros;
    memcpy(to, &digits, 8);
    return to + 8 - zeros;
}

static inline uint8_t *put_eight(uint8_t *to, uint64_t number)
{
    uint64_t digits = digits_of(number) | ZEROS;
    memcpy(to, &digits, 8);
    return to + 8;
}

/* There is room for SMALL bytes. */
static inline uint8_t *put_number(uint8_t *to, int64_t value)
{
    uint64_t rest = (uint64_t)value;
    if (value < 0) {
        *to++ = '-';
        rest = 0 - rest;
    }
    if (rest < 10) {
        *to++ = (uint8_t)('0' + rest);
        return to;
    }
    if (rest < EIGHT_DIGITS)
        return put_to_eight(to, rest);
    uint64_t high = rest / EIGHT_DIGITS;
    if (high < EIGHT_DIGITS) {
        to = put_to_eight(to, high);
    } else {
        uint64_t highest = high / EIGHT_DIGITS;
        to = put_eight(put_to_eight(to, highest), high - highest * EIGHT_DIGITS);
    }
    return put_eight(to, rest - high * EIGHT_DIGITS);
}

static inline uint8_t *put_word(uint8_t *to, const char *word)
{
    int64_t size = (int64_t)strlen(word);
    memcpy(to, word, (size_t)size);
    return to + size;
}

static inline uint8_t *put_number_or_null(uint8_t *to, int64_t value, int64_t null_for_minus_1)
{
    return null_for_minus_1 == 1 && value == -1 ? put_word(to, "null") : put_number(to, value);
}

static const char HEX[] = "0123456789abcdef";

/* ---- text */

int64_t kafkalog_malformed_bytes(const uint8_t *text, int64_t left)
{
    uint8_t first = text[0];
    int second = left > 1 && (text[1] & 0xC0) == 0x80;
    if ((first & 0xF0) == 0xE0) {
        if (!second || (first == 0xE0 && text[1] < 0xA0))
            return 1;
        return left > 2 && (text[2] & 0xC0) == 0x80 ? 3 : 2; /* three: a surrogate */
    }
    if (first < 0xF0 || first > 0xF4 || !second)
        return 1;
    if ((first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F))
        return 1;
    return left > 2 && (text[2] & 0xC0) == 0x80 ? 3 : 2;
}

/* Of blocks: a bit for each byte of two that is 0xFF and not 0, the first in the lowest; bytes that are not 0 where one is
 * above or below another; the bytes moved to later ones, after zeros. */
#if defined(__SSE2__)
#define later(block, bytes) ((Block)_mm_slli_si128((__m128i)(block), bytes))
static inline uint64_t marked(Block first, Block second)
{
    return (uint64_t)_mm_movemask_epi8((__m128i)first) | (uint64_t)_mm_movemask_epi8((__m128i)second) << BLOCK;
}
static inline Block above(Block x, uint8_t most) { return (Block)_mm_subs_epu8((__m128i)x, _mm_set1_epi8((char)most)); }
static inline Block below(Block x, uint8_t least)
{
    return (Block)_mm_subs_epu8(_mm_set1_epi8((char)least), (__m128i)x);
}
#else
static inline uint64_t marked(Block first, Block second)
{
    uint64_t words[4], found = 0;
    memcpy(words, &first, BLOCK);
    memcpy(words + 2, &second, BLOCK);
    for (int word = 0; word < 4; word++) /* the product gathers the lowest bits of eight bytes in its highest byte */
        found |= (words[word] & 0x0101010101010101u) * 0x0102040810204080u >> 56 << 8 * word;
    return found;
}
static inline Block above(Block x, uint8_t most) { return (Block)(x > most); }
static inline Block below(Block x, uint8_t least) { return (Block)(x < least); }
static inline Block later(Block x, int bytes)
{
    unsigned __int128 whole;
    memcpy(&whole, &x, BLOCK);
    whole <<= 8 * bytes;
    memcpy(&x, &whole, BLOCK);
    return x;
}
#endif

static inline Block equal(Block x, uint8_t byte) { return (Block)(x == byte); }

static inline int is_zero(Block x) { return marked(equal(x, 0), (Block){0}) == 0xFFFF; }

/* The bytes that copy_plain copies: those from `low` to `high` but for two. Characters that begin with `lead` or
 * `another_lead` may be written in another way. Functions are inlined for each set, because a vector of a variable byte is
 * expensive to make. */
typedef struct {
    uint8_t low, high, other, another, lead, another_lead;
} Plain;
#define FOR_EACH_SET static inline __attribute__((always_inline))
static const Plain JSON_PLAIN = {0x20, 0x7E, '"', '\\', 0xC2, 0xE2},
                   ESCAPED_PLAIN = {0x20, 0x7E, 0xFF, 0xFF, 0xFF, 0xFF}, JAVA_PLAIN = {0, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF};

FOR_EACH_SET int is_plain(uint8_t byte, Plain set)
{
    return byte >= set.low && byte <= set.high && byte != set.other && byte != set.another;
}

FOR_EACH_SET Block copy_block(uint8_t *o, const uint8_t *p, Plain set)
{
    Block x;
    memcpy(&x, p, BLOCK);
    memcpy(o, &x, BLOCK);
    return (Block)(x - set.low > (uint8_t)(set.high - set.low)) | (Block)(x == set.other) | (Block)(x == set.another);
}

/* Copies bytes up to the first that is not plain, two blocks at a time, or byte by byte where these may not be read;
 * returns how many. There is room for two blocks more. */
FOR_EACH_SET int64_t copy_plain(uint8_t *o, const uint8_t *p, const uint8_t *stop, const uint8_t *readable, Plain set)
{
    const uint8_t *start = p;
    for (; readable - p >= 2 * BLOCK; p += 2 * BLOCK, o += 2 * BLOCK) {
        int64_t most = stop - p < 2 * BLOCK ? stop - p : 2 * BLOCK;
        uint64_t unplain = marked(copy_block(o, p, set), copy_block(o + BLOCK, p + BLOCK, set));
        int64_t plain = __builtin_ctzll(unplain | (uint64_t)1 << most);
        if (plain < 2 * BLOCK || stop - p == 2 * BLOCK)
            return p - start + plain;
    }
    while (p < stop && is_plain(*p, set))
        *o++ = *p++;
    return p - start;
}

/* Copies a character of `size` bytes; there is room for four. */
static inline uint8_t *put_character(uint8_t *o, const uint8_t *p, int size, const uint8_t *readable)
{
    if (readable - p >= 4)
        memcpy(o, p, 4);
    else
        memcpy(o, p, (size_t)size);
    return o + size;
}

/* ---- whole fields of plain text and usual characters */

enum { MOST_AT_ONCE = 512 }; /* of a longer field, most would be checked in vain before an unusual character */

/* Not 0 for the bytes of a block that are in ASCII and not plain. */
FOR_EACH_SET Block unplain_of(Block x, Plain set)
{
    Block found = x & 0;
    if (set.low)
        found = below(x, set.low) | equal(x, 0x7F);
    return set.other == 0xFF ? found : found | equal(x, set.other) | equal(x, set.another);
}

/* Not 0 for the bytes of a block that do not continue a character of two or three bytes where they must (`before_1` and
 * `before_2` are the bytes one and two before each), or only there, or that begin characters with more rules. */
FOR_EACH_SET Block unusual_of(Block x, Block before_1, Block before_2, Plain set)
{
    Block continues = (Block)((x & 0xC0) == 0x80), may_not = equal(above(before_1, 0xBF) | above(before_2, 0xDF), 0);
    Block found = (Block)(continues == may_not) | above(x, 0xEF) | equal(x & 0xFE, 0xC0) | equal(x, 0xE0) | equal(x, 0xED);
    return set.lead == 0xFF ? found : found | equal(x, set.lead) | equal(x, set.another_lead);
}

static inline Block block_at(const uint8_t *p)
{
    Block x;
    memcpy(&x, p, BLOCK);
    return x;
}

/* Copies `size` bytes and returns 1 if they are characters of UTF-8 that are written as they are, of one to three bytes;
 * 0 if this is not certain. */
FOR_EACH_SET int copy_usual(uint8_t *o, const uint8_t *p, int64_t size, Plain set)
{
    if (size < BLOCK + 2 || size > MOST_AT_ONCE) /* two bytes before the last block are read */
        return 0;
    const uint8_t *last = p + size - BLOCK;
    Block x = block_at(p), high = x, unplain = unplain_of(x, set);
    memcpy(o, &x, BLOCK);
    if (!is_zero(unplain)) /* so text with many quotes costs one try */
        return 0;
    for (const uint8_t *at = p + BLOCK; at < last + BLOCK; at += BLOCK) {
        const uint8_t *here = at < last ? at : last;
        x = block_at(here);
        memcpy(o + (here - p), &x, BLOCK);
        high |= x;
        unplain |= unplain_of(x, set);
    }
    if (is_zero(high & 0x80))
        return is_zero(unplain);
    if (p[size - 1] >= 0xC0 || p[size - 2] >= 0xE0)
        return 0;
    x = block_at(p);
    Block unusual = unusual_of(x, later(x, 1), later(x, 2), set);
    for (const uint8_t *at = p + BLOCK; at < last + BLOCK; at += BLOCK) {
        const uint8_t *here = at < last ? at : last;
        unusual |= unusual_of(block_at(here), block_at(here - 1), block_at(here - 2), set);
    }
    return is_zero(unplain | unusual);
}

static uint8_t *put_json_escape(uint8_t *o, uint32_t code)
{
    static const char SHORT[] = "\b\t\n\f\r\"\\", LETTERS[] = "btnfr\"\\";
    const char *found = code < 0x80 && code ? memchr(SHORT, (int)code, 7) : NULL;
    *o++ = '\\';
    if (found) {
        *o++ = (uint8_t)LETTERS[found - SHORT];
        return o;
    }
    *o++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *o++ = (uint8_t)HEX[code >> shift & 15];
    return o;
}

/* Writes what is plain from `*from` on, and quotes and backslashes with their escapes; `*from` becomes the position after
 * it. It ends at `stop` or at another character. There is room for two blocks more. */
static inline uint8_t *put_quoted(uint8_t *o, const uint8_t **from, const uint8_t *stop, const uint8_t *readable)
{
    const uint8_t *p = *from;
    while (p < stop && readable - p >= 4 * BLOCK) {
        int64_t most = stop - p < 2 * BLOCK ? stop - p : 2 * BLOCK;
        uint64_t unplain = marked(copy_block(o, p, JSON_PLAIN), copy_block(o + BLOCK, p + BLOCK, JSON_PLAIN));
        Block x = block_at(p), y = block_at(p + BLOCK);
        uint64_t quotes = marked(equal(x, '"') | equal(x, '\\'), equal(y, '"') | equal(y, '\\'));
        int64_t done = __builtin_ctzll((unplain & ~quotes) | (uint64_t)1 << most);
        for (quotes &= ((uint64_t)1 << done) - 1; quotes; quotes &= quotes - 1, o++) {
            int64_t at = __builtin_ctzll(quotes);
            o[at] = '\\';
            put_blocks(o + at + 1, p + at, 2 * BLOCK);
        }
        o += done;
        p += done;
        if (done < 2 * BLOCK) {
            *from = p;
            return o;
        }
    }
    int64_t plain = copy_plain(o, p, stop, readable, JSON_PLAIN);
    *from = p + plain;
    return o + plain;
}

/* Writes p to `stop` as the inside of a JSON string, at most six bytes for each and a block more; NULL if it is not
 * UTF-8. Escaped are also DEL, C1 controls and line separators, which terminals or line readers mishandle. */
static uint8_t *put_json_text(uint8_t *o, const uint8_t *p, const uint8_t *stop, const uint8_t *readable)
{
    if (copy_usual(o, p, stop - p, JSON_PLAIN))
        return o + (stop - p);
    while (p < stop) {
        o = put_quoted(o, &p, stop, readable);
        while (p < stop && !is_plain(*p, JSON_PLAIN)) {
            int size = character_bytes(p, stop - p);
            if (!size)
                return NULL;
            if (size == 1)
                o = put_json_escape(o, *p);
            else if (size == 2 && *p == 0xC2 && p[1] < 0xA0)
                o = put_json_escape(o, p[1]);
            else if (size == 3 && *p == 0xE2 && p[1] == 0x80 && (p[2] | 1) == 0xA9)
                o = put_json_escape(o, 0x2000u + p[2] - 0x80u);
            else
                o = put_character(o, p, size, readable);
            p += size;
        }
    }
    return o;
}

/* Returns the first byte from p on that does not begin a character of UTF-8, or the start of the first character that
 * begins at `stop` or later. */
static const uint8_t *skip_utf8(const uint8_t *p, const uint8_t *stop, const uint8_t *end)
{
    while (p < stop) {
        uint64_t word;
        if (stop - p >= 8 && (memcpy(&word, p, 8), !(word & 0x8080808080808080u))) {
            p += 8;
            continue;
        }
        int size = character_bytes(p, end - p);
        if (!size)
            break;
        p += size;
    }
    return p;
}

static uint8_t *put_control_escape(uint8_t *o, uint8_t byte)
{
        *o++ = '\\';
    if (byte == '\n' || byte == '\t' || byte == '\r') {
        *o++ = byte == '\n' ? 'n' : byte == '\t' ? 't' : 'r';
        return o;
    }
    *o++ = 'x';
    *o++ = (uint8_t)HEX[byte >> 4];
    *o++ = (uint8_t)HEX[byte & 15];
    return o;
}

/* Writes the characters that begin before `stop`, at most four bytes for each byte and a block more. `*from` becomes
 * the position after them. */
FOR_EACH_SET uint8_t *put_decoded_of(uint8_t *o, const uint8_t **from, const uint8_t *stop, const uint8_t *end,
                                     const uint8_t *readable, int64_t form, Plain set)
{
    const uint8_t *p = *from;
    if (stop == end && copy_usual(o, p, stop - p, set)) {
        *from = stop;
        return o + (stop - p);
    }
    while (p < stop) {
        int64_t plain = copy_plain(o, p, stop, readable, set);
        p += plain;
        o += plain;
        while (p < stop && !is_plain(*p, set)) {
            int size = character_bytes(p, end - p);
            if (size == 1) {
                o = put_control_escape(o, *p);
            } else if (size) {
                o = put_character(o, p, size, readable);
            } else {
                size = (int)kafkalog_malformed_bytes(p, end - p);
                if (form == FORM_TEXT_ESCAPED && *p == 0xED && size > 1 && p[1] >= 0xA0)
                    size = 1;
                memcpy(o, "\xEF\xBF\xBD", 3);
                o += 3;
            }
            p += size;
        }
    }
    *from = p;
    return o;
}

static uint8_t *put_decoded(uint8_t *o, const uint8_t **from, const uint8_t *stop, const uint8_t *end,
                            const uint8_t *readable, int64_t form)
{
    if (form == FORM_JAVA)
        return put_decoded_of(o, from, stop, end, readable, form, JAVA_PLAIN);
    return put_decoded_of(o, from, stop, end, readable, form, ESCAPED_PLAIN);
}

static void put_base64(Out *o, const uint8_t *p, int64_t size)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *to = o->at;
    for (; size >= 3; size -= 3, p += 3, to += 4) {
        uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        to[0] = (uint8_t)LETTERS[bits >> 18];
        to[1] = (uint8_t)LETTERS[bits >> 12 & 63];
        to[2] = (uint8_t)LETTERS[bits >> 6 & 63];
        to[3] = (uint8_t)LETTERS[bits & 63];
    }
    if (size) {
        uint32_t bits = (uint32_t)p[0] << 16 | (size > 1 ? (uint32_t)p[1] << 8 : 0);
        to[0] = (uint8_t)LETTERS[bits >> 18];
        to[1] = (uint8_t)LETTERS[bits >> 12 & 63];
        to[2] = size > 1 ? (uint8_t)LETTERS[bits >> 6 & 63] : '=';
        to[3] = '=';
        to += 4;
    }
    o->at = to;
}

/* ---- fields, in pieces if they are larger than the room */

static const char JSON_TEXT[] = "{\"encoding\":\"utf-8\",\"data\":\"";
static const char JSON_BASE64[] = "{\"encoding\":\"base64\",\"data\":\"";
static const char MISSING[] = "\",\"missing_bytes\":";

static void begin_json(Out *o, RenderState *s, int64_t mode)
{
    if (mode == MODE_TEXT)
        put(o, JSON_TEXT, sizeof JSON_TEXT - 1);
    else
        put(o, JSON_BASE64, sizeof JSON_BASE64 - 1);
    s->mode = mode;
    s->position = 0;
}

/* Writes the next bytes in base64. Returns FULL if more are left. */
static int put_base64_piece(Out *o, RenderState *s, const Field *f)
{
    int64_t left = f->size - s->position, most = (room(o) - SMALL) / 4 * 3;
    int64_t size = left <= most ? left : most;
    if (size < 0)
        return FULL;
    put_base64(o, f->data + s->position, size);
    s->position += size;
    return size < left ? FULL : NEXT;
}

static int put_json(Out *o, RenderState *s, const Field *f, const uint8_t *readable)
{
    if (room(o) < 2 * SMALL)
        return FULL;
    if (f->size < 0) {
        put(o, "null", 4);
        return NEXT;
    }
    if (f->is_outside) {
        put(o, JSON_TEXT, sizeof JSON_TEXT - 1);
        put(o, MISSING, sizeof MISSING - 1);
        o->at = put_number(o->at, f->size);
        *o->at++ = '}';
        return NEXT;
    }
    const uint8_t *end = f->data + f->size;
    if (s->mode <= MODE_START && f->size <= (room(o) - 2 * SMALL) / 6) {
        put(o, JSON_TEXT, sizeof JSON_TEXT - 1);
        uint8_t *after = put_json_text(o->at, f->data, end, readable);
        if (after) {
            o->at = after;
        } else {
            o->at -= sizeof JSON_TEXT - 1;
            put(o, JSON_BASE64, sizeof JSON_BASE64 - 1);
            put_base64(o, f->data, f->size);
        }
        put(o, "\"}", 2);
        return NEXT;
    }
    if (s->mode <= MODE_CHECK) {
        const uint8_t *from = f->data + s->position;
        const uint8_t *stop = end - from > CHECK_BYTES ? from + CHECK_BYTES : end;
        const uint8_t *after = skip_utf8(from, stop, end);
        s->mode = MODE_CHECK;
        s->position = after - f->data;
        if (after < stop)
            begin_json(o, s, MODE_BASE64);
        else if (after == end)
            begin_json(o, s, MODE_TEXT);
        else
            return FULL;
    }
    if (s->mode == MODE_BASE64) {
        if (put_base64_piece(o, s, f) == FULL)
            return FULL;
    } else {
        const uint8_t *from = f->data + s->position, *stop = end;
        int64_t most = (room(o) - SMALL) / 6;
        if (end - from > most) {
            stop = most > 0 ? from + most : from;
            while (stop > from && (*stop & 0xC0) == 0x80)
                stop--;
        }
        o->at = put_json_text(o->at, from, stop, readable);
        s->position = stop - f->data;
        if (stop < end)
            return FULL;
    }
    put(o, "\"}", 2);
    return NEXT;
}

static int put_hex(Out *o, RenderState *s, const Field *f, int with_prefix)
{
        if (room(o) < SMALL)
        return FULL;
    if (with_prefix && s->mode <= MODE_START)
        put(o, "0x", 2);
    s->mode = MODE_TEXT;
    int64_t left = f->size - s->position, most = room(o) / 2, size = left < most ? left : most;
    for (const uint8_t *p = f->data + s->position, *stop = p + size; p < stop; p++) {
        *o->at++ = (uint8_t)HEX[*p >> 4];
        *o->at++ = (uint8_t)HEX[*p & 15];
    }
    s->position += size;
    return size < left ? FULL : NEXT;
}

static int put_field(Out *o, RenderState *s, const Field *f, int64_t form, const uint8_t *readable)
{
    if (form == FORM_JSON)
        return put_json(o, s, f, readable);
    if (f->size < 0 || (f->size == 0 && form != FORM_HEX_0X))
        return NEXT;
    if (form == FORM_HEX || form == FORM_HEX_0X)
        return put_hex(o, s, f, form == FORM_HEX_0X);
    if (form == FORM_BASE64)
        return put_base64_piece(o, s, f);
    const uint8_t *from = f->data + s->position, *end = f->data + f->size, *stop = end;
    if (form == FORM_RAW) {
        int64_t most = room(o), size = end - from < most ? end - from : most;
        put(o, from, size);
        s->position += size;
        return from + size < end ? FULL : NEXT;
    }
    int64_t most = (room(o) - SMALL) / 4;
    if (most <= 0)
        return FULL;
    if (end - from > most)
        stop = from + most;
    o->at = put_decoded(o->at, &from, stop, end, readable, form);
    s->position = from - f->data;
    return from < end ? FULL : NEXT;
}

/* ---- programs */

/* An operation, and a text that is written before it, which two blocks follow. `op.skip` counts steps. */
typedef struct {
    RenderOp op;
    const uint8_t *text;
    int64_t size;
} Step;

/* The steps for a line. `text` has what the records of a batch share, and joined texts. */
typedef struct {
    Step steps[MOST_OPS];
    int64_t count;
    uint8_t text[SHARED_BYTES];
} Steps;

enum { OP_NONE = OP_CODES };

static int64_t of_batch(const RenderInput *in, int64_t batch, int64_t column)
{
    return in->batches[column * in->batch_stride + batch];
}

static int64_t of_record(const RenderInput *in, int64_t record, int64_t column)
{
    return in->records[column * in->record_stride + record];
}

static uint8_t *put_number_of_record(uint8_t *to, const RenderInput *in, int64_t record, const RenderOp *op)
{
    int64_t number = of_record(in, record, op->a);
    return put_number_or_null(to, op->b == 2 && number < -1 ? -1 : number, op->b);
}

static int64_t last_sequence(const RenderInput *in, int64_t batch)
{
    int64_t first = of_batch(in, batch, B_BASE_SEQUENCE);
    int64_t step = subtract(of_batch(in, batch, B_LAST_OFFSET), of_batch(in, batch, B_BASE_OFFSET));
    return first == -1 ? -1 : increment_sequence(first, step);
}

static int batch_condition(const RenderInput *in, int64_t batch, int64_t condition)
{
    int64_t magic = of_batch(in, batch, B_MAGIC), attributes = of_batch(in, batch, B_ATTRIBUTES);
    switch (condition) {
    case IF_LEGACY: return magic < 2;
    case IF_MAGIC_0: return magic == 0;
    case IF_TRANSACTIONAL: return magic >= 2 && attributes & 0x10;
    case IF_CONTROL: return magic >= 2 && attributes & 0x20;
    case IF_DELETE_HORIZON: return magic >= 2 && attributes & 0x40;
    case IF_CODEC_KNOWN: return (attributes & 7) <= 4;
    case IF_CRC_CHECKED: return of_batch(in, batch, B_VALID) >= 0;
    case IF_EPOCH_KNOWN: return of_batch(in, batch, B_EPOCH) >= 0;
    default: return of_batch(in, batch, B_VALID) != 0;
    }
}

/* Writes an operation that is the same for all records of a batch; there is room for SMALL bytes. */
static uint8_t *put_of_batch(uint8_t *to, const RenderInput *in, int64_t batch, const RenderOp *op)
{
    static const char CODECS[][8] = {"none", "gzip", "snappy", "lz4", "zstd", "null", "null", "null"};
    const char *word;
    switch (op->code) {
    case OP_BATCH_NUMBER: return put_number_or_null(to, of_batch(in, batch, op->a), op->b);
    case OP_LAST_SEQUENCE: return put_number(to, last_sequence(in, batch));
    case OP_TIME_TYPE:
        word = "CreateTime";
        if (of_batch(in, batch, B_MAGIC) == 0)
            word = "NoTimestampType";
        else if (of_batch(in, batch, B_ATTRIBUTES) & 8)
            word = "LogAppendTime";
        break;
    case OP_CODEC: word = CODECS[of_batch(in, batch, B_ATTRIBUTES) & 7]; break;
    default: word = batch_condition(in, batch, op->a) ? "true" : "false";
    }
    return put_word(to, word);
}

static int is_of_batch(const RenderOp *op)
{
    return (op->code >= OP_BATCH_NUMBER && op->code <= OP_CODEC) || (op->code == OP_BOOL && op->a < IF_RECORD);
}

/* A field of the record, or of the header that `s` is at. Returns 0 if it reaches beyond the buffer. */
static inline int get_field(const RenderInput *in, const RenderState *s, int64_t which, Field *f)
{
    int64_t at = s->key_at, size = s->key_size;
    if (which == FIELD_HEADER_VALUE) {
        at = s->value_at;
        size = s->value_size;
    } else if (which != FIELD_HEADER_KEY) {
        int64_t column = which == FIELD_KEY ? R_KEY_AT : R_VALUE_AT;
        at = of_record(in, s->record, column);
        size = of_record(in, s->record, column + 1);
    }
    f->size = size;
    f->is_outside = size >= 0 && at == OUTSIDE;
    f->data = in->buffer;
    if (size < 0 || f->is_outside)
        return 1;
    if (!is_inside(at, size, in->buffer_size))
        return 0;
    f->data = in->buffer + at;
    return 1;
}

/* The field without its missing bytes, for forms that cannot say that they are missing. */
static Field contents_of(const Field *f)
{
    return (Field){f->data, f->is_outside ? 0 : f->size, 0};
}

/* Reads the header at s->header_at, which moves behind it. Returns 0 if it reaches beyond the buffer. */
static int get_header(const RenderInput *in, RenderState *s)
{
    int64_t at = s->header_at, end = in->buffer_size;
    if (at < 0 || at > end)
        return 0;
    s->key_size = varint(in->buffer, &at, end, 5);
    s->key_at = at;
    if (!is_inside(at, s->key_size, end))
        return 0;
    at += s->key_size;
    s->value_size = varint(in->buffer, &at, end, 5);
    s->value_at = at;
    int64_t bytes = s->value_size > 0 ? s->value_size : 0;
    s->header_at = at + bytes;
    return is_inside(at, bytes, end);
}

static int64_t ready_of(const RenderInput *in, const RenderState *s, int64_t column, int64_t *start)
{
    int64_t row = s->record - in->ready_first;
    if (column >= in->ready_columns || row < 0 || row >= in->ready_count)
        return READY_NONE;
    *start = in->ready[2 * column * in->ready_count + row];
    return in->ready[(2 * column + 1) * in->ready_count + row];
}

/* Returns whether a condition holds, -1 if the input contradicts itself. */
static int holds(const RenderInput *in, const RenderState *s, const RenderOp *op)
{
    Field f;
    int64_t start;
    switch (op->a) {
    case IF_RECORD_VALID: return of_record(in, s->record, R_VALID) != 0;
    case IF_NULL: return get_field(in, s, op->b, &f) ? f.size < 0 : -1;
    case IF_OUTSIDE: return get_field(in, s, op->b, &f) ? f.is_outside : -1;
    case IF_HEADERS: return of_record(in, s->record, R_HEADERS) > 0;
    case IF_NO_READY: return ready_of(in, s, op->b, &start) == READY_NONE;
    case IF_LATER_HEADER: return s->header > 1;
    default: return batch_condition(in, s->batch, op->a);
    }
}

static int put_ready(Out *o, RenderState *s, const RenderInput *in, const RenderOp *op)
{
    int64_t start = 0, size = ready_of(in, s, op->a, &start);
    Field f;
    if (size == READY_NONE)
        return NEXT;
    if (size == READY_STOP)
        return STOP;
    if (size < 0) {
        int64_t form = READY_FORM(0) - size;
        if (form < 0 || form >= FORMS || !get_field(in, s, op->b, &f))
            return INVALID;
        f = form == FORM_JSON ? f : contents_of(&f);
        return put_field(o, s, &f, form, in->buffer + in->buffer_size);
    }
    if (start < 0 || size > in->ready_size || start > in->ready_size - size)
        return INVALID;
    f = (Field){in->ready_text + start, size, 0};
    return put_field(o, s, &f, FORM_RAW, f.data + size);
}

static uint8_t *put_size(uint8_t *to, const Field *f, int64_t how)
{
    int64_t size = f->size < 0 ? -1 : f->is_outside ? 0 : f->size;
    if (how == SIZE_DECIMAL)
        return put_number(to, size);
    uint8_t bytes[4];
    const uint8_t *from = bytes;
    store_be(bytes, (uint64_t)size, 4);
    if (how == SIZE_BYTES_ESCAPED)
        return put_decoded(to, &from, bytes + 4, bytes + 4, bytes + 4, FORM_TEXT_ESCAPED);
    memcpy(to, bytes, 4);
    return to + 4;
}

/* Moves to the next header and returns 1, 0 after the last header, -1 if the input contradicts itself. */
static int next_header(const RenderInput *in, RenderState *s)
{
    if (s->header == 0)
        s->header_at = of_record(in, s->record, R_HEADERS_AT);
    if (s->header >= of_record(in, s->record, R_HEADERS)) {
        s->header = 0;
        return 0;
    }
    s->header++;
    return get_header(in, s) ? 1 : -1;
}

/* Executes the steps from s->op on. Returns NEXT at the end. */
static int run(const Steps *program, const RenderInput *in, RenderState *s, Out *out)
{
    const uint8_t *readable = in->buffer + in->buffer_size;
    uint8_t *to = out->at, *end = out->end; /* copies: the compiler must assume that stores change `out` */
    int64_t at = s->op;
    int answer = NEXT;
    while (at < program->count) {
        const Step *step = program->steps + at;
        const RenderOp *op = &step->op;
        if (s->mode == MODE_BEFORE) {
            int64_t left = step->size - s->position, most = end - to - SMALL;
            if (left > most) {
                if (most > 0) {
                    to = put_blocks(to, step->text + s->position, most);
                    s->position += most;
                }
                answer = FULL;
                break;
            }
            to = put_blocks(to, step->text + s->position, left);
            s->position = 0;
        }
        int64_t skip = 0;
        Field f;
        switch (op->code) {
        case OP_NONE: break;
        case OP_RECORD_NUMBER:
            to = put_number_of_record(to, in, s->record, op);
            break;
        case OP_FIELD:
        case OP_READY: {
            Out o = {to, end};
            if (op->code == OP_READY)
                answer = put_ready(&o, s, in, op);
            else if (!get_field(in, s, op->a, &f))
                answer = INVALID;
            else
                answer = put_field(&o, s, &f, op->b, readable);
            to = o.at;
            s->mode = answer == NEXT ? MODE_BEFORE : s->mode == MODE_BEFORE ? MODE_START : s->mode;
            s->position = answer == NEXT ? 0 : s->position;
            break;
        }
        case OP_SIZE:
            if (get_field(in, s, op->a, &f))
                to = put_size(to, &f, op->b);
            else
                answer = INVALID;
            break;
        case OP_IF:
        case OP_UNLESS: {
            int is_true = holds(in, s, op);
            answer = is_true < 0 ? INVALID : NEXT;
            skip = is_true == (op->code == OP_IF) ? 0 : op->skip;
            break;
        }
        case OP_HEADERS: {
            int is_there = next_header(in, s);
            answer = is_there < 0 ? INVALID : NEXT;
            skip = is_there ? 0 : op->skip;
            break;
        }
        case OP_NEXT_HEADER: skip = -op->skip - 1; break;
        case OP_STOP: answer = STOP; break;
        case OP_BOOL:
            if (op->a >= IF_RECORD) {
                to = put_word(to, holds(in, s, op) ? "true" : "false");
                break;
            } /* fall through */
        default: to = put_of_batch(to, in, s->batch, op);
        }
        if (answer != NEXT)
            break;
        at += 1 + skip;
    }
    out->at = to;
    s->op = at;
    return answer;
}

/* Whether a condition before the loop at `at` skips to an operation inside of it. */
static int is_jumped_into(const RenderInput *in, int64_t at)
{
    for (int64_t i = in->batch_ops; i < at; i++) {
        const RenderOp *op = in->ops + i;
        if (op->code != OP_IF && op->code != OP_UNLESS)
            continue;
        int64_t target = i + 1 + op->skip;
        if (target > at && target <= at + in->ops[at].skip)
            return 1;
    }
    return 0;
}

/* Whether every operand of a program is in its range, so that nothing needs a check while it runs. */
static int is_sound(const RenderInput *in)
{
    if (in->op_count < 0 || in->op_count > MOST_OPS || in->batch_ops < 0 || in->batch_ops > in->op_count)
        return 0;
    int64_t loop_end = -1;
    for (int64_t i = 0; i < in->op_count; i++) {
        const RenderOp *op = in->ops + i;
        int of_record_line = i >= in->batch_ops;
        int64_t end = of_record_line ? in->op_count : in->batch_ops;
        int is_right = 1;
        switch (op->code) {
        case OP_TEXT:
            is_right = op->a >= 0 && op->a <= in->text_size && op->b >= 0 &&
                       op->b <= in->text_size - op->a - 2 * BLOCK;
            break;
        case OP_BATCH_NUMBER: is_right = op->a >= 0 && op->a < BATCH_COLUMNS; break;
        case OP_LAST_SEQUENCE:
        case OP_TIME_TYPE:
        case OP_CODEC:
        case OP_STOP: break;
        case OP_BOOL:
            is_right = op->a >= 0 && (op->a < IF_RECORD || (op->a == IF_RECORD_VALID && of_record_line));
            break;
        case OP_RECORD_NUMBER: is_right = of_record_line && op->a >= 0 && op->a < RECORD_COLUMNS; break;
        case OP_SIZE:
            is_right = of_record_line && op->a >= 0 && op->a < FIELDS && op->b >= 0 && op->b < SIZES;
            break;
        case OP_FIELD: is_right = of_record_line && op->a >= 0 && op->a < FIELDS && op->b >= 0 && op->b < FORMS; break;
        case OP_READY: is_right = of_record_line && op->a >= 0 && op->b >= 0 && op->b < FIELDS; break;
        case OP_IF:
        case OP_UNLESS:
            is_right = op->a >= 0 && op->a < IF_CODES && (of_record_line || op->a < IF_RECORD) && op->b >= 0 &&
                       (op->b < FIELDS || op->a == IF_NO_READY) && op->skip >= 0 && op->skip < end - i &&
                       (i > loop_end || i + op->skip < loop_end);
            break;
        case OP_HEADERS:
            is_right = of_record_line && i > loop_end && op->skip > 0 && op->skip < end - i &&
                       op[op->skip].code == OP_NEXT_HEADER && op[op->skip].skip == op->skip &&
                       !is_jumped_into(in, i);
            loop_end = is_right ? i + op->skip : loop_end;
            break;
        case OP_NEXT_HEADER:
            is_right = of_record_line && op->skip > 0 && op->skip <= i && op[-op->skip].code == OP_HEADERS &&
                       op[-op->skip].skip == op->skip;
            break;
        default: is_right = 0;
        }
        if (!is_right)
            return 0;
    }
    return 1;
}

/* The batch whose steps are made, with the records from `first` to `end`; a `number` of -1 is none. */
typedef struct {
    int64_t number, first, end;
} BatchRecords;

enum { VARIES = -1 };

/* Whether a condition holds for all records of a batch; VARIES if it does not for some, or is not known. */
static int shared_condition(const RenderInput *in, const BatchRecords *batch, const RenderOp *op)
{
    const int64_t *column;
    int64_t least = 0; /* the condition is that a number is below it */
    int is_below = 1;
    if (op->a == IF_NO_READY)
        return op->b >= in->ready_columns ? 1 : VARIES;
    if (batch->number < 0)
        return VARIES;
    if (op->a < IF_RECORD)
        return batch_condition(in, batch->number, op->a);
    if (op->a == IF_NULL && (op->b == FIELD_KEY || op->b == FIELD_VALUE)) {
        column = in->records + (op->b == FIELD_KEY ? R_KEY_SIZE : R_VALUE_SIZE) * in->record_stride;
    } else if (op->a == IF_HEADERS) {
        column = in->records + R_HEADERS * in->record_stride;
        least = 1;
        is_below = 0;
    } else {
        return VARIES;
    }
    int answer = column[batch->first] < least;
    for (int64_t record = batch->first + 1; record < batch->end; record++)
        if ((column[record] < least) != answer)
            return VARIES;
    return answer == is_below;
}

/* Whether an operation writes the same for all records of a batch. */
static int is_shared(const RenderInput *in, const BatchRecords *batch, const RenderOp *op)
{
    if (batch->number < 0)
        return 0;
    if (op->code == OP_FIELD && op->b == FORM_JSON) {
        const RenderOp is_null = {OP_IF, IF_NULL, op->a, 0};
        return shared_condition(in, batch, &is_null) == 1;
    }
    if (op->code != OP_RECORD_NUMBER)
        return is_of_batch(op);
    const int64_t *column = in->records + op->a * in->record_stride;
    for (int64_t record = batch->first + 1; record < batch->end; record++)
        if (column[record] != column[batch->first])
            return 0;
    return 1;
}

static uint8_t *put_shared(uint8_t *to, const RenderInput *in, const BatchRecords *batch, const RenderOp *op)
{
    if (op->code == OP_FIELD)
        return put_word(to, "null");
    if (op->code == OP_RECORD_NUMBER)
        return put_number_of_record(to, in, batch->first, op);
    return put_of_batch(to, in, batch->number, op);
}

/* Makes steps of the operations `begin` to `end`. What the records of a batch share becomes text. */
static void prepare(const RenderInput *in, int64_t begin, int64_t end, const BatchRecords *batch, Steps *made)
{
    int64_t first[MOST_OPS + 1]; /* the step from which on an operation, or what follows a dropped one, is done */
    int64_t step_of[MOST_OPS + 1], resolved_end = begin;
    uint8_t is_target[MOST_OPS + 1] = {0};
    uint8_t *to = made->text, *most = made->text + SHARED_BYTES - 2 * BLOCK;
    for (int64_t i = begin; i < end; i++) {
        const RenderOp *op = in->ops + i;
        if (op->code == OP_IF || op->code == OP_UNLESS || op->code == OP_HEADERS)
            is_target[i + 1 + op->skip] = 1;
        if (op->code == OP_HEADERS)
            is_target[i] = 1;
    }
    const uint8_t *text = to;
    int64_t size = 0;
    made->count = 0;
    for (int64_t i = begin; i <= end; i++) {
        if (size && (is_target[i] || i == end)) {
            made->steps[made->count++] = (Step){{OP_NONE, 0, 0, 0}, text, size};
            size = 0;
        }
        first[i] = made->count;
        step_of[i] = -1;
        if (i < resolved_end || i == end) /* skipped: the condition does not hold in this batch */
            continue;
        const RenderOp *op = in->ops + i;
        if (op->code == OP_READY && op->a >= in->ready_columns)
            continue;
        if (op->code == OP_IF || op->code == OP_UNLESS || op->code == OP_HEADERS) {
            static const RenderOp ANY_HEADERS = {OP_IF, IF_HEADERS, 0, 0};
            int is_loop = op->code == OP_HEADERS, answer = shared_condition(in, batch, is_loop ? &ANY_HEADERS : op);
            if (answer != VARIES && answer != (op->code != OP_UNLESS))
                resolved_end = i + 1 + op->skip;
            if (answer != VARIES && !(is_loop && answer))
                continue;
        }
        int is_text = op->code == OP_TEXT;
        if (is_text || is_shared(in, batch, op)) {
            int64_t bytes = is_text ? op->b : SMALL;
            int has_room = bytes <= most - to;
            if (size && (!has_room || text + size != to)) {
                made->steps[made->count++] = (Step){{OP_NONE, 0, 0, 0}, text, size};
                size = 0;
            }
            if (has_room) {
                text = size ? text : to;
                to = is_text ? put_blocks(to, in->text + op->a, op->b) : put_shared(to, in, batch, op);
                size = to - text;
                continue;
            }
            if (is_text) {
                text = in->text + op->a;
                size = op->b;
                continue;
            }
        }
        step_of[i] = made->count;
        made->steps[made->count++] = (Step){*op, text, size};
        size = 0;
    }
    for (int64_t i = begin; i < end; i++) {
        const RenderOp *op = in->ops + i;
        int64_t k = step_of[i];
        if (k >= 0 && (op->code == OP_IF || op->code == OP_UNLESS || op->code == OP_HEADERS))
            made->steps[k].op.skip = first[i + 1 + op->skip] - k - 1;
        else if (k >= 0 && op->code == OP_NEXT_HEADER)
            made->steps[k].op.skip = k - first[i - op->skip];
    }
}

static int begins_right(const RenderInput *in, const RenderState *s)
{
    return in->buffer_size >= 0 && in->batch_count >= 0 && in->record_count >= 0 && in->text_size >= 0 &&
           in->ready_size >= 0 && in->ready_columns >= 0 && in->ready_first >= 0 && in->ready_count >= 0 &&
           in->batch_stride >= in->batch_count &&
           in->record_stride >= in->record_count && s->batch >= 0 && s->record >= 0 && s->op >= 0 &&
           s->position >= 0 && s->header >= 0;
}

int64_t kafkalog_render(const RenderInput *in, RenderState *s, uint8_t *out, int64_t size)
{
    Out o = {out, out + size};
    Steps batch_line, record_line, shared_line;
    s->status = RENDER_MORE;
    if (size < RENDER_LEAST || !begins_right(in, s) || !is_sound(in))
        return -1;
    const BatchRecords none = {-1, 0, 0};
    prepare(in, 0, in->batch_ops, &none, &batch_line);
    prepare(in, in->batch_ops, in->op_count, &none, &record_line);
    for (; s->batch < in->batch_count; s->batch++, s->in_records = 0) {
        int64_t first = s->batch ? in->record_ends[s->batch - 1] : 0, end = in->record_ends[s->batch];
        if (first < 0 || end < first || end > in->record_count)
            return -1;
        if (!s->in_records) {
            int answer = run(&batch_line, in, s, &o);
            if (answer != NEXT) {
                s->status = answer == STOP ? RENDER_STOPPED : RENDER_MORE;
                return answer == INVALID ? -1 : o.at - out;
            }
            s->in_records = 1;
            s->op = 0;
        }
        const Steps *line = &record_line;
        if (end - first >= WORTH_SHARING) {
            const BatchRecords batch = {s->batch, first, end};
            prepare(in, in->batch_ops, in->op_count, &batch, &shared_line);
            line = &shared_line;
        }
        for (; s->record < end; s->record++, s->op = 0) {
            if (in->ready_columns && s->record - in->ready_first >= in->ready_count) {
                s->status = RENDER_NEEDS_READY;
                return o.at - out;
            }
            int answer = run(line, in, s, &o);
            if (answer != NEXT) {
                s->status = answer == STOP ? RENDER_STOPPED : RENDER_MORE;
                return answer == INVALID ? -1 : o.at - out;
            }
        }
        s->op = 0;
    }
    s->status = RENDER_DONE;
    return o.at - out;
}
