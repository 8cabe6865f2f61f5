/* Collectives of tensors that lie in pieces, one for each place of a model: what `portable.py` does with torch, in one call without Python.

   The memory and its counters are those of `_native.c`, and a rank says in the same way what it is about to do. What a rank gives is copied
   from its pieces into its buffer, chunk by chunk, and from there into the pieces of the others: nothing is put together before or taken
   apart after. Ranks may give different numbers of bytes, or none; chunks are counted for the longest. */

#include "_group.h"

typedef struct {
    char *at;
    Py_ssize_t nbytes;
} Piece;

typedef struct {
    Piece *pieces;
    Py_ssize_t count, total;
    Py_ssize_t now, inside; /* the piece that is next, and how much of it is done */
} Pieces;

/* How many bytes are next without a gap, `n` at most; they are at `*at`. */
static Py_ssize_t next_bytes(Pieces *p, char **at, Py_ssize_t n) {
    while (p->now < p->count && p->inside == p->pieces[p->now].nbytes) p->now++, p->inside = 0;
    Py_ssize_t left = p->pieces[p->now].nbytes - p->inside;
    *at = p->pieces[p->now].at + p->inside;
    if (left < n) n = left;
    p->inside += n;
    return n;
}

static void take(Pieces *p, char *to, Py_ssize_t n) {
    for (char *at; n > 0;) {
        Py_ssize_t m = next_bytes(p, &at, n);
        memcpy(to, at, (size_t)m);
        to += m, n -= m;
    }
}

static void give(Pieces *p, const char *from, Py_ssize_t n) {
    for (char *at; n > 0;) {
        Py_ssize_t m = next_bytes(p, &at, n);
        memcpy(at, from, (size_t)m);
        from += m, n -= m;
    }
}

/* The bytes of a chunk that begins at `at`, of so many. */
static Py_ssize_t part_of(Py_ssize_t total, Py_ssize_t at, Py_ssize_t most) {
    Py_ssize_t left = total - at;
    return left < 0 ? 0 : left < most ? left : most;
}

/* What every rank has as `own` comes into its `places` here. */
static int gather_pieces(Group *g, Pieces *own, Pieces *places, Py_ssize_t longest) {
    for (Py_ssize_t at = 0; at < longest; at += g->chunk, g->step++) {
        Py_ssize_t m = part_of(own->total, at, g->chunk);
        take(own, buffer(g, g->rank), m);
        count_to(g, 2 * g->step + 1);
        give(&places[g->rank], buffer(g, g->rank), m);
        for (int i = 1; i < g->ranks; i++) {
            int rank = (g->rank + i) % g->ranks, result; /* all are awaited: a buffer may be written again only when everyone has passed it */
            if ((result = meet_one(g, rank, 2 * g->step + 1))) return result;
            give(&places[rank], buffer(g, rank), part_of(places[rank].total, at, g->chunk));
        }
    }
    return 1;
}

typedef struct {
    int kind, size, operation;
    double divisor;
} How;

/* The next `n` bytes of this rank's part: ranks are added up in order, beginning with the next one, as in a ring. */
static void add_pieces(Group *g, Pieces *own, Pieces *into, const How *how, Py_ssize_t most, Py_ssize_t n) {
    Py_ssize_t slot = (Py_ssize_t)g->rank * most;
    while (n > 0) {
        char *mine, *to;
        Py_ssize_t m = next_bytes(own, &mine, n);
        next_bytes(into, &to, m); /* pieces of the same lengths */
        const char *sum = NULL;
        for (int i = 1; i <= g->ranks; i++) {
            int rank = (g->rank + i) % g->ranks;
            const char *it = rank == g->rank ? mine : buffer(g, rank) + slot;
            if (sum != NULL) KINDS[how->kind].combine(how->operation, to, sum, it, m / how->size);
            sum = sum == NULL ? it : to;
        }
        if (g->ranks == 1) memmove(to, sum, (size_t)m);
        finish_sum(to, m / how->size, how->kind, how->divisor);
        slot += m, n -= m;
    }
}

/* The sum of all ranks' `parts[rank]` into this rank's `into`. */
static int scatter_pieces(Group *g, Pieces *parts, Pieces *into, const How *how, Py_ssize_t longest) {
    Py_ssize_t most = g->chunk / g->ranks & ~(Py_ssize_t)63;
    for (Py_ssize_t at = 0; at < longest; at += most, g->step++) {
        int result;
        for (int k = 0; k < g->ranks; k++)
            if (k != g->rank) take(&parts[k], buffer(g, g->rank) + k * most, part_of(parts[k].total, at, most));
        count_to(g, 2 * g->step + 1);
        if ((result = await_all(g, 2 * g->step + 1))) return result;
        add_pieces(g, &parts[g->rank], into, how, most, part_of(into->total, at, most));
    }
    return 1;
}

/* Python's side of pieces: a sequence of addresses and lengths, one after the other. */

static int read_pieces(PyObject *given, Pieces *into) {
    PyObject *numbers = PySequence_Fast(given, "pieces are a sequence of addresses and lengths");
    if (numbers == NULL) return 0;
    *into = (Pieces){.count = PySequence_Fast_GET_SIZE(numbers) / 2};
    into->pieces = PyMem_Malloc((size_t)(into->count + 1) * sizeof(Piece));
    for (Py_ssize_t k = 0; into->pieces != NULL && k < into->count; k++) {
        unsigned long long at = PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(numbers, 2 * k));
        Py_ssize_t nbytes = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(numbers, 2 * k + 1));
        into->pieces[k] = (Piece){(char *)(uintptr_t)at, nbytes};
        into->total += nbytes;
    }
    Py_DECREF(numbers);
    if (into->pieces == NULL) PyErr_NoMemory();
    return !PyErr_Occurred();
}

