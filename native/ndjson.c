/* Read NDJSON lines as dump-log prints them into columns of records. Other lines are left to Python.
 *
 * The text ends in a newline, and eight more bytes follow: no value contains a newline, so no step passes the end. A
 * function that reads something returns the position after it, or UNUSUAL.
 */
#include "records.h"

enum { UNUSUAL = -1, LONGEST_SIZE = 5, MOST_DIGITS = 18 };

static const uint64_t EACH = 0x0101010101010101u, HIGH = 0x8080808080808080u;

struct reader {
    const uint8_t *text;
    uint8_t *out;
    int64_t to; /* where `out` continues */
};

static int64_t behind_blanks(const uint8_t *text, int64_t at)
{
    while (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')
        at++;
    return at;
}

static int64_t behind_char(const uint8_t *text, int64_t at, uint8_t wanted)
{
    at = behind_blanks(text, at);
    return text[at] == wanted ? behind_blanks(text, at + 1) : UNUSUAL;
}

static int64_t behind(const uint8_t *text, int64_t at, const char *word)
{
    for (; *word; word++, at++)
        if (text[at] != (uint8_t)*word)
            return UNUSUAL;
    return at;
}

/* How many of the next 8 bytes come before a quote, a backslash, a control or a byte that is not ASCII. A subtraction
 * sets the highest bit of such a byte by its borrow, which can make a higher byte wrong, but not the lowest one. */
static int64_t plain_chars(const uint8_t *text, int64_t at)
{
    uint64_t word = load_le64(text + at), found = word | (word - ' ' * EACH) | ((word ^ '"' * EACH) - EACH) |
                                                  ((word ^ '\\' * EACH) - EACH);
    found &= HIGH;
    return found ? __builtin_ctzll(found) >> 3 : 8;
}

static int64_t hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : UNUSUAL;
}

static int64_t four_digits(const uint8_t *text, int64_t at)
{
    int64_t value = 0;
    for (int digit = 0; digit < 4; digit++) {
        int64_t next = hex_digit(text[at + digit]);
        if (next < 0)
            return UNUSUAL;
        value = value * 16 + next;
    }
    return value;
}

static void put_utf_8(struct reader *reader, int64_t point)
{
    uint8_t *out = reader->out + reader->to;
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        reader->to += 1;
    } else if (point < 0x800) {
        out[0] = (uint8_t)(0xC0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3F));
        reader->to += 2;
    } else if (point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point & 0x3F));
        reader->to += 3;
    } else {
        out[0] = (uint8_t)(0xF0 | point >> 18);
        out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[3] = (uint8_t)(0x80 | (point & 0x3F));
        reader->to += 4;
    }
}

static int64_t read_escape(struct reader *reader, int64_t at)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const uint8_t *text = reader->text;
    uint8_t name = text[at + 1];
    if (name == 'u') {
        int64_t point = four_digits(text, at + 2);
        at += 6;
        if (point < 0 || (point >= 0xDC00 && point <= 0xDFFF))
            return UNUSUAL;
        if (point >= 0xD800 && point <= 0xDBFF) {
            if (text[at] != '\\' || text[at + 1] != 'u')
                return UNUSUAL;
            int64_t low = four_digits(text, at + 2);
            if (low < 0xDC00 || low > 0xDFFF)
                return UNUSUAL;
            point = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00;
            at += 6;
        }
        put_utf_8(reader, point);
        return at;
    }
    const char *found = name ? strchr(names, name) : NULL;
    if (found == NULL)
        return UNUSUAL;
    reader->out[reader->to++] = (uint8_t)values[found - names];
    return at + 2;
}

/* Write the string after a quote to `out`, and up to 8 bytes more. */
static int64_t read_string(struct reader *reader, int64_t at)
{
    const uint8_t *text = reader->text;
    for (;;) {
        memcpy(reader->out + reader->to, text + at, 8);
        int64_t plain = plain_chars(text, at);
        at += plain;
        reader->to += plain;
        if (plain == 8)
            continue;
        if (text[at] == '"')
            return at + 1;
        if (text[at] < ' ')
            return UNUSUAL;
        if (text[at] == '\\') {
            if ((at = read_escape(reader, at)) < 0)
                return UNUSUAL;
            continue;
        }
        int size = character_bytes(text + at, 4);
        if (size == 0)
            return UNUSUAL;
        for (int byte = 0; byte < size; byte++)
            reader->out[reader->to++] = text[at++];
    }
}

