/* The inner loops of codecs: what `portable.py` does with numpy and torch in several passes over memory, bit for bit, in one or two.

   Arrays are given by address. Sizes are counted in elements; `wide` is whether values are doubles. The interpreter is released while a
   loop runs. Sums are made in the order of numpy's add.reduceat: the first element, plus the pairwise sum of the others. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

#define BLOCK 128           /* elements up to which numpy adds in eight sums at once; longer ranges are halved */
#define CHUNK 64            /* elements that are compared before their bits are put together */
#define AT(type, address) ((type *)(uintptr_t)(address))
typedef unsigned long long Address;

/* Eight flags of a byte each, or four codes of two bits, in one byte: a product puts each of them where it belongs in the highest one. */
static inline uint8_t first_highest(const uint8_t *flags) {
    uint64_t x = 0;
    for (int j = 0; j < 8; j++) x |= (uint64_t)flags[j] << 8 * j;
    return (uint8_t)(x * 0x8040201008040201u >> 56);
}
static inline uint8_t first_lowest(const uint8_t *flags) {
    uint64_t x = 0;
    for (int j = 0; j < 8; j++) x |= (uint64_t)flags[j] << 8 * j;
    return (uint8_t)(x * 0x0102040810204080u >> 56);
}
static inline uint8_t four_codes(const uint8_t *codes) {
    uint32_t x = 0;
    for (int j = 0; j < 4; j++) x |= (uint32_t)codes[j] << 8 * j;
    return (uint8_t)(x * 0x40100401u >> 24);
}

