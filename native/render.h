/* Lines of text from columns of batches and records.
 *
 * A form of output (kafka-dump-log's text, NDJSON, the console consumer's text, a format of the user's) is a program:
 * operations for the line of a batch, then operations for the line of a record. Each operation writes a constant text,
 * a number of a column, or contents of a record in some encoding. A line may be written in several calls, because a
 * record can be larger than the output.
 */
#ifndef KAFKALOG_RENDER_H
#define KAFKALOG_RENDER_H

#include "kafkalog.h"

/* A position of a key or value whose size is known, but whose bytes are missing. */
#define OUTSIDE (-1)

typedef struct {
    int64_t code, a, b;
    int64_t skip; /* of OP_IF, OP_UNLESS and OP_HEADERS: how many operations after it are skipped */
} RenderOp;

enum {
    OP_TEXT,          /* b bytes of the program's text, from a on; 32 more bytes follow */
    OP_BATCH_NUMBER,  /* column a; with b = 1, -1 is written as null */
    OP_LAST_SEQUENCE, /* of the batch */
    OP_TIME_TYPE,     /* CreateTime, LogAppendTime or NoTimestampType */
    OP_CODEC,         /* the name of the codec */
    OP_BOOL,          /* true or false: condition a */
    OP_RECORD_NUMBER, /* column a; with b = 1, -1 is null; with b = 2, a number below -1 is -1 */
    OP_SIZE,          /* of field a, as b says: -1 for null, 0 if its bytes are missing */
    OP_FIELD,         /* field a in form b; nothing for null, unless the form says otherwise */
    OP_READY,         /* column a of ready texts; b: the field that a form in its place is of */
    OP_IF,            /* goes on if condition a holds, with operand b, else skips */
    OP_UNLESS,        /* goes on if it does not */
    OP_HEADERS,       /* repeats the operations up to OP_NEXT_HEADER for each header, then skips them */
    OP_NEXT_HEADER,   /* returns to the OP_HEADERS that is `skip` operations before it */
    OP_STOP,          /* ends the rendering */
    OP_CODES
};

/* Conditions; those below IF_RECORD have the same answer for all records of a batch. */
enum {
    IF_LEGACY, IF_MAGIC_0, IF_TRANSACTIONAL, IF_CONTROL, IF_DELETE_HORIZON, IF_CODEC_KNOWN, IF_CRC_CHECKED,
    IF_CRC_VALID, IF_EPOCH_KNOWN, IF_RECORD, IF_RECORD_VALID = IF_RECORD, IF_NULL, IF_OUTSIDE, IF_HEADERS,
    IF_NO_READY, IF_LATER_HEADER, IF_CODES
};

enum { FIELD_KEY, FIELD_VALUE, FIELD_HEADER_KEY, FIELD_HEADER_VALUE, FIELDS };

enum {
    FORM_RAW,          /* the bytes */
    FORM_JSON,         /* an object with the text or, if the bytes are not UTF-8, their base64; null is null */
    FORM_JAVA,         /* text as `new String(bytes, UTF_8)` decodes it */
    FORM_JAVA_ESCAPED, /* the same with escapes for ASCII control characters */
    FORM_TEXT_ESCAPED, /* the same, but each byte of a surrogate becomes a U+FFFD, as in Python */
    FORM_HEX,
    FORM_HEX_0X,       /* hex after 0x */
    FORM_BASE64,
    FORMS
};

enum { SIZE_DECIMAL, SIZE_BYTES, SIZE_BYTES_ESCAPED, SIZES }; /* four bytes, the first the highest; as FORM_TEXT_ESCAPED */

/* The start and size of a ready text are two numbers. Sizes below 0 have meanings. */
#define READY_NONE (-1)           /* no text */
#define READY_STOP (-2)           /* ends the rendering */
#define READY_FORM(form) (-10 - (form)) /* the field as it is stored, in a form */

/* Everything is the caller's. Strides are the elements from one row of a matrix to the next. */
typedef struct {
    const uint8_t *buffer; /* contents of the records */
    int64_t buffer_size;
    const int64_t *batches;
    int64_t batch_stride, batch_count;
    const int64_t *record_ends; /* the records up to and with those of each batch */
    const int64_t *records;
    int64_t record_stride, record_count;
    const int64_t *ready; /* for each column of ready texts a row of starts and a row of sizes */
    int64_t ready_columns, ready_first, ready_count; /* of the records from `ready_first` on */
    const uint8_t *ready_text;
    int64_t ready_size;
    const RenderOp *ops; /* the first `batch_ops` are for the line of a batch */
    int64_t batch_ops, op_count;
    const uint8_t *text;
    int64_t text_size;
} RenderInput;

enum { RENDER_MORE, RENDER_DONE, RENDER_STOPPED, RENDER_NEEDS_READY };

/* Where rendering goes on: only a call changes it. Zeros are the start; `in_records` = 1 skips the line of the first
 * batch. */
typedef struct {
    int64_t status; /* RENDER_MORE: call again; NEEDS_READY: with ready texts from `record` on; STOPPED: at `record` */
    int64_t batch, record, in_records;
    int64_t op, position, mode; /* `position`: how much of a text or field is written (or checked) */
    int64_t header, header_at, key_at, key_size, value_at, value_size;
} RenderState;

/* The least size of an output. */
#define RENDER_LEAST 256

/* Writes lines to `out` from `state` on until it is full or all is written. Returns the number of bytes, which are whole
 * characters; -1 if the input contradicts itself: nothing outside of the given sizes is read. A call takes time for at
 * most `room` bytes and a check of 16 MiB.
 */
EXPORT int64_t kafkalog_render(const RenderInput *input, RenderState *state, uint8_t *out, int64_t room);

#endif