static int64_t sextet(uint8_t byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    return byte == '+' ? 62 : byte == '/' ? 63 : UNUSUAL;
}

/* Decode the base64 string after a quote. All padding must be there, and unused bits must be 0. */
static int64_t read_base64(struct reader *reader, int64_t at)
{
    const uint8_t *text = reader->text;
    while (text[at] != '"') {
        int64_t first = sextet(text[at]), second = first < 0 ? UNUSUAL : sextet(text[at + 1]);
        if (second < 0)
            return UNUSUAL;
        reader->out[reader->to++] = (uint8_t)(first << 2 | second >> 4);
        if (text[at + 2] == '=')
            return text[at + 3] != '=' || text[at + 4] != '"' || second & 15 ? UNUSUAL : at + 5;
        int64_t third = sextet(text[at + 2]);
        if (third < 0)
            return UNUSUAL;
        reader->out[reader->to++] = (uint8_t)((second & 15) << 4 | third >> 2);
        if (text[at + 3] == '=')
            return text[at + 4] != '"' || third & 3 ? UNUSUAL : at + 5;
        int64_t fourth = sextet(text[at + 3]);
        if (fourth < 0)
            return UNUSUAL;
        reader->out[reader->to++] = (uint8_t)((third & 3) << 6 | fourth);
        at += 4;
    }
    return at + 1;
}

/* Read an integer of at most MOST_DIGITS digits. */
static int64_t read_number(const uint8_t *text, int64_t at, int64_t *value)
{
    int is_negative = text[at] == '-';
    int64_t start = at += is_negative;
    uint64_t found = 0; /* which wraps: a number with more digits is only skipped */
    for (; text[at] >= '0' && text[at] <= '9'; at++)
        found = found * 10 + text[at] - '0';
    if (at == start || (text[start] == '0' && at > start + 1) || text[at] == '.' || text[at] == 'e' || text[at] == 'E')
        return UNUSUAL;
    *value = at - start > MOST_DIGITS ? INT64_MIN : is_negative ? -(int64_t)found : (int64_t)found;
    return at;
}

/* The value after a quoted name, a colon and blanks. */
static int64_t behind_name(const uint8_t *text, int64_t at, const char *name)
{
    at = behind_blanks(text, at);
    if (text[at] != '"' || (at = behind(text, at + 1, name)) < 0 || text[at] != '"')
        return UNUSUAL;
    return behind_char(text, at + 1, ':');
}

/* Read null, a string, or an object with encoding and data. `size` is -1 for null. */
static int64_t read_field(struct reader *reader, int64_t at, int64_t *size)
{
    const uint8_t *text = reader->text;
    int64_t start = reader->to;
    *size = -1;
    if (text[at] == '"') {
        at = read_string(reader, at + 1);
        *size = reader->to - start;
        return at;
    }
    if (text[at] != '{')
        return behind(text, at, "null");
    at = behind_name(text, at + 1, "encoding");
    if (at < 0)
        return UNUSUAL;
    int64_t after = behind(text, at, "\"utf-8\"");
    int is_text = after >= 0;
    if (!is_text && (after = behind(text, at, "\"base64\"")) < 0)
        return UNUSUAL;
    if ((at = behind_char(text, after, ',')) < 0 || (at = behind_name(text, at, "data")) < 0 || text[at] != '"')
        return UNUSUAL;
    at = is_text ? read_string(reader, at + 1) : read_base64(reader, at + 1);
    if (at < 0)
        return UNUSUAL;
    at = behind_blanks(text, at);
    *size = reader->to - start;
    return text[at] == '}' ? at + 1 : UNUSUAL;
}