/* For both types of values: T, the ending of the names, and the word of the same size. */
#define KERNELS(T, E, I)                                                                                                               \
    static inline T low_##E(T x) { return x > 0 ? 0 : x; }      /* not a number stays so */                                            \
    static inline T high_##E(T x) { return x < 0 ? 0 : x; }                                                                            \
    WIDE static void block_##E(const T *v, int64_t n, T *sums) {                                                                       \
        T low[8], high[8];                                                                                                             \
        int64_t i;                                                                                                                     \
        for (int j = 0; j < 8; j++) low[j] = low_##E(v[j]), high[j] = high_##E(v[j]);                                                  \
        for (i = 8; i < n - n % 8; i += 8)                                                                                             \
            for (int j = 0; j < 8; j++) low[j] += low_##E(v[i + j]), high[j] += high_##E(v[i + j]);                                    \
        sums[0] = ((low[0] + low[1]) + (low[2] + low[3])) + ((low[4] + low[5]) + (low[6] + low[7]));                                   \
        sums[1] = ((high[0] + high[1]) + (high[2] + high[3])) + ((high[4] + high[5]) + (high[6] + high[7]));                           \
        for (; i < n; i++) sums[0] += low_##E(v[i]), sums[1] += high_##E(v[i]);                                                        \
    }                                                                                                                                  \
    static void pairwise_##E(const T *v, int64_t n, T *sums) {                                                                         \
        if (n < 8) {                                                                                                                   \
            sums[0] = sums[1] = (T)-0.0;                                                                                               \
            for (int64_t i = 0; i < n; i++) sums[0] += low_##E(v[i]), sums[1] += high_##E(v[i]);                                       \
        } else if (n <= BLOCK) {                                                                                                       \
            block_##E(v, n, sums);                                                                                                     \
        } else {                                                                                                                       \
            T rest[2];                                                                                                                 \
            int64_t half = n / 2 - n / 2 % 8;                                                                                          \
            pairwise_##E(v, half, sums);                                                                                               \
            pairwise_##E(v + half, n - half, rest);                                                                                    \
            sums[0] += rest[0], sums[1] += rest[1];                                                                                    \
        }                                                                                                                              \
    }                                                                                                                                  \
    WIDE static int64_t count_##E(const T *v, int64_t n) {                                                                             \
        int64_t above = 0;                                                                                                             \
        for (int64_t i = 0; i < n; i++) above += v[i] >= 0;                                                                            \
        return above;                                                                                                                  \
    }                                                                                                                                  \
    static void columns_##E(const T *v, const int64_t *lengths, int64_t columns, T *sums, int64_t *above) {                            \
        for (int64_t k = 0; k < columns; v += lengths[k], k++) {                                                                       \
            T rest[2];                                                                                                                 \
            pairwise_##E(v + 1, lengths[k] - 1, rest);                                                                                 \
            sums[k] = low_##E(v[0]) + rest[0];                                                                                         \
            sums[columns + k] = high_##E(v[0]) + rest[1];                                                                              \
            above[k] = count_##E(v, lengths[k]);                                                                                       \
        }                                                                                                                              \
    }                                                                                                                                  \
    /* A bit for each element that is `least` or more (or above it), the first the highest; what is left of the last byte is zero. */  \
    static inline void compare_##E(const T *v, int n, T least, int strict, uint8_t *flags) {                                           \
        if (strict)                                                                                                                    \
            for (int i = 0; i < n; i++) flags[i] = v[i] > least;                                                                       \
        else                                                                                                                           \
            for (int i = 0; i < n; i++) flags[i] = v[i] >= least;                                                                      \
    }                                                                                                                                  \
    WIDE static void bits_##E(const T *v, int64_t n, T least, int strict, uint8_t *bits) {                                             \
        uint8_t flags[CHUNK];                                                                                                          \
        int64_t i = 0;                                                                                                                 \
        for (; i + CHUNK <= n; i += CHUNK) {                                                                                           \
            compare_##E(v + i, CHUNK, least, strict, flags);                                                                           \
            for (int j = 0; j < CHUNK; j += 8) bits[(i + j) / 8] = first_highest(flags + j);                                           \
        }                                                                                                                              \
        memset(flags, 0, sizeof flags);                                                                                                \
        compare_##E(v + i, (int)(n - i), least, strict, flags);                                                                        \
        for (int j = 0; i + j < n; j += 8) bits[(i + j) / 8] = first_highest(flags + j);                                               \
    }                                                                                                                                  \
    WIDE static void chosen_##E(const uint8_t *bits, const int64_t *lengths, int64_t columns, const T *means, T *v) {                  \
        int64_t at = 0;                                                                                                                \
        for (int64_t k = 0; k < columns; k++) {                                                                                        \
            I low, high, *out = (I *)v;                                                                                                \
            int64_t end = at + lengths[k];                                                                                             \
            memcpy(&low, means + k, sizeof low), memcpy(&high, means + columns + k, sizeof high);                                      \
            I change = low ^ high;                                                                                                     \
            for (; at < end && at % 8; at++) out[at] = low ^ (change & -(I)(bits[at / 8] >> (7 - at % 8) & 1));                        \
            for (; at + 8 <= end; at += 8)                                                                                             \
                for (int j = 0; j < 8; j++) out[at + j] = low ^ (change & -(I)((I)bits[at / 8] >> (7 - j) & 1));                       \
            for (; at < end; at++) out[at] = low ^ (change & -(I)(bits[at / 8] >> (7 - at % 8) & 1));                                  \
        }                                                                                                                              \
    }                                                                                                                                  \
    static inline void codes_##E(const T *v, int n, T least, uint8_t *codes) {                                                         \
        for (int i = 0; i < n; i++) codes[i] = (uint8_t)((v[i] >= least) * 3 | (v[i] <= -least) * 2);                                  \
    }                                                                                                                                  \
    WIDE static void pack_##E(const T *v, int64_t n, T least, uint8_t *packed) {                                                       \
        uint8_t codes[CHUNK];                                                                                                          \
        int64_t i = 0;                                                                                                                 \
        for (; i + CHUNK <= n; i += CHUNK) {                                                                                           \
            codes_##E(v + i, CHUNK, least, codes);                                                                                     \
            for (int j = 0; j < CHUNK; j += 4) packed[(i + j) / 4] = four_codes(codes + j);                                            \
        }                                                                                                                              \
        memset(codes, 0, sizeof codes);                                                                                                \
        codes_##E(v + i, (int)(n - i), least, codes);                                                                                  \
        for (int j = 0; i + j < n; j += 4) packed[(i + j) / 4] = four_codes(codes + j);                                                \
    }                                                                                                                                  \
    static void unpack_##E(const uint8_t *packed, int64_t n, T size, T *v) {                                                           \
        const T sizes[4] = {(T)0 * size, (T)0 * size, -size, size};                                                                    \
        T table[256][4];                                                                                                               \
        int64_t i, whole = n - n % 4;                                                                                                  \
        for (int byte = 0; byte < 256; byte++)                                                                                         \
            for (int j = 0; j < 4; j++) table[byte][j] = sizes[byte >> (6 - 2 * j) & 3];                                               \
        for (i = 0; i < whole; i += 4) memcpy(v + i, table[packed[i / 4]], sizeof table[0]);                                           \
        for (; i < n; i++) v[i] = table[packed[i / 4]][i % 4];                                                                         \
    }                                                                                                                                  \
    /* Which of a chunk have a magnitude above `bound` (or, if not strict, not below it: what is no number too), the first the lowest bit. */\
    static inline uint64_t mask_##E(const T *v, int n, T bound, int strict) {                                                          \
        uint8_t flags[CHUNK] = {0};                                                                                                    \
        uint64_t mask = 0;                                                                                                             \
        if (strict)                                                                                                                    \
            for (int i = 0; i < n; i++) flags[i] = (v[i] > bound) | (v[i] < -bound);                                                   \
        else                                                                                                                           \
            for (int i = 0; i < n; i++) flags[i] = !((v[i] < bound) & (v[i] > -bound));                                                \
        for (int j = 0; j < CHUNK; j += 8) mask |= (uint64_t)first_lowest(flags + j) << j;                                             \
        return mask;                                                                                                                   \
    }                                                                                                                                  \
    /* Their places to `found`, if that is there, and how many they are. */                                                            \
    WIDE static int64_t large_##E(const T *v, int64_t n, T bound, int strict, int64_t *found) {                                        \
        int64_t count = 0;                                                                                                             \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                                                       \
            uint64_t mask = n - i >= CHUNK ? mask_##E(v + i, CHUNK, bound, strict) : mask_##E(v + i, (int)(n - i), bound, strict);     \
            if (found == NULL) count += __builtin_popcountll(mask);                                                                    \
            else                                                                                                                       \
                for (; mask; mask &= mask - 1) found[count++] = i + __builtin_ctzll(mask);                                             \
        }                                                                                                                              \
        return count;                                                                                                                  \
    }

