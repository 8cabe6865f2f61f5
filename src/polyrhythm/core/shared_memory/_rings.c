/* Rings of bytes between processes that share a piece of memory, one for each ordered pair: what `portable_rings.py` does with numpy.

   The memory holds, for each of `ranks` ranks, a line with a count of calls, and then for each receiver and each sender a ring: a line that
   the sender writes (bytes written so far, and whether it waits for room), a line that the receiver writes (bytes read so far), and
   `capacity` bytes. Only the sender moves the first number and only the receiver the second, so no lock is needed.

   A message is a header (tag, bytes of its content) and the content, as much at a time as there is room. Who writes calls the receiver, and
   who reads calls a sender that waits for room: the called rank's count goes up, and if it sleeps on that (futex) it is woken. So a rank
   waits for everything that can happen to it in one place. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 128            /* two cache lines, which processors fetch in pairs */
#define PIECE 65536         /* bytes that are shown to the receiver at a time, so that both copy at once */
#define WITHOUT_LOCK 32768  /* bytes from which on Python's lock is given up meanwhile */

typedef struct { uint32_t calls, sleepers; } Bell;
typedef struct { uint64_t written; uint32_t waits; char rest[LINE - 12]; uint64_t read; char tail[LINE - 8]; char bytes[]; } Ring;
typedef struct { int64_t tag, nbytes; } Header;

typedef struct {
    PyObject_HEAD
    char *memory;
    int rank, ranks;
    Py_ssize_t capacity;
    long spins;
} Rings;

static inline Bell *bell(Rings *r, int rank) { return (Bell *)(r->memory + (size_t)rank * LINE); }

static inline Ring *ring(Rings *r, int receiver, int sender) {
    size_t each = 2 * LINE + (size_t)r->capacity;
    return (Ring *)(r->memory + (size_t)r->ranks * LINE + ((size_t)receiver * r->ranks + sender) * each);
}

static void call(Rings *r, int rank) {
    Bell *it = bell(r, rank);
    __atomic_add_fetch(&it->calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&it->sleepers, __ATOMIC_SEQ_CST)) syscall(SYS_futex, &it->calls, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void copy_in(Rings *r, Ring *to, uint64_t at, const char *from, Py_ssize_t n) {
    Py_ssize_t start = (Py_ssize_t)(at % (uint64_t)r->capacity), first = r->capacity - start < n ? r->capacity - start : n;
    memcpy(to->bytes + start, from, (size_t)first);
    memcpy(to->bytes, from + first, (size_t)(n - first));
}

static void copy_out(Rings *r, Ring *from, uint64_t at, char *to, Py_ssize_t n) {
    Py_ssize_t start = (Py_ssize_t)(at % (uint64_t)r->capacity), first = r->capacity - start < n ? r->capacity - start : n;
    memcpy(to, from->bytes + start, (size_t)first);
    memcpy(to + first, from->bytes, (size_t)(n - first));
}

static Py_ssize_t room(Rings *r, Ring *to) {
    return r->capacity - (Py_ssize_t)(to->written - __atomic_load_n(&to->read, __ATOMIC_SEQ_CST));
}

/* As much as there is room for, without waiting: the bytes of the content that went, or -1 if not even its header, where it has one, did. */
static Py_ssize_t put(Rings *r, int receiver, const Header *header, const char *from, Py_ssize_t nbytes) {
    Ring *to = ring(r, receiver, r->rank);
    Py_ssize_t head = header == NULL ? 0 : (Py_ssize_t)sizeof *header, gone = 0, began = 0;
    uint64_t at = to->written;
    for (;;) {
        Py_ssize_t free_bytes = room(r, to);
        if (!began && free_bytes < head + (nbytes && !head)) goto full;
        if (!began && head) {
            copy_in(r, to, at, (const char *)header, head);
            at += (uint64_t)head;
            free_bytes -= head;
        }
        began = 1;
        Py_ssize_t n = nbytes - gone < free_bytes ? nbytes - gone : free_bytes;
        if (n > PIECE) n = PIECE;
        copy_in(r, to, at, from + gone, n);
        at += (uint64_t)n;
        gone += n;
        int shown = to->written != at;
        __atomic_store_n(&to->written, at, __ATOMIC_SEQ_CST);
        if (shown) call(r, receiver);
        if (gone == nbytes) return gone;
        if (n == free_bytes) { /* look again: the receiver may have read while this was copied */
    full:
            __atomic_store_n(&to->waits, 1, __ATOMIC_SEQ_CST); /* before the look at what was read: a receiver that reads later sees it */
            if (room(r, to) < (began ? 1 : head + (nbytes && !head))) return began ? gone : head ? -1 : 0;
        }
    }
}

/* As much of `nbytes` as is there, without waiting. */
static Py_ssize_t get(Rings *r, int sender, char *into, Py_ssize_t nbytes) {
    Ring *from = ring(r, r->rank, sender);
    Py_ssize_t come = 0;
    while (come < nbytes) {
        uint64_t at = from->read;
        Py_ssize_t n = (Py_ssize_t)(__atomic_load_n(&from->written, __ATOMIC_ACQUIRE) - at);
        if (n == 0) break;
        if (n > nbytes - come) n = nbytes - come;
        if (n > PIECE) n = PIECE;
        copy_out(r, from, at, into + come, n);
        come += n;
        __atomic_store_n(&from->read, at + (uint64_t)n, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&from->waits, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&from->waits, 0, __ATOMIC_SEQ_CST)) call(r, sender);
    }
    return come;
}