/* Read a field of a header after a character and its name, and write it with its size first, as records store it. */
static int64_t read_sized(struct reader *reader, int64_t at, uint8_t before, const char *name, int64_t *size)
{
    int64_t start = reader->to;
    if ((at = behind_char(reader->text, at, before)) < 0 || (at = behind_name(reader->text, at, name)) < 0)
        return UNUSUAL;
    reader->to += LONGEST_SIZE;
    at = read_field(reader, at, size);
    if (at < 0)
        return UNUSUAL;
    reader->to = put_varint(reader->out, start, *size);
    if (*size > 0) {
        memmove(reader->out + reader->to, reader->out + start + LONGEST_SIZE, (size_t)*size);
        reader->to += *size;
    }
    return at;
}

static int64_t read_headers(struct reader *reader, int64_t at, int64_t *count)
{
    const uint8_t *text = reader->text;
    int64_t size;
    *count = 0;
    if (text[at] != '[')
        return behind(text, at, "null");
    at = behind_blanks(text, at + 1);
    if (text[at] == ']')
        return at + 1;
    for (;;) {
        at = read_sized(reader, at, '{', "key", &size);
        if (at < 0 || size < 0)
            return UNUSUAL;
        if ((at = read_sized(reader, at, ',', "value", &size)) < 0 || (at = behind_char(text, at, '}')) < 0)
            return UNUSUAL;
        ++*count;
        if (text[at] == ']')
            return at + 1;
        if (text[at++] != ',')
            return UNUSUAL;
    }
}

/* An ignored value: an ASCII string, an integer or a literal. */
static int64_t behind_value(const uint8_t *text, int64_t at)
{
    int64_t number;
    if (text[at] == '"') {
        int64_t plain;
        at++;
        while ((plain = plain_chars(text, at)) == 8)
            at += 8;
        at += plain;
        return text[at] == '"' ? at + 1 : UNUSUAL;
    }
    if (text[at] == 'n')
        return behind(text, at, "null");
    if (text[at] == 't')
        return behind(text, at, "true");
    if (text[at] == 'f')
        return behind(text, at, "false");
    return read_number(text, at, &number);
}

static int64_t read_kind(const uint8_t *text, int64_t at, int *is_record)
{
    static const char *const others[] = {"\"batch\"", "\"summary\"", "\"progress\""};
    int64_t after = behind(text, at, "\"record\"");
    *is_record = after >= 0;
    for (int other = 0; other < 3 && after < 0; other++)
        after = behind(text, at, others[other]);
    return after;
}

