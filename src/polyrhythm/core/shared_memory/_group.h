/* What `_native.c` and `_pieces.c` have in common: a rank's place in the memory that it shares, its counters, waiting, sums of two, and the
   Python object. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LINE 128            /* bytes of a rank's counters: two cache lines, which processors fetch in pairs */
#define BUFFERS 3
#define SLICE_NANOSECONDS 50000000
#define SIGNS 32            /* where in a rank's line it says what it does, once for each buffer: where its count is, which is fetched anyway */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

enum { REDUCE, REDUCE_SCATTER, GATHER, EXCHANGE, BROADCAST, BARRIER, GATHER_PIECES, SCATTER_PIECES };

typedef struct {
    uint32_t count;         /* how far this rank is */
    uint32_t sleepers;      /* how many sleep on `count` */
} Line;

typedef struct {
    PyObject_HEAD
    char *memory;
    int rank, ranks;
    Py_ssize_t chunk;
    uint64_t step;          /* chunks so far; counters hold its lower bits, but buffers must go on in turn beyond them */
    uint64_t opened;        /* the step with which the collective began */
    int other;              /* who does something else */
    long spins;
    char *gone;             /* for each rank, whether it will count no further */
    int broken;
} Group;

static inline Line *line(Group *g, int rank) { return (Line *)(g->memory + (size_t)rank * LINE); }

static inline char *buffer_at(Group *g, int rank, uint64_t step) {
    size_t head = (size_t)g->ranks * LINE;
    return g->memory + head + ((size_t)rank * BUFFERS + step % BUFFERS) * (size_t)g->chunk;
}

static inline char *buffer(Group *g, int rank) { return buffer_at(g, rank, g->step); }

