#include "render.h"
#include "records.h"

typedef uint8_t Block __attribute__((vector_size(16)));

enum {
    BLOCK = 16,
    MOST_OPS = 160,
    SMALL = 64,             /* room for each operation that is not piecewise, and for what is around a field */
    CHECK_BYTES = 16 << 20, /* how much of a field is checked in one call */
    SHARED_BYTES = 4096,
    WORTH_SHARING = 3       /* records of a batch from which it pays to write what they share only once */
};
enum { NEXT, FULL, STOP, INVALID };
enum { MODE_START, MODE_CHECK, MODE_TEXT, MODE_BASE64 };

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

/* Copies a short text. `readable` bytes may be read from `source` on: blocks are cheaper than a copy of exact size. */
static inline void put_short(Out *o, const uint8_t *source, int64_t size, int64_t readable)
{
    if (size + BLOCK > room(o) || size + BLOCK > readable) {
        put(o, source, size);
        return;
    }
    uint8_t *to = o->at; /* a copy: bytes that are stored could be those of `o`, as far as the compiler knows */
    for (int64_t i = 0; i < size; i += BLOCK)
        memcpy(to + i, source + i, BLOCK);
    o->at = to + size;
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
static inline void put_number(Out *o, int64_t value)
{
    uint8_t *to = o->at;
    uint64_t rest = (uint64_t)value;
    if (value < 0) {
        *to++ = '-';
        rest = 0 - rest;
    }
    if (rest < 10) {
        *to++ = (uint8_t)('0' + rest);
    } else if (rest < EIGHT_DIGITS) {
        to = put_to_eight(to, rest);
    } else {
        uint64_t high = rest / EIGHT_DIGITS;
        if (high < EIGHT_DIGITS) {
            to = put_to_eight(to, high);
        } else {
            uint64_t highest = high / EIGHT_DIGITS;
            to = put_eight(put_to_eight(to, highest), high - highest * EIGHT_DIGITS);
        }
        to = put_eight(to, rest - high * EIGHT_DIGITS);
    }
    o->at = to;
}

static void put_number_or_null(Out *o, int64_t value, int64_t null_for_minus_1)
{
    if (null_for_minus_1 == 1 && value == -1)
        put(o, "null", 4);
    else
        put_number(o, value);
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

/* The index of the first marked byte of the first `size` bytes; `size` if none of them is marked. */
static int64_t first_marked(Block marks, int64_t size)
{
    uint64_t half[2];
    memcpy(half, &marks, BLOCK);
    int64_t index = half[0] ? __builtin_ctzll(half[0]) >> 3 : half[1] ? 8 + (__builtin_ctzll(half[1]) >> 3) : BLOCK;
    return index < size ? index : size;
}

/* Copies bytes up to the first special one in a block, or byte by byte where no block may be read; returns how many.
 * A byte is special if it is not from 0x20 to 0x7E, or one of two further ones. There is room for a block more. */
static int64_t copy_plain(uint8_t *o, const uint8_t *p, const uint8_t *stop, const uint8_t *readable, uint8_t low,
                          uint8_t high, uint8_t other, uint8_t another)
{
    const uint8_t *start = p;
    while (p < stop && readable - p >= BLOCK) {
        Block x;
        memcpy(&x, p, BLOCK);
        memcpy(o, &x, BLOCK);
        Block marks = (Block)(x - low > (uint8_t)(high - low)) | (Block)(x == other) | (Block)(x == another);
        int64_t size = stop - p < BLOCK ? stop - p : BLOCK;
        int64_t plain = first_marked(marks, size);
        p += plain;
        o += plain;
        if (plain < size)
            return p - start;
    }
    while (p < stop && *p >= low && *p <= high && *p != other && *p != another)
        *o++ = *p++;
    return p - start;
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

/* Writes p to `stop` as the inside of a JSON string, at most six bytes for each and a block more; NULL if it is not
 * UTF-8. Escaped are also DEL, C1 controls and line separators, which terminals or line readers mishandle. */
static uint8_t *put_json_text(uint8_t *o, const uint8_t *p, const uint8_t *stop, const uint8_t *readable)
{
    while (p < stop) {
        int64_t plain = copy_plain(o, p, stop, readable, 0x20, 0x7E, '"', '\\');
        p += plain;
        o += plain;
        while (p < stop && (*p < 0x20 || *p > 0x7E || *p == '"' || *p == '\\')) {
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
                for (int i = 0; i < size; i++)
                    *o++ = p[i];
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
static uint8_t *put_decoded(uint8_t *o, const uint8_t **from, const uint8_t *stop, const uint8_t *end,
                            const uint8_t *readable, int64_t form)
{
    const uint8_t *p = *from;
    int is_escaped = form != FORM_JAVA;
    while (p < stop) {
        int64_t plain = copy_plain(o, p, stop, readable, is_escaped ? 0x20 : 0, is_escaped ? 0x7E : 0x7F, 0xFF, 0xFF);
        p += plain;
        o += plain;
        while (p < stop && (*p >= 0x80 || (is_escaped && (*p < 0x20 || *p == 0x7F)))) {
            int size = character_bytes(p, end - p);
            if (size == 1) {
                o = put_control_escape(o, *p);
            } else if (size) {
                for (int i = 0; i < size; i++)
                    *o++ = p[i];
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
        put_number(o, f->size);
        *o->at++ = '}';
        return NEXT;
    }
    const uint8_t *end = f->data + f->size;
    if (s->mode == MODE_START && f->size <= (room(o) - 2 * SMALL) / 6) {
        put_short(o, (const uint8_t *)JSON_TEXT, sizeof JSON_TEXT - 1, sizeof JSON_TEXT);
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
    if (with_prefix && s->mode == MODE_START)
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
        put_short(o, from, size, readable - from);
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

typedef struct {
    const RenderInput *in;
    const RenderOp *ops;
    int64_t op_count;
    const uint8_t *shared; /* the text of the operations OP_SHARED */
    const uint8_t *readable;
} Line;

enum { OP_SHARED = OP_CODES };

static int64_t of_batch(const RenderInput *in, int64_t batch, int64_t column)
{
    return in->batches[column * in->batch_stride + batch];
}

static int64_t of_record(const RenderInput *in, int64_t record, int64_t column)
{
    return in->records[column * in->record_stride + record];
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
static void put_of_batch(Out *o, const RenderInput *in, int64_t batch, const RenderOp *op)
{
    static const char CODECS[][8] = {"none", "gzip", "snappy", "lz4", "zstd", "null", "null", "null"};
    const char *word;
    switch (op->code) {
    case OP_BATCH_NUMBER: put_number_or_null(o, of_batch(in, batch, op->a), op->b); return;
    case OP_LAST_SEQUENCE: put_number(o, last_sequence(in, batch)); return;
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
    put(o, word, (int64_t)strlen(word));
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

static int put_text(Out *o, RenderState *s, const uint8_t *text, int64_t size, int64_t readable)
{
    int64_t left = size - s->position, most = room(o), now = left < most ? left : most;
    put_short(o, text + s->position, now, readable - s->position);
    s->position += now;
    return now < left ? FULL : NEXT;
}

static int put_ready(Out *o, RenderState *s, const Line *line, const RenderOp *op)
{
    const RenderInput *in = line->in;
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
        return put_field(o, s, &f, form, line->readable);
    }
    if (start < 0 || size > in->ready_size || start > in->ready_size - size)
        return INVALID;
    return put_text(o, s, in->ready_text + start, size, in->ready_size - start);
}

static int put_size(Out *o, const RenderInput *in, const RenderState *s, const RenderOp *op)
{
    Field f;
    if (!get_field(in, s, op->a, &f))
        return INVALID;
    int64_t size = f.size < 0 ? -1 : f.is_outside ? 0 : f.size;
    if (op->b == SIZE_DECIMAL) {
        put_number(o, size);
        return NEXT;
    }
    uint8_t bytes[4];
    const uint8_t *from = bytes;
    store_be(bytes, (uint64_t)size, 4);
    if (op->b == SIZE_BYTES)
        put(o, bytes, 4);
    else
        o->at = put_decoded(o->at, &from, bytes + 4, bytes + 4, bytes + 4, FORM_TEXT_ESCAPED);
    return NEXT;
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

/* Executes the operations from s->op up to `end`. Returns NEXT at the end. */
static int run(const Line *line, RenderState *s, int64_t end, Out *o)
{
    const RenderInput *in = line->in;
    Field f;
    while (s->op < end) {
        const RenderOp *op = line->ops + s->op;
        int answer = NEXT;
        int64_t skip = 0, number;
        if (op->code == OP_SHARED && s->position == 0 && op->b + BLOCK <= room(o)) { /* most of all operations */
            put_short(o, line->shared + op->a, op->b, SHARED_BYTES - op->a);
            s->op++;
            continue;
        }
        switch (op->code) {
        case OP_TEXT: answer = put_text(o, s, in->text + op->a, op->b, in->text_size - op->a); break;
        case OP_SHARED: answer = put_text(o, s, line->shared + op->a, op->b, SHARED_BYTES - op->a); break;
        case OP_FIELD:
            if (!get_field(in, s, op->a, &f))
                return INVALID;
            if (op->b != FORM_JSON && f.is_outside)
                f = contents_of(&f);
            answer = put_field(o, s, &f, op->b, line->readable);
            break;
        case OP_READY: answer = put_ready(o, s, line, op); break;
        case OP_IF:
        case OP_UNLESS:
            answer = holds(in, s, op);
            if (answer < 0)
                return INVALID;
            skip = answer == (op->code == OP_IF) ? 0 : op->skip;
            answer = NEXT;
            break;
        case OP_HEADERS:
            answer = next_header(in, s);
            if (answer < 0)
                return INVALID;
            skip = answer ? 0 : op->skip;
            answer = NEXT;
            break;
        case OP_NEXT_HEADER: skip = -op->skip - 1; break;
        case OP_STOP: return STOP;
        default:
            if (room(o) < SMALL)
                return FULL;
            if (op->code == OP_RECORD_NUMBER) {
                number = of_record(in, s->record, op->a);
                put_number_or_null(o, op->b == 2 && number < -1 ? -1 : number, op->b);
            } else if (op->code == OP_SIZE) {
                answer = put_size(o, in, s, op);
            } else if (op->code == OP_BOOL && op->a >= IF_RECORD) {
                answer = holds(in, s, op);
                put(o, answer ? "true" : "false", answer ? 4 : 5);
                answer = NEXT;
            } else {
                put_of_batch(o, in, s->batch, op);
            }
        }
        if (answer != NEXT)
            return answer;
        s->op += 1 + skip;
        s->position = 0;
        s->mode = MODE_START;
    }
    return NEXT;
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
        case OP_TEXT: is_right = op->a >= 0 && op->b >= 0 && op->a <= in->text_size - op->b; break;
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

/* The operations for the records of one batch: what its records share is one text. */
typedef struct {
    RenderOp ops[MOST_OPS];
    int64_t count;
    uint8_t text[SHARED_BYTES];
} Shared;

static void share(const RenderInput *in, int64_t batch, Shared *made)
{
    int64_t to[MOST_OPS + 1], resolved_end = in->batch_ops;
    uint8_t is_target[MOST_OPS + 1] = {0};
    Out o = {made->text, made->text + SHARED_BYTES - BLOCK};
    for (int64_t i = in->batch_ops; i < in->op_count; i++) {
        const RenderOp *op = in->ops + i;
        if (op->code == OP_IF || op->code == OP_UNLESS || op->code == OP_HEADERS)
            is_target[i + 1 + op->skip] = 1;
        if (op->code == OP_HEADERS)
            is_target[i] = 1;
    }
    int may_join = 0;
    made->count = 0;
    for (int64_t i = in->batch_ops; i <= in->op_count; i++) {
        to[i] = made->count;
        may_join = may_join && !is_target[i];
        if (i < resolved_end || i == in->op_count) /* skipped: the condition does not hold in this batch */
            continue;
        const RenderOp *op = in->ops + i;
        if ((op->code == OP_IF || op->code == OP_UNLESS) && op->a < IF_RECORD) {
            if (batch_condition(in, batch, op->a) != (op->code == OP_IF))
                resolved_end = i + 1 + op->skip;
            continue;
        }
        int64_t size = op->code == OP_TEXT ? op->b : SMALL;
        if ((op->code != OP_TEXT && !is_of_batch(op)) || size > room(&o)) {
            made->ops[made->count++] = *op;
            may_join = 0;
            continue;
        }
        uint8_t *start = o.at;
        if (op->code == OP_TEXT)
            put(&o, in->text + op->a, op->b);
        else
            put_of_batch(&o, in, batch, op);
        if (may_join)
            made->ops[made->count - 1].b += o.at - start;
        else
            made->ops[made->count++] = (RenderOp){OP_SHARED, start - made->text, o.at - start, 0};
        may_join = 1;
    }
    /* `skip` counts other operations now: follow each jump of the program to where its target went. */
    for (int64_t i = in->batch_ops; i < in->op_count; i++) {
        const RenderOp *op = in->ops + i;
        int64_t k = to[i];
        if (to[i + 1] == k) /* dropped, or joined with the text before */
            continue;
        if (op->code == OP_IF || op->code == OP_UNLESS || op->code == OP_HEADERS)
            made->ops[k].skip = to[i + 1 + op->skip] - k - 1;
        else if (op->code == OP_NEXT_HEADER)
            made->ops[k].skip = k - to[i - op->skip];
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
    Shared shared;
    Line line = {in, in->ops, in->op_count, shared.text, in->buffer + in->buffer_size};
    s->status = RENDER_MORE;
    if (size < RENDER_LEAST || !begins_right(in, s) || !is_sound(in))
        return -1;
    for (; s->batch < in->batch_count; s->batch++, s->in_records = 0) {
        int64_t first = s->batch ? in->record_ends[s->batch - 1] : 0, end = in->record_ends[s->batch];
        if (first < 0 || end < first || end > in->record_count)
            return -1;
        line.ops = in->ops;
        int64_t begin = in->batch_ops, op_count = in->batch_ops;
        if (!s->in_records) {
            int answer = run(&line, s, op_count, &o);
            if (answer != NEXT) {
                s->status = answer == STOP ? RENDER_STOPPED : RENDER_MORE;
                return answer == INVALID ? -1 : o.at - out;
            }
            s->in_records = 1;
            s->op = 0;
        }
        op_count = in->op_count;
        if (end - first >= WORTH_SHARING) {
            share(in, s->batch, &shared);
            line.ops = shared.ops;
            begin = 0;
            op_count = shared.count;
        }
        for (; s->record < end; s->record++, s->op = 0) {
            if (in->ready_columns && s->record - in->ready_first >= in->ready_count) {
                s->status = RENDER_NEEDS_READY;
                return o.at - out;
            }
            if (s->op < begin)
                s->op = begin;
            int answer = run(&line, s, op_count, &o);
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
