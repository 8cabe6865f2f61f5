/* Collectives of processes that share a piece of memory: what `portable.py` does with torch, in one call without Python.

   The memory holds, for each of `ranks` ranks, a line of counters and three buffers of `chunk` bytes. A tensor goes through
   the buffers chunk by chunk. In chunk k a rank copies into its buffer what the others shall add (and counts to 2k + 1), adds up
   its own share of what all have copied (and counts to 2k + 2), and takes the shares that the others have added up. A buffer
   is written again three chunks later; by then everyone has said that the second chunk after it is there, and had left the
   first one behind before saying so.

   Before a rank counts for the first chunk of a collective it writes into its line what it is about to do, and whoever has waited
   for it there compares that with its own: ranks that disagree get an error, and not each other's numbers.

   Whoever waits looks at the other's counter for a while, then sleeps on it (futex) and is woken by who counts on. */

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
#define ONE_ROUND 16384     /* bytes up to which everyone adds up everything, which saves a round of waiting */
#define SIGNS 32            /* where in a rank's line it says what it does, once for each buffer: where its count is, which is fetched anyway */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

enum { REDUCE, REDUCE_SCATTER, GATHER, EXCHANGE, BROADCAST, BARRIER };

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

typedef struct {
    const char *data;       /* the whole tensor */
    char *into;             /* where its sum goes; the same, or elsewhere */
    Py_ssize_t n;           /* its elements */
    Py_ssize_t at, whole;   /* where it begins in a vector of so many elements, whose parts a rotated sum is about */
    int kind, size, operation, rotated;
    double divisor;
    char *kept;             /* where the tensor is kept as it was, to be put back if the sum is given up; or nowhere */
    Py_ssize_t saved;       /* so many of its first elements are kept by now */
} Sum;

/* The bounds of part `part` of `n` elements cut into `parts` as torch.tensor_split does. */
static Py_ssize_t bound(Py_ssize_t n, int parts, int part) {
    Py_ssize_t each = n / parts, rest = n % parts;
    return each * part + (part < rest ? part : rest);
}

/* Add up [low, high) of the tensor, whose chunk begins at `start` and is `own` here, into `into`, which is none of these. The parts of a rotated sum begin with the
   rank of the part that they belong to, as in a ring. */
static void add_up(Group *g, const Sum *s, const char *own, char *into, Py_ssize_t start, Py_ssize_t low, Py_ssize_t high) {
    Combine combine = KINDS[s->kind].combine;
    Py_ssize_t most = 8192 / s->size;
    while (low < high) {
        int first = 0;
        Py_ssize_t end = high;
        if (s->rotated) {
            while (first + 1 < g->ranks && bound(s->whole, g->ranks, first + 1) <= s->at + low) first++;
            Py_ssize_t limit = bound(s->whole, g->ranks, first + 1) - s->at;
            if (limit < end) end = limit;
        }
        if (end - low > most) end = low + most; /* all ranks' turns at it while it is near */
        const char *sum = NULL;
        for (int i = 0; i < g->ranks; i++) {
            int rank = (first + i) % g->ranks;
            const char *it = rank == g->rank ? own + (low - start) * s->size : buffer(g, rank) + (low - start) * s->size;
            if (sum == NULL) sum = it;
            else {
                combine(s->operation, into, sum, it, end - low);
                sum = into;
            }
        }
        if (sum != into) memcpy(into, sum, (size_t)((end - low) * s->size)); /* of a single rank */
        finish_sum(into, end - low, s->kind, s->divisor);
        into += (end - low) * s->size;
        low = end;
    }
}

/* All collectives return 1, or what made `await_one` give up. */

/* Copy past the caches: what is kept is hardly ever read, and memory need not be fetched before it is overwritten. */
static void copy_past(char *to, const char *from, size_t n) {
#if defined(__SSE2__)
    size_t head = (size_t)(-(uintptr_t)to & 15);
    if (head > n) head = n;
    memcpy(to, from, head);
    to += head, from += head, n -= head;
    for (; n >= 64; n -= 64, to += 64, from += 64)
        for (int i = 0; i < 64; i += 16) _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#endif
    memcpy(to, from, n);
}

/* Keep the `m` elements from `start` on, if that is wanted. */
static void keep(Sum *s, Py_ssize_t start, Py_ssize_t m) {
    if (s->kept == NULL) return;
    copy_past(s->kept + start * s->size, s->data + start * s->size, (size_t)(m * s->size));
    s->saved = start + m;
}