static int is_rank(Rings *r, int rank) {
    if (rank >= 0 && rank < r->ranks) return 1;
    PyErr_SetString(PyExc_ValueError, "not a rank of these rings");
    return 0;
}

#define MAYBE_WITHOUT_LOCK(nbytes, call) \
    if ((nbytes) >= WITHOUT_LOCK) { Py_BEGIN_ALLOW_THREADS result = call; Py_END_ALLOW_THREADS } else result = call;

static PyObject *rings_begin(Rings *r, PyObject *args) {
    int receiver;
    long long tag;
    unsigned long long from;
    Py_ssize_t nbytes, result;
    if (!PyArg_ParseTuple(args, "iLKn", &receiver, &tag, &from, &nbytes) || !is_rank(r, receiver)) return NULL;
    Header header = {tag, nbytes};
    MAYBE_WITHOUT_LOCK(nbytes, put(r, receiver, &header, (const char *)(uintptr_t)from, nbytes))
    return PyLong_FromSsize_t(result);
}

static PyObject *rings_put(Rings *r, PyObject *args) {
    int receiver;
    unsigned long long from;
    Py_ssize_t nbytes, result;
    if (!PyArg_ParseTuple(args, "iKn", &receiver, &from, &nbytes) || !is_rank(r, receiver)) return NULL;
    MAYBE_WITHOUT_LOCK(nbytes, put(r, receiver, NULL, (const char *)(uintptr_t)from, nbytes))
    return PyLong_FromSsize_t(result);
}

static PyObject *rings_head(Rings *r, PyObject *args) {
    int sender;
    Header header;
    if (!PyArg_ParseTuple(args, "i", &sender) || !is_rank(r, sender)) return NULL;
    Ring *from = ring(r, r->rank, sender);
    if (__atomic_load_n(&from->written, __ATOMIC_ACQUIRE) - from->read < sizeof header) Py_RETURN_NONE;
    copy_out(r, from, from->read, (char *)&header, sizeof header);
    return Py_BuildValue("LL", (long long)header.tag, (long long)header.nbytes);
}

static PyObject *rings_skip(Rings *r, PyObject *args) {
    int sender;
    Header header;
    if (!PyArg_ParseTuple(args, "i", &sender) || !is_rank(r, sender)) return NULL;
    get(r, sender, (char *)&header, sizeof header);
    Py_RETURN_NONE;
}

