/* Weights in few bits that several processes write to: what `portable_fixed_point.py` does with numpy, bit for bit, in one pass.

   Arrays are given by address, sizes are counted in elements, and `wide` is whether whole numbers have 16 bits and not 8. Nothing is
   locked: a number is read, added to and written. The interpreter is released while a loop runs. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

#define AT(type, address) ((type *)(uintptr_t)(address))
#define MOST 65536.0f       /* more than any whole number here can change by */

/* The number `place` of the stream `seed`, in [0, 1): a hash of 32 bits (C. Wellons, "lowbias32"), of which a float holds 24. */
static inline float drawn(uint32_t seed, uint32_t place) {
    uint32_t x = place * 0x9E3779B9u + seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    return (float)(x >> 8) * 0x1p-24f;
}

#define KERNELS(T, E, LARGEST)                                                                                                         \
    static inline T moved_##E(T held, float change, float offset) {                                                                    \
        float steps = floorf(change + offset);                                                                                         \
        steps = steps < -MOST ? -MOST : steps > MOST ? MOST : steps;                                                                   \
        int32_t sum = (int32_t)held + (int32_t)steps;                                                                                  \
        return (T)(sum < -LARGEST ? -LARGEST : sum > LARGEST ? LARGEST : sum);                                                         \
    }                                                                                                                                  \
    WIDE static void stochastic_##E(T *held, const float *update, int64_t n, float inverse, uint32_t seed, uint32_t first) {           \
        for (int64_t i = 0; i < n; i++) held[i] = moved_##E(held[i], -update[i] * inverse, drawn(seed, first + (uint32_t)i));          \
    }                                                                                                                                  \
    WIDE static void nearest_##E(T *held, const float *update, int64_t n, float inverse) {                                             \
        for (int64_t i = 0; i < n; i++) held[i] = moved_##E(held[i], -update[i] * inverse, 0.5f);                                      \
    }                                                                                                                                  \
    WIDE static void read_##E(const T *held, int64_t n, float scale, float *into) {                                                    \
        for (int64_t i = 0; i < n; i++) into[i] = (float)held[i] * scale;                                                              \
    }

KERNELS(int8_t, narrow, 127)
KERNELS(int16_t, wide, 32767)

#define CALL(work)                                                                                                                     \
    do {                                                                                                                               \
        Py_BEGIN_ALLOW_THREADS;                                                                                                        \
        work;                                                                                                                          \
        Py_END_ALLOW_THREADS;                                                                                                          \
    } while (0)

typedef unsigned long long Address;

static PyObject *subtract_stochastically(PyObject *self, PyObject *args) {
    Address held, update;
    int wide;
    Py_ssize_t n;
    float inverse;
    unsigned int seed, first;
    if (!PyArg_ParseTuple(args, "KpKnfII", &held, &wide, &update, &n, &inverse, &seed, &first)) return NULL;
    if (wide) CALL(stochastic_wide(AT(int16_t, held), AT(float, update), n, inverse, seed, first));
    else CALL(stochastic_narrow(AT(int8_t, held), AT(float, update), n, inverse, seed, first));
    Py_RETURN_NONE;
}

static PyObject *subtract_nearest(PyObject *self, PyObject *args) {
    Address held, update;
    int wide;
    Py_ssize_t n;
    float inverse;
    if (!PyArg_ParseTuple(args, "KpKnf", &held, &wide, &update, &n, &inverse)) return NULL;
    if (wide) CALL(nearest_wide(AT(int16_t, held), AT(float, update), n, inverse));
    else CALL(nearest_narrow(AT(int8_t, held), AT(float, update), n, inverse));
    Py_RETURN_NONE;
}

static PyObject *read_into(PyObject *self, PyObject *args) {
    Address held, into;
    int wide;
    Py_ssize_t n;
    float scale;
    if (!PyArg_ParseTuple(args, "KpnfK", &held, &wide, &n, &scale, &into)) return NULL;
    if (wide) CALL(read_wide(AT(int16_t, held), n, scale, AT(float, into)));
    else CALL(read_narrow(AT(int8_t, held), n, scale, AT(float, into)));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"subtract_stochastically", subtract_stochastically, METH_VARARGS, "(held, wide, update, elements, inverse, seed, first)"},
    {"subtract_nearest", subtract_nearest, METH_VARARGS, "(held, wide, update, elements, inverse)"},
    {"read_into", read_into, METH_VARARGS, "(held, wide, elements, scale, into)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_fixed_point", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__fixed_point(void) { return PyModule_Create(&module); }