static int reduce_in_one_round(Group *g, Sum *s) {
    size_t nbytes = (size_t)s->n * s->size;
    memcpy(buffer(g, g->rank), s->data, nbytes);
    keep(s, 0, s->n);
    count_to(g, 2 * g->step + 1);
    int result = await_all(g, 2 * g->step + 1);
    if (result) return result;
    add_up(g, s, buffer(g, g->rank), s->into, 0, 0, s->n);
    g->step++;
    return 1;
}

static void copy_in(Group *g, Sum *s, uint64_t step, Py_ssize_t start, Py_ssize_t m) {
    char *mine = buffer_at(g, g->rank, step);
    Py_ssize_t low = bound(m, g->ranks, g->rank), high = bound(m, g->ranks, g->rank + 1);
    const char *from = s->data + start * s->size;
    memcpy(mine, from, (size_t)(low * s->size));
    memcpy(mine + high * s->size, from + high * s->size, (size_t)((m - high) * s->size));
    count_to(g, 2 * step + 1);
    keep(s, start, m);
}

static int add_up_all(Group *g, Sum *s) {
    if (s->n * s->size <= ONE_ROUND && s->n * s->size <= g->chunk) return reduce_in_one_round(g, s);
    Py_ssize_t most = g->chunk / s->size;
    int result;
    copy_in(g, s, g->step, 0, s->n < most ? s->n : most);
    for (Py_ssize_t start = 0; start < s->n; start += most, g->step++) {
        Py_ssize_t m = s->n - start < most ? s->n - start : most, next = start + m;
        if ((result = await_all(g, 2 * g->step + 1))) return result;
        Py_ssize_t low = bound(m, g->ranks, g->rank), high = bound(m, g->ranks, g->rank + 1);
        char *shared = buffer(g, g->rank) + low * s->size;
        add_up(g, s, s->data + start * s->size, shared, start, start + low, start + high);
        count_to(g, 2 * g->step + 2);
        memcpy(s->into + (start + low) * s->size, shared, (size_t)((high - low) * s->size));
        if (next < s->n) copy_in(g, s, g->step + 1, next, s->n - next < most ? s->n - next : most);
        for (int i = 1; i < g->ranks; i++) {
            int rank = (g->rank + i) % g->ranks;
            Py_ssize_t from = bound(m, g->ranks, rank), to = bound(m, g->ranks, rank + 1);
            if ((result = meet_one(g, rank, 2 * g->step + 2))) return result;
            memcpy(s->into + (start + from) * s->size, buffer(g, rank) + from * s->size, (size_t)((to - from) * s->size));
        }
    }
    return 1;
}

static int reduce(Group *g, Sum *s) {
    int result = add_up_all(g, s);
    if (result != 1 && s->kept != NULL) memcpy(s->into, s->kept, (size_t)(s->saved * s->size));
    return result;
}

/* Pieces that travel unchanged: rank r's piece k comes to lie at into + k's place. Each may be empty. */

static int gather(Group *g, const char *own, char *into, Py_ssize_t nbytes) {
    for (Py_ssize_t at = 0; at < nbytes; at += g->chunk, g->step++) {
        size_t m = (size_t)(nbytes - at < g->chunk ? nbytes - at : g->chunk);
        memcpy(buffer(g, g->rank), own + at, m);
        count_to(g, 2 * g->step + 1);
        for (int i = 0; i < g->ranks; i++) {
            int rank = (g->rank + i) % g->ranks, result;
            char *to = into + (size_t)rank * nbytes + at;
            if (i == 0) { if (to != own + at) memmove(to, own + at, m); continue; }
            if ((result = meet_one(g, rank, 2 * g->step + 1))) return result;
            memcpy(to, buffer(g, rank), m);
        }
    }
    return 1;
}

static int broadcast(Group *g, char *data, Py_ssize_t nbytes, int root) {
    for (Py_ssize_t at = 0; at < nbytes; at += g->chunk, g->step++) {
        size_t m = (size_t)(nbytes - at < g->chunk ? nbytes - at : g->chunk);
        int result;
        if (g->rank == root) memcpy(buffer(g, root), data + at, m);
        count_to(g, 2 * g->step + 1);
        /* all are awaited, also by the root: a buffer may be written again only when everyone has passed it */
        if ((result = await_all(g, 2 * g->step + 1))) return result;
        if (g->rank != root) memcpy(data + at, buffer(g, root), m);
    }
    return 1;
}