/* The fields of a record that appending needs, and those that it skips, in the order in which read prints them. */
enum { IS_KEY, IS_VALUE, IS_HEADERS, IS_TYPE, IS_TIMESTAMP, IS_CONTROL, SKIPPED };
static const char *const FIELDS[] = {
    "key\"", "value\"", "headers\"", "type\"", "timestamp_ms\"", "control\"",
    "schema\"", "topic\"", "partition\"", "segment\"", "position\"", "offset\"", "timestamp_type\"",
    "batch_base_offset\"", "codec\"", "producer_id\"", "producer_epoch\"", "sequence\"", "leader_epoch\"",
    "transactional\"", "topic_b64\"", "segment_b64\"", "crc_valid\"", "decoded\"",
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

/* The name of a field after its quote. `expected` is the skipped field that is tried first, and becomes the next. */
static int64_t read_name(const uint8_t *text, int64_t at, int *field, int *expected)
{
    int64_t after = behind(text, at, FIELDS[*expected]);
    *field = *expected;
    for (int other = 0; other < FIELD_COUNT && after < 0; other++) {
        *field = other;
        after = behind(text, at, FIELDS[other]);
    }
    if (after >= 0 && *field >= SKIPPED)
        *expected = *field + 1 < FIELD_COUNT ? *field + 1 : SKIPPED;
    return after;
}

/* Whether the object at `at` begins with a schema of kafkalog, as dump-log's objects do. */
static int is_ours(const uint8_t *text, int64_t at)
{
    at = behind_name(text, at + 1, "schema");
    return at >= 0 && behind(text, at, "\"kafkalog.") >= 0;
}

/* Read the object of a line into a row, whose timestamp stays if the line has none. */
static int64_t read_line(struct reader *reader, int64_t at, int64_t *row, int64_t stride, int *is_record)
{
    const uint8_t *text = reader->text;
    int64_t begin = at, seen = 0, start;
    int expected = SKIPPED, field;
    *is_record = 1;
    at = behind_blanks(text, at + 1);
    for (;;) {
        if (text[at] != '"' || (at = read_name(text, at + 1, &field, &expected)) < 0 || seen >> field & 1)
            return UNUSUAL;
        seen |= (int64_t)1 << field;
        if ((at = behind_char(text, at, ':')) < 0)
            return UNUSUAL;
        start = reader->to;
        if (field == IS_KEY) {
            row[R_KEY_AT * stride] = start;
            at = read_field(reader, at, row + R_KEY_SIZE * stride);
        } else if (field == IS_VALUE) {
            row[R_VALUE_AT * stride] = start;
            at = read_field(reader, at, row + R_VALUE_SIZE * stride);
        } else if (field == IS_HEADERS) {
            row[R_HEADERS_AT * stride] = start;
            at = read_headers(reader, at, row + R_HEADERS * stride);
            row[NEW_HEADERS_SIZE * stride] = reader->to - start;
        } else if (field == IS_TYPE) {
            at = read_kind(text, at, is_record);
        } else if (field == IS_TIMESTAMP && text[at] == 'n') {
            row[R_TIMESTAMP * stride] = -1;
            at = behind(text, at, "null");
        } else if (field == IS_TIMESTAMP) {
            at = read_number(text, at, row + R_TIMESTAMP * stride);
            if (at >= 0 && row[R_TIMESTAMP * stride] < -1)
                return UNUSUAL;
        } else if (field == IS_CONTROL) {
            at = behind(text, at, "null");
        } else {
            at = behind_value(text, at);
        }
        if (at < 0)
            return UNUSUAL;
        at = behind_blanks(text, at);
        if (text[at] == '}') {
            int has_contents = (seen & (1 << IS_KEY | 1 << IS_VALUE | 1 << IS_HEADERS)) != 0;
            return (*is_record ? has_contents : is_ours(text, begin)) ? at + 1 : UNUSUAL;
        }
        if (text[at] != ',')
            return UNUSUAL;
        at = behind_blanks(text, at + 1);
    }
}

void kafkalog_read_lines(const uint8_t *text, int64_t size, int64_t at, int64_t now_ms, uint8_t *out, int64_t capacity,
                         int64_t to, int64_t *columns, int64_t stride, int64_t row, int64_t *result)
{
    struct reader reader = {text, out, to};
    int64_t end = size - 8, lines = 0;
    if (at < 0 || end <= at || text[end - 1] != '\n' || row < 0 || !is_inside(to, end - at + 64, capacity))
        end = at;
    while (at < end && row < stride) {
        int64_t here = behind_blanks(text, at), *column = columns + row, before = reader.to;
        int is_record;
        if (text[here] == '\n') {
            at = here + 1;
            lines++;
            continue;
        }
        if (text[here] != '{')
            break;
        for (int field = 0; field < NEW_COLUMNS; field++)
            column[field * stride] = UNKNOWN;
        column[R_SEQUENCE * stride] = column[R_CRC * stride] = -1;
        column[R_KEY_SIZE * stride] = column[R_VALUE_SIZE * stride] = -1;
        column[R_TIMESTAMP * stride] = now_ms;
        column[R_HEADERS * stride] = column[NEW_HEADERS_SIZE * stride] = 0;
        column[R_KEY_AT * stride] = column[R_VALUE_AT * stride] = column[R_HEADERS_AT * stride] = before;
        column[R_VALID * stride] = 1;
        column[NEW_BEGIN * stride] = before;
        here = read_line(&reader, here, column, stride, &is_record);
        if (here >= 0)
            here = behind_blanks(text, here);
        if (here < 0 || text[here] != '\n') {
            reader.to = before;
            break;
        }
        at = here + 1;
        lines++;
        if (is_record)
            row++;
        else
            reader.to = before;
    }
    result[0] = at;
    result[1] = reader.to;
    result[2] = row;
    result[3] = lines;
}