KERNELS(float, float, uint32_t)
KERNELS(double, double, uint64_t)

/* Rounding to half the bits and back, past the caches: what is larger than they are is not read again soon. Multiples of 8 elements. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
__attribute__((target("avx2,f16c"))) static void round_brain(const float *v, int64_t n, uint16_t *small, float *again) {
    const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7fff), none = _mm256_set1_epi32(0x7fc0);
    for (int64_t i = 0; i < n; i += 8) {
        __m256 x = _mm256_loadu_ps(v + i);
        __m256i bits = _mm256_castps_si256(x), even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
        __m256i kept = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, half), even), 16);
        kept = _mm256_blendv_epi8(kept, none, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
        _mm256_stream_si256((__m256i *)(again + i), _mm256_slli_epi32(kept, 16));
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(kept, kept), 0x08);
        _mm_stream_si128((__m128i *)(small + i), _mm256_castsi256_si128(packed));
    }
    _mm_sfence();
}
__attribute__((target("avx2,f16c"))) static void round_half(const float *v, int64_t n, uint16_t *small, float *again) {
    for (int64_t i = 0; i < n; i += 8) {
        __m128i kept = _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_stream_si128((__m128i *)(small + i), kept);
        _mm256_stream_ps(again + i, _mm256_cvtph_ps(kept));
    }
    _mm_sfence();
}
static int can_round(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }
#else
static void round_brain(const float *v, int64_t n, uint16_t *small, float *again) {}
static void round_half(const float *v, int64_t n, uint16_t *small, float *again) {}
static int can_round(void) { return 0; }
#endif

#define CALL(work)                                                                                                                     \
    do {                                                                                                                               \
        Py_BEGIN_ALLOW_THREADS;                                                                                                        \
        work;                                                                                                                          \
        Py_END_ALLOW_THREADS;                                                                                                          \
    } while (0)

static PyObject *columns(PyObject *self, PyObject *args) {
    Address v, lengths, sums, above;
    long long count;
    int wide;
    if (!PyArg_ParseTuple(args, "KpKLKK", &v, &wide, &lengths, &count, &sums, &above)) return NULL;
    if (wide) CALL(columns_double(AT(double, v), AT(int64_t, lengths), count, AT(double, sums), AT(int64_t, above)));
    else CALL(columns_float(AT(float, v), AT(int64_t, lengths), count, AT(float, sums), AT(int64_t, above)));
    Py_RETURN_NONE;
}

static PyObject *bits(PyObject *self, PyObject *args) {
    Address v, packed;
    long long n;
    int wide, strict;
    double least;
    if (!PyArg_ParseTuple(args, "KpLdpK", &v, &wide, &n, &least, &strict, &packed)) return NULL;
    if (wide) CALL(bits_double(AT(double, v), n, least, strict, AT(uint8_t, packed)));
    else CALL(bits_float(AT(float, v), n, (float)least, strict, AT(uint8_t, packed)));
    Py_RETURN_NONE;
}

static PyObject *chosen(PyObject *self, PyObject *args) {
    Address packed, lengths, means, v;
    long long count;
    int wide;
    if (!PyArg_ParseTuple(args, "KpKLKK", &packed, &wide, &lengths, &count, &means, &v)) return NULL;
    if (wide) CALL(chosen_double(AT(uint8_t, packed), AT(int64_t, lengths), count, AT(double, means), AT(double, v)));
    else CALL(chosen_float(AT(uint8_t, packed), AT(int64_t, lengths), count, AT(float, means), AT(float, v)));
    Py_RETURN_NONE;
}

static PyObject *pack_signs(PyObject *self, PyObject *args) {
    Address v, packed;
    long long n;
    int wide;
    double least;
    if (!PyArg_ParseTuple(args, "KpLdK", &v, &wide, &n, &least, &packed)) return NULL;
    if (wide) CALL(pack_double(AT(double, v), n, least, AT(uint8_t, packed)));
    else CALL(pack_float(AT(float, v), n, (float)least, AT(uint8_t, packed)));
    Py_RETURN_NONE;
}

static PyObject *unpack_signs(PyObject *self, PyObject *args) {
    Address packed, v;
    long long n;
    int wide;
    double size;
    if (!PyArg_ParseTuple(args, "KpLdK", &packed, &wide, &n, &size, &v)) return NULL;
    if (wide) CALL(unpack_double(AT(uint8_t, packed), n, size, AT(double, v)));
    else CALL(unpack_float(AT(uint8_t, packed), n, (float)size, AT(float, v)));
    Py_RETURN_NONE;
}

static PyObject *count_large(PyObject *self, PyObject *args) {
    Address v;
    long long n, count;
    int wide, strict;
    double bound;
    if (!PyArg_ParseTuple(args, "KpLdp", &v, &wide, &n, &bound, &strict)) return NULL;
    if (wide) CALL(count = large_double(AT(double, v), n, bound, strict, NULL));
    else CALL(count = large_float(AT(float, v), n, (float)bound, strict, NULL));
    return PyLong_FromLongLong(count);
}

static PyObject *large(PyObject *self, PyObject *args) {
    Address v, found;
    long long n;
    int wide, strict;
    double bound;
    if (!PyArg_ParseTuple(args, "KpLdpK", &v, &wide, &n, &bound, &strict, &found)) return NULL;
    if (wide) CALL(large_double(AT(double, v), n, bound, strict, AT(int64_t, found)));
    else CALL(large_float(AT(float, v), n, (float)bound, strict, AT(int64_t, found)));
    Py_RETURN_NONE;
}

/* Magnitudes are in the order of their bits, and what is not a number above all: the place of the k-th largest is found by counting the
   values of the upper half of the bits, then, of those that share its upper half, those of the lower. */