static inline void breathe(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void count_to(Group *g, uint32_t target) {
    Line *mine = line(g, g->rank);
    __atomic_store_n(&mine->count, target, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&mine->sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &mine->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Wait until `rank` has counted to `target`: 0, or -1 if that was given up. Called without the GIL. */
static int await_one(Group *g, int rank, uint32_t target) {
    Line *it = line(g, rank);
    uint32_t seen = 0;
    for (long i = 0; i <= g->spins; i++) {
        seen = __atomic_load_n(&it->count, __ATOMIC_ACQUIRE);
        if ((int32_t)(seen - target) >= 0) return 0;
        breathe();
    }
    int result = 0;
    struct timespec slice = {0, SLICE_NANOSECONDS};
    __atomic_add_fetch(&it->sleepers, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        char gone = __atomic_load_n(&g->gone[rank], __ATOMIC_ACQUIRE); /* before the count: what it gave before it was lost counts */
        seen = __atomic_load_n(&it->count, __ATOMIC_SEQ_CST);
        if ((int32_t)(seen - target) >= 0) break;
        if (gone) { result = -1; break; }
        if (syscall(SYS_futex, &it->count, FUTEX_WAIT, seen, &slice, NULL, 0) == 0) continue;
        if (errno != EAGAIN) { /* a signal, or the end of a slice: Python may have something to say */
            PyGILState_STATE state = PyGILState_Ensure();
            int raised = PyErr_CheckSignals();
            PyGILState_Release(state);
            if (raised) { result = -2; break; }
        }
    }
    __atomic_sub_fetch(&it->sleepers, 1, __ATOMIC_SEQ_CST);
    return result;
}

/* What a collective is: its kind, the type of its numbers, how they are added up or from whom they come, and how many bytes they are. */
static uint64_t sign(int kind, int dtype, int detail, Py_ssize_t nbytes) {
    return (uint64_t)nbytes << 24 | (uint64_t)(detail & 0xffff) << 8 | (uint64_t)(dtype & 0x1f) << 3 | (uint64_t)kind;
}

static inline uint64_t *signed_by(Group *g, int rank) { return (uint64_t *)(void *)(g->memory + (size_t)rank * LINE + SIGNS) + g->step % BUFFERS; }

/* Say what this rank is about to do; others see it when it counts. */
static void begin(Group *g, uint64_t what) {
    g->opened = g->step;
    __atomic_store_n(signed_by(g, g->rank), what, __ATOMIC_RELAXED);
}

/* The same as `await_one`, or -3 if that rank has begun something else. */
static int meet_one(Group *g, int rank, uint32_t target) {
    int result = await_one(g, rank, target);
    if (result || g->step != g->opened) return result;
    if (__atomic_load_n(signed_by(g, rank), __ATOMIC_RELAXED) == __atomic_load_n(signed_by(g, g->rank), __ATOMIC_RELAXED)) return 0;
    g->other = rank;
    return -3;
}

static int await_all(Group *g, uint32_t target) {
    for (int i = 1; i < g->ranks; i++) {
        int result = meet_one(g, (g->rank + i) % g->ranks, target);
        if (result) return result;
    }
    return 0;
}

/* Sums and the like. `into` may be one of the two others. What is not a number (x != x) makes a minimum or maximum none, as in torch. */

#define LOOP(type, expression) \
    { type *c = into; const type *a = first, *b = second; for (Py_ssize_t i = 0; i < n; i++) c[i] = (type)(expression); } break;

#define ARITHMETIC(name, type) \
    WIDE static void name(int operation, void *into, const void *first, const void *second, Py_ssize_t n) { \
        switch (operation) { \
        case 0: LOOP(type, a[i] + b[i]) \
        case 1: LOOP(type, a[i] * b[i]) \
        case 2: LOOP(type, ((b[i] < a[i]) | (b[i] != b[i])) ? b[i] : a[i]) \
        case 3: LOOP(type, ((b[i] > a[i]) | (b[i] != b[i])) ? b[i] : a[i]) \
        } \
    }

#define WHOLE(name, type) \
    WIDE static void name(int operation, void *into, const void *first, const void *second, Py_ssize_t n) { \
        switch (operation) { \
        case 0: LOOP(type, a[i] + b[i]) \
        case 1: LOOP(type, a[i] * b[i]) \
        case 2: LOOP(type, b[i] < a[i] ? b[i] : a[i]) \
        case 3: LOOP(type, b[i] > a[i] ? b[i] : a[i]) \
        case 4: LOOP(type, a[i] & b[i]) \
        case 5: LOOP(type, a[i] | b[i]) \
        case 6: LOOP(type, a[i] ^ b[i]) \
        } \
    }

ARITHMETIC(combine_float, float)
ARITHMETIC(combine_double, double)
WHOLE(combine_uint8, uint8_t)
WHOLE(combine_int8, int8_t)
WHOLE(combine_int16, int16_t)
WHOLE(combine_int32, int32_t)
WHOLE(combine_int64, int64_t)

typedef void (*Combine)(int, void *, const void *, const void *, Py_ssize_t);

/* In the order of `kernel.message.DTYPES`; half precision and truth values are left to torch. */
static const struct { Combine combine; int size; } KINDS[] = {
    {combine_float, 4}, {combine_double, 8}, {NULL, 2}, {NULL, 2}, {combine_uint8, 1}, {combine_int8, 1},
    {combine_int16, 2}, {combine_int32, 4}, {combine_int64, 8}, {NULL, 1},
};
#define N_KINDS ((int)(sizeof KINDS / sizeof KINDS[0]))

WIDE static void divide_float(float *x, Py_ssize_t n, float by) { for (Py_ssize_t i = 0; i < n; i++) x[i] /= by; }
WIDE static void divide_double(double *x, Py_ssize_t n, double by) { for (Py_ssize_t i = 0; i < n; i++) x[i] /= by; }

/* A mean rather than a sum, in floating-point numbers. */
static void finish_sum(char *x, Py_ssize_t n, int kind, double divisor) {
    if (divisor == 1) return;
    if (kind == 0) divide_float((float *)x, n, (float)divisor);
    if (kind == 1) divide_double((double *)x, n, divisor);
}

/* Python's side */

static PyObject *conclude(Group *g, int result) {
    if (result >= 0) Py_RETURN_NONE;
    g->broken = 1;
    if (result == -1) PyErr_SetString(PyExc_ConnectionAbortedError, "the wait for another rank was given up");
    if (result == -3)
        PyErr_Format(PyExc_ConnectionAbortedError,
            "ranks disagree: rank %d of the group began another collective than rank %d, or one of another size or type; "
            "all must call the same ones in the same order", g->other, g->rank);
    return NULL;
}

static int usable(Group *g) {
    if (g->broken) PyErr_SetString(PyExc_ConnectionAbortedError, "a collective was given up, so that ranks are out of step");
    return !g->broken;
}

#define WITHOUT_GIL(call) Py_BEGIN_ALLOW_THREADS result = call; Py_END_ALLOW_THREADS

static PyObject *group_lose(Group *g, PyObject *args) {
    int rank;
    if (!PyArg_ParseTuple(args, "i", &rank)) return NULL;
    if (rank >= 0 && rank < g->ranks) __atomic_store_n(&g->gone[rank], 1, __ATOMIC_RELEASE);
    Py_RETURN_NONE;
}

static void group_free(Group *g) {
    PyMem_Free(g->gone);
    Py_TYPE(g)->tp_free((PyObject *)g);
}

static int group_init(Group *g, PyObject *args, PyObject *keywords) {
    unsigned long long memory;
    if (keywords && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "a group takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "Kiinl", &memory, &g->rank, &g->ranks, &g->chunk, &g->spins)) return -1;
    g->memory = (char *)(uintptr_t)memory;
    g->step = 0;
    g->broken = 0;
    g->other = -1;
    PyMem_Free(g->gone);
    g->gone = PyMem_Calloc((size_t)g->ranks, 1);
    return g->gone == NULL ? (PyErr_NoMemory(), -1) : 0;
}
