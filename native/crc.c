/* CRC-32C and CRC-32: with the processor's instruction for CRC-32C, otherwise eight bytes at a time by tables. */
#include "kafkalog.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#if defined(__clang__) && __clang_major__ >= 14 /* where it is a feature of its own */
#define WITH_INSTRUCTION __attribute__((target("crc32")))
#else
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))
#endif
#define STEP_WORD(crc, word) _mm_crc32_u64(crc, word)
#define STEP_BYTE(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)
#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__clang__)
#define WITH_INSTRUCTION __attribute__((target("crc")))
#else
#define WITH_INSTRUCTION __attribute__((target("+crc")))
#endif
#define STEP_WORD(crc, word) crc_word((uint32_t)(crc), word)
#define STEP_BYTE(crc, byte) crc_byte((uint32_t)(crc), byte)
WITH_INSTRUCTION static inline uint32_t crc_word(uint32_t crc, uint64_t word)
{
    uint32_t next;
    __asm__("crc32cx %w0, %w1, %x2" : "=r"(next) : "r"(crc), "r"(word));
    return next;
}
WITH_INSTRUCTION static inline uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
    uint32_t next;
    __asm__("crc32cb %w0, %w1, %w2" : "=r"(next) : "r"(crc), "r"((uint32_t)byte));
    return next;
}
#endif

enum { LANE_BITS = 9, LANE = 1 << LANE_BITS };

static const uint32_t POLYNOMIALS[] = {[CRC_32C] = 0x82F63B78u, [CRC_32] = 0xEDB88320u};

static uint32_t castagnoli[8][256], ieee[8][256], lane_zeros[4][256], powers[2][63];
static int has_instruction;

/* The product of two polynomials modulo that of a kind. Bit 31 is the coefficient of 1, as in the CRCs. */
static uint32_t multiply(int kind, uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= a >> 31 ? b : 0;
        b = b >> 1 ^ (b & 1 ? POLYNOMIALS[kind] : 0);
    }
    return product;
}

uint32_t crc_of_end(int kind, uint32_t before, uint32_t all, int64_t size)
{
    for (int bit = 0; size >> bit; bit++)
        if (size >> bit & 1)
            before = multiply(kind, before, powers[kind][bit]);
    return before ^ all;
}

static void fill(uint32_t table[8][256], uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? polynomial : 0);
        table[0][byte] = value;
    }
    for (int row = 1; row < 8; row++)
        for (int byte = 0; byte < 256; byte++)
            table[row][byte] = table[row - 1][byte] >> 8 ^ table[0][table[row - 1][byte] & 0xFF];
}

__attribute__((constructor)) static void at_load(void)
{
    fill(castagnoli, POLYNOMIALS[CRC_32C]);
    fill(ieee, POLYNOMIALS[CRC_32]);
    for (int kind = 0; kind < 2; kind++) {
        powers[kind][0] = 1u << 23; /* x^8: a byte of zeros */
        for (int bit = 1; bit < 63; bit++)
            powers[kind][bit] = multiply(kind, powers[kind][bit - 1], powers[kind][bit - 1]);
    }
    for (int row = 0; row < 4; row++)
        for (uint32_t byte = 0; byte < 256; byte++)
            lane_zeros[row][byte] = multiply(CRC_32C, byte << 8 * row, powers[CRC_32C][LANE_BITS]);
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    has_instruction = __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2;
#elif defined(__aarch64__) && defined(__linux__)
    has_instruction = (getauxval(AT_HWCAP) & 1 << 7) != 0; /* HWCAP_CRC32 */
#elif defined(__aarch64__)
    has_instruction = 1; /* every Apple processor has it */
#endif
}

static uint32_t by_table(const uint32_t table[8][256], const uint8_t *data, int64_t size, uint32_t before)
{
    uint32_t crc = ~before;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word = load_le64(data) ^ crc;
        crc = 0;
        for (int byte = 0; byte < 8; byte++)
            crc ^= table[7 - byte][word >> 8 * byte & 0xFF];
    }
    for (; size > 0; size--)
        crc = crc >> 8 ^ table[0][(crc ^ *data++) & 0xFF];
    return ~crc;
}

#if defined(WITH_INSTRUCTION)
static uint32_t behind_lane(uint32_t crc)
{
    return lane_zeros[0][crc & 0xFF] ^ lane_zeros[1][crc >> 8 & 0xFF] ^ lane_zeros[2][crc >> 16 & 0xFF] ^
           lane_zeros[3][crc >> 24];
}

/* The instruction takes three cycles and can start in each: three lanes run side by side. */
WITH_INSTRUCTION static uint32_t by_instruction(const uint8_t *data, int64_t size, uint32_t before)
{
    uint64_t crc = (uint32_t)~before;
    for (; size >= 3 * LANE; size -= 3 * LANE, data += 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (int at = 0; at < LANE; at += 8) {
            crc = STEP_WORD(crc, load_le64(data + at));
            second = STEP_WORD(second, load_le64(data + at + LANE));
            third = STEP_WORD(third, load_le64(data + at + 2 * LANE));
        }
        crc = behind_lane(behind_lane((uint32_t)crc) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    for (; size >= 8; size -= 8, data += 8)
        crc = STEP_WORD(crc, load_le64(data));
    for (; size > 0; size--)
        crc = STEP_BYTE(crc, *data++);
    return ~(uint32_t)crc;
}
#endif

uint32_t kafkalog_crc32c(const uint8_t *data, int64_t size, uint32_t before)
{
#if defined(WITH_INSTRUCTION)
    if (has_instruction)
        return by_instruction(data, size, before);
#endif
    return by_table(castagnoli, data, size, before);
}

uint32_t kafkalog_crc32c_by_table(const uint8_t *data, int64_t size, uint32_t before)
{
    return by_table(castagnoli, data, size, before);
}

uint32_t kafkalog_crc32(const uint8_t *data, int64_t size, uint32_t before)
{
    return by_table(ieee, data, size, before);
}

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

const char *kafkalog_sources(void)
{
    return "kafkalog-sources:" TEXT(KAFKALOG_SOURCES);
}