static PyObject *rings_get(Rings *r, PyObject *args) {
    int sender;
    unsigned long long into;
    Py_ssize_t nbytes, result;
    if (!PyArg_ParseTuple(args, "iKn", &sender, &into, &nbytes) || !is_rank(r, sender)) return NULL;
    MAYBE_WITHOUT_LOCK(nbytes, get(r, sender, (char *)(uintptr_t)into, nbytes))
    return PyLong_FromSsize_t(result);
}

static PyObject *rings_calls(Rings *r, PyObject *Py_UNUSED(ignored)) {
    return PyLong_FromUnsignedLong(__atomic_load_n(&bell(r, r->rank)->calls, __ATOMIC_SEQ_CST));
}

static PyObject *rings_call(Rings *r, PyObject *args) {
    int rank;
    if (!PyArg_ParseTuple(args, "i", &rank) || !is_rank(r, rank)) return NULL;
    call(r, rank);
    Py_RETURN_NONE;
}

/* Until there were more calls than `seen`, a signal came, or the time is over. */
static void wait_for_call(Rings *r, uint32_t seen, double seconds) {
    Bell *mine = bell(r, r->rank);
    for (long i = 0; i < r->spins; i++) {
        if (__atomic_load_n(&mine->calls, __ATOMIC_ACQUIRE) != seen) return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#endif
    }
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    __atomic_add_fetch(&mine->sleepers, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &mine->calls, FUTEX_WAIT, seen, &time, NULL, 0);
    __atomic_sub_fetch(&mine->sleepers, 1, __ATOMIC_SEQ_CST);
}

static PyObject *rings_wait(Rings *r, PyObject *args) {
    unsigned long seen;
    double seconds;
    if (!PyArg_ParseTuple(args, "kd", &seen, &seconds)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    wait_for_call(r, (uint32_t)seen, seconds < 0 ? 0 : seconds);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals()) return NULL;
    Py_RETURN_NONE;
}

static int rings_init(Rings *r, PyObject *args, PyObject *keywords) {
    unsigned long long memory;
    if (keywords && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "NativeRings takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "Kiinl", &memory, &r->rank, &r->ranks, &r->capacity, &r->spins)) return -1;
    r->memory = (char *)(uintptr_t)memory;
    return 0;
}

static PyMethodDef methods[] = {
    {"begin", (PyCFunction)rings_begin, METH_VARARGS, "(receiver, tag, address, nbytes): the bytes that went, -1 if there was no room at all"},
    {"put", (PyCFunction)rings_put, METH_VARARGS, "(receiver, address, nbytes): the bytes that went, of the rest of a content"},
    {"head", (PyCFunction)rings_head, METH_VARARGS, "(sender): tag and bytes of the message that is next, or None"},
    {"skip", (PyCFunction)rings_skip, METH_VARARGS, "(sender): have done with that header"},
    {"get", (PyCFunction)rings_get, METH_VARARGS, "(sender, address, nbytes): the bytes that came"},
    {"calls", (PyCFunction)rings_calls, METH_NOARGS, "(): the calls so far"},
    {"call", (PyCFunction)rings_call, METH_VARARGS, "(rank): wake it"},
    {"wait", (PyCFunction)rings_wait, METH_VARARGS, "(seen, seconds): until there were more calls than that, or some time is over"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject RingsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "polyrhythm.core.shared_memory._rings.NativeRings",
    .tp_doc = "(memory, rank, ranks, capacity, spins)",
    .tp_basicsize = sizeof(Rings),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)rings_init,
    .tp_methods = methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_rings", .m_size = -1};

PyMODINIT_FUNC PyInit__rings(void) {
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&RingsType) < 0 || PyModule_AddObjectRef(made, "NativeRings", (PyObject *)&RingsType) < 0) return NULL;
    return made;
}
