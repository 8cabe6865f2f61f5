/* Collectives of processes that share a piece of memory: what `portable.py` does with torch, in one call without Python.

   The memory holds, for each of `ranks` ranks, a line of counters and three buffers of `chunk` bytes. A tensor goes through
   the buffers chunk by chunk. In chunk k a rank copies into its buffer what the others shall add (and counts to 2k + 1), adds up
   its own share of what all have copied (and counts to 2k + 2), and takes the shares that the others have added up. A buffer
   is written again three chunks later; by then everyone has said that the second chunk after it is there, and had left the
   first one behind before saying so.

   Before a rank counts for the first chunk of a collective it writes into its line what it is about to do, and whoever has waited
   for it there compares that with its own: ranks that disagree get an error, and not each other's numbers.

   Whoever waits looks at the other's counter for a while, then sleeps on it (futex) and is woken by who counts on. */

#include "_group.h"

#define ONE_ROUND 16384     /* bytes up to which everyone adds up everything, which saves a round of waiting */

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