static void free_all(Pieces *parts, int count) {
    for (int k = 0; k < count; k++) PyMem_Free(parts[k].pieces);
    PyMem_Free(parts);
}

/* For each rank its pieces; `*total` and `*longest` are in bytes. */
static Pieces *read_all(Group *g, PyObject *given, Py_ssize_t *total, Py_ssize_t *longest) {
    if (!PyList_Check(given) || PyList_GET_SIZE(given) != g->ranks) {
        PyErr_SetString(PyExc_ValueError, "pieces are wanted for every rank");
        return NULL;
    }
    Pieces *parts = PyMem_Calloc((size_t)g->ranks, sizeof(Pieces));
    if (parts == NULL) return (Pieces *)PyErr_NoMemory();
    *total = *longest = 0;
    for (int k = 0; k < g->ranks; k++) {
        if (!read_pieces(PyList_GET_ITEM(given, k), &parts[k])) return free_all(parts, g->ranks), NULL;
        *total += parts[k].total;
        if (parts[k].total > *longest) *longest = parts[k].total;
    }
    return parts;
}

/* 11 bits of how many bytes each rank has: ranks that disagree about it are told so, as about the kind of a collective (FNV-1a). */
static int lengths(Group *g, const Pieces *parts) {
    uint64_t found = 1469598103934665603ULL;
    for (int k = 0; k < g->ranks; k++) found = (found ^ (uint64_t)parts[k].total) * 1099511628211ULL;
    return (int)((found ^ found >> 11 ^ found >> 32) & 0x7ff);
}

static PyObject *group_gather_pieces(Group *g, PyObject *args) {
    PyObject *given, *wanted;
    Py_ssize_t total, longest;
    int dtype, result = 1;
    Pieces own = {0}, *places;
    if (!PyArg_ParseTuple(args, "OOi", &given, &wanted, &dtype) || !usable(g) || !(places = read_all(g, wanted, &total, &longest))) return NULL;
    if (read_pieces(given, &own) && own.total != places[g->rank].total)
        PyErr_SetString(PyExc_ValueError, "a rank has a place for each byte that it gives");
    if (!PyErr_Occurred()) {
        begin(g, sign(GATHER_PIECES, dtype, lengths(g, places), total));
        WITHOUT_GIL(gather_pieces(g, &own, places, longest))
    }
    PyMem_Free(own.pieces);
    free_all(places, g->ranks);
    return PyErr_Occurred() && result == 1 ? NULL : conclude(g, result);
}

static PyObject *group_scatter_pieces(Group *g, PyObject *args) {
    PyObject *given, *wanted;
    Py_ssize_t total, longest;
    int result = 1;
    How how;
    Pieces into = {0}, *parts;
    if (!PyArg_ParseTuple(args, "OOiid", &given, &wanted, &how.kind, &how.operation, &how.divisor) || !usable(g)) return NULL;
    if (how.kind < 0 || how.kind >= N_KINDS || !KINDS[how.kind].combine || how.operation < 0 || how.operation > (how.kind < 2 ? 3 : 6)) {
        PyErr_SetString(PyExc_ValueError, "no native sum of this kind");
        return NULL;
    }
    how.size = KINDS[how.kind].size;
    if (!(parts = read_all(g, given, &total, &longest))) return NULL;
    if (read_pieces(wanted, &into)) {
        int alike = into.count == parts[g->rank].count;
        for (Py_ssize_t k = 0; alike && k < into.count; k++) alike = into.pieces[k].nbytes == parts[g->rank].pieces[k].nbytes;
        if (!alike) PyErr_SetString(PyExc_ValueError, "sums come into pieces as long as those that are added up");
    }
    if (!PyErr_Occurred()) {
        begin(g, sign(SCATTER_PIECES, how.kind, how.operation | (how.divisor != 1) << 4 | lengths(g, parts) << 5, total));
        WITHOUT_GIL(scatter_pieces(g, parts, &into, &how, longest))
    }
    PyMem_Free(into.pieces);
    free_all(parts, g->ranks);
    return PyErr_Occurred() && result == 1 ? NULL : conclude(g, result);
}

static PyMethodDef methods[] = {
    {"gather", (PyCFunction)group_gather_pieces, METH_VARARGS, "(own, places, dtype)"},
    {"reduce_scatter", (PyCFunction)group_scatter_pieces, METH_VARARGS, "(parts, into, kind, operation, divisor)"},
    {"lose", (PyCFunction)group_lose, METH_VARARGS, "(rank): wait for it no longer"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"other", T_INT, offsetof(Group, other), READONLY, "the rank that has called another collective; -1 if none has"},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject GroupType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "polyrhythm.core.shared_memory._pieces.NativePieces",
    .tp_doc = "(memory, rank, ranks, chunk, spins)",
    .tp_basicsize = sizeof(Group),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)group_init,
    .tp_dealloc = (destructor)group_free,
    .tp_methods = methods,
    .tp_members = members,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_pieces", .m_size = -1};

PyMODINIT_FUNC PyInit__pieces(void) {
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&GroupType) < 0 || PyModule_AddObjectRef(made, "NativePieces", (PyObject *)&GroupType) < 0) return NULL;
    return made;
}