#define HALF 32768
static uint32_t kth_largest(const uint32_t *v, int64_t n, int64_t k, int64_t *counts) {
    uint32_t upper = 2 * HALF - 1, lower = HALF - 1;
    memset(counts, 0, 2 * HALF * sizeof *counts);
    for (int64_t i = 0; i < n; i++) counts[(v[i] & 0x7fffffff) >> 15]++;
    for (; counts[upper] < k; upper--) k -= counts[upper];
    memset(counts, 0, HALF * sizeof *counts);
    for (int64_t i = 0; i < n; i++)
        if ((v[i] & 0x7fffffff) >> 15 == upper) counts[v[i] & (HALF - 1)]++;
    for (; counts[lower] < k; lower--) k -= counts[lower];
    return upper << 15 | lower;
}

static PyObject *bound_of_largest(PyObject *self, PyObject *args) {
    Address v;
    long long n, k;
    uint32_t found = 0;
    float bound;
    if (!PyArg_ParseTuple(args, "KLL", &v, &n, &k)) return NULL;
    int64_t *counts = PyMem_Malloc(2 * HALF * sizeof *counts);
    if (counts == NULL) return PyErr_NoMemory();
    CALL(found = kth_largest(AT(uint32_t, v), n, k, counts));
    PyMem_Free(counts);
    memcpy(&bound, &found, sizeof bound);
    return PyFloat_FromDouble(bound);
}

static PyObject *rounded(PyObject *self, PyObject *args) {
    Address v, small, again;
    long long n;
    int brain;
    if (!PyArg_ParseTuple(args, "KLpKK", &v, &n, &brain, &small, &again)) return NULL;
    if (!can_round() || (small | again) % 32 || n % 8) Py_RETURN_FALSE;
    if (brain) CALL(round_brain(AT(float, v), n, AT(uint16_t, small), AT(float, again)));
    else CALL(round_half(AT(float, v), n, AT(uint16_t, small), AT(float, again)));
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"rounded", rounded, METH_VARARGS, "(values, elements, brain, small, again): whether it could be done here"},
    {"columns", columns, METH_VARARGS, "(values, wide, lengths, columns, sums, above)"},
    {"bits", bits, METH_VARARGS, "(values, wide, elements, least, strict, packed)"},
    {"chosen", chosen, METH_VARARGS, "(packed, wide, lengths, columns, means, values)"},
    {"pack_signs", pack_signs, METH_VARARGS, "(values, wide, elements, least, packed)"},
    {"unpack_signs", unpack_signs, METH_VARARGS, "(packed, wide, elements, size, values)"},
    {"count_large", count_large, METH_VARARGS, "(values, wide, elements, bound, strict)"},
    {"large", large, METH_VARARGS, "(values, wide, elements, bound, strict, found)"},
    {"bound_of_largest", bound_of_largest, METH_VARARGS, "(values, elements, count): of float32"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModule_Create(&module); }