/* Piece k of `own` goes to rank k, and rank k's piece for me to place k of `into`. */
static int exchange(Group *g, const char *own, char *into, Py_ssize_t nbytes) {
    Py_ssize_t most = g->chunk / g->ranks;
    for (Py_ssize_t at = 0; at < nbytes; at += most, g->step++) {
        size_t m = (size_t)(nbytes - at < most ? nbytes - at : most);
        for (int k = 0; k < g->ranks; k++)
            if (k != g->rank) memcpy(buffer(g, g->rank) + k * most, own + (size_t)k * nbytes + at, m);
        count_to(g, 2 * g->step + 1);
        memmove(into + (size_t)g->rank * nbytes + at, own + (size_t)g->rank * nbytes + at, m);
        for (int i = 1; i < g->ranks; i++) {
            int rank = (g->rank + i) % g->ranks, result;
            if ((result = meet_one(g, rank, 2 * g->step + 1))) return result;
            memcpy(into + (size_t)rank * nbytes + at, buffer(g, rank) + g->rank * most, m);
        }
    }
    return 1;
}

/* My part of the sum: `data` holds `ranks` parts of `n` elements each; part `rank` of the sum comes into `into`. */
static int reduce_scatter(Group *g, const Sum *s) {
    Py_ssize_t part = s->n / g->ranks, most = g->chunk / g->ranks / s->size;
    for (Py_ssize_t at = 0; at < part; at += most, g->step++) {
        Py_ssize_t m = part - at < most ? part - at : most;
        int result;
        for (int k = 0; k < g->ranks; k++) /* mine too: `into` may be where it lies */
            memcpy(buffer(g, g->rank) + k * most * s->size, s->data + (k * part + at) * s->size, (size_t)(m * s->size));
        count_to(g, 2 * g->step + 1);
        if ((result = await_all(g, 2 * g->step + 1))) return result;
        const char *sum = NULL;
        char *to = s->into + at * s->size;
        for (int rank = 0; rank < g->ranks; rank++) {
            const char *it = buffer(g, rank) + (Py_ssize_t)g->rank * most * s->size;
            if (sum != NULL) KINDS[s->kind].combine(s->operation, to, sum, it, m);
            sum = sum == NULL ? it : to;
        }
        if (g->ranks == 1) memmove(to, sum, (size_t)(m * s->size));
        finish_sum(to, m, s->kind, s->divisor);
    }
    return 1;
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

static int check_sum(Group *g, Sum *s) {
    if (s->kind < 0 || s->kind >= N_KINDS || !KINDS[s->kind].combine || s->operation < 0 || s->operation > (s->kind < 2 ? 3 : 6)) {
        PyErr_SetString(PyExc_ValueError, "no native sum of this kind");
        return 0;
    }
    s->size = KINDS[s->kind].size;
    return usable(g);
}

static uint64_t sign_sum(int kind, const Sum *s) {
    return sign(kind, s->kind, s->operation | s->rotated << 3 | (s->divisor != 1) << 4, s->n * s->size);
}

#define WITHOUT_GIL(call) Py_BEGIN_ALLOW_THREADS result = call; Py_END_ALLOW_THREADS

static PyObject *group_reduce(Group *g, PyObject *args) {
    unsigned long long data, into, kept;
    Sum s = {0};
    int result;
    if (!PyArg_ParseTuple(args, "KKKniidpnn", &data, &into, &kept, &s.n, &s.kind, &s.operation, &s.divisor, &s.rotated, &s.at, &s.whole) || !check_sum(g, &s)) return NULL;
    s.data = (const char *)(uintptr_t)data;
    s.into = (char *)(uintptr_t)into;
    s.kept = (char *)(uintptr_t)kept;
    if (s.at < 0 || s.n > s.whole - s.at) {
        PyErr_SetString(PyExc_ValueError, "the tensor ends beyond the vector that it belongs to");
        return NULL;
    }
    begin(g, sign_sum(REDUCE, &s));
    WITHOUT_GIL(reduce(g, &s))
    return conclude(g, result);
}

static PyObject *group_reduce_scatter(Group *g, PyObject *args) {
    unsigned long long data, into;
    Sum s = {0};
    int result;
    if (!PyArg_ParseTuple(args, "KKniid", &data, &into, &s.n, &s.kind, &s.operation, &s.divisor) || !check_sum(g, &s)) return NULL;
    s.data = (const char *)(uintptr_t)data;
    s.into = (char *)(uintptr_t)into;
    begin(g, sign_sum(REDUCE_SCATTER, &s));
    WITHOUT_GIL(reduce_scatter(g, &s))
    return conclude(g, result);
}

static PyObject *group_gather(Group *g, PyObject *args) {
    unsigned long long own, into;
    Py_ssize_t nbytes;
    int dtype, result;
    if (!PyArg_ParseTuple(args, "KKni", &own, &into, &nbytes, &dtype) || !usable(g)) return NULL;
    begin(g, sign(GATHER, dtype, 0, nbytes));
    WITHOUT_GIL(gather(g, (const char *)(uintptr_t)own, (char *)(uintptr_t)into, nbytes))
    return conclude(g, result);
}

static PyObject *group_exchange(Group *g, PyObject *args) {
    unsigned long long own, into;
    Py_ssize_t nbytes;
    int dtype, result;
    if (!PyArg_ParseTuple(args, "KKni", &own, &into, &nbytes, &dtype) || !usable(g)) return NULL;
    begin(g, sign(EXCHANGE, dtype, 0, nbytes));
    WITHOUT_GIL(exchange(g, (const char *)(uintptr_t)own, (char *)(uintptr_t)into, nbytes))
    return conclude(g, result);
}

static PyObject *group_broadcast(Group *g, PyObject *args) {
    unsigned long long data;
    Py_ssize_t nbytes;
    int root, dtype, result;
    if (!PyArg_ParseTuple(args, "Knii", &data, &nbytes, &root, &dtype) || !usable(g)) return NULL;
    begin(g, sign(BROADCAST, dtype, root, nbytes));
    WITHOUT_GIL(broadcast(g, (char *)(uintptr_t)data, nbytes, root))
    return conclude(g, result);
}

static PyObject *group_barrier(Group *g, PyObject *Py_UNUSED(ignored)) {
    int result;
    if (!usable(g)) return NULL;
    begin(g, sign(BARRIER, 0, 0, 0));
    count_to(g, 2 * g->step + 1);
    WITHOUT_GIL(await_all(g, 2 * g->step + 1))
    if (!result) g->step++;
    return conclude(g, result ? result : 1);
}

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
        PyErr_SetString(PyExc_TypeError, "NativeGroup takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "Kiinl", &memory, &g->rank, &g->ranks, &g->chunk, &g->spins)) return -1;
    g->memory = (char *)(uintptr_t)memory;
    g->step = 0;
    g->broken = 0;
    PyMem_Free(g->gone);
    g->gone = PyMem_Calloc((size_t)g->ranks, 1);
    return g->gone == NULL ? (PyErr_NoMemory(), -1) : 0;
}

static PyMethodDef methods[] = {
    {"reduce", (PyCFunction)group_reduce, METH_VARARGS, "(address, into, kept, elements, kind, operation, divisor, rotated, start, whole)"},
    {"reduce_scatter", (PyCFunction)group_reduce_scatter, METH_VARARGS, "(address, into, elements, kind, operation, divisor)"},
    {"gather", (PyCFunction)group_gather, METH_VARARGS, "(own, into, nbytes, dtype)"},
    {"exchange", (PyCFunction)group_exchange, METH_VARARGS, "(own, into, nbytes, dtype)"},
    {"broadcast", (PyCFunction)group_broadcast, METH_VARARGS, "(address, nbytes, root, dtype)"},
    {"barrier", (PyCFunction)group_barrier, METH_NOARGS, "()"},
    {"lose", (PyCFunction)group_lose, METH_VARARGS, "(rank): wait for it no longer"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"step", T_ULONGLONG, offsetof(Group, step), 0, "chunks so far"},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject GroupType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "polyrhythm.core.shared_memory._native.NativeGroup",
    .tp_doc = "(memory, rank, ranks, chunk, spins)",
    .tp_basicsize = sizeof(Group),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)group_init,
    .tp_dealloc = (destructor)group_free,
    .tp_methods = methods,
    .tp_members = members,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = -1};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&GroupType) < 0 || PyModule_AddObjectRef(made, "NativeGroup", (PyObject *)&GroupType) < 0) return NULL;
    return made;
}
