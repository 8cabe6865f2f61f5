/* The thread that sends the beats of a process, without Python and so without the GIL.

   Every `interval` it sends one packet of 80 bytes to each target: what `update` was given last, with a number and the time
   (CLOCK_MONOTONIC). A packet to a target with a key is followed by the keyed BLAKE2s of it (RFC 7693), 16 bytes. `beat.py` has the layout.
   Packets are sent without waiting: for a target that has no room a packet is dropped. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEY 32
#define MAC 16

typedef struct {
    uint32_t tag, native;
    int64_t number, sent, pid, step, pulse, phase, computed, longest, writing;
} Packet;

_Static_assert(sizeof(Packet) == 80, "a packet has no padding");

typedef struct {
    int descriptor, keyed;
    uint32_t tag;
    socklen_t length;       /* 0 if the socket is connected */
    struct sockaddr_storage to;
    uint8_t key[KEY];
} Target;

typedef struct {
    PyObject_HEAD
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int running, ending, n;
    pid_t owner;            /* a fork of this process has no such thread */
    int64_t interval;
    Packet packet;
    Target *targets;
} Beats;

/* BLAKE2s of a key and at most 128 bytes. */

static const uint32_t IV[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static inline uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
    v[a] += v[b] + x; v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];     v[b] = rotate(v[b] ^ v[c], 12);
    v[a] += v[b] + y; v[d] = rotate(v[d] ^ v[a], 8);
    v[c] += v[d];     v[b] = rotate(v[b] ^ v[c], 7);
}

static void compress(uint32_t *h, const uint8_t *block, uint32_t count, int last) {
    uint32_t v[16], m[16];
    memcpy(m, block, 64);   /* little-endian, as everything that is built here */
    for (int i = 0; i < 8; i++) { v[i] = h[i]; v[i + 8] = IV[i]; }
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 10; round++) {
        const uint8_t *s = SIGMA[round];
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++) mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

static void authenticate(const uint8_t *key, const uint8_t *data, size_t n, uint8_t *mac) {
    uint32_t h[8];
    uint8_t block[64] = {0};
    memcpy(h, IV, sizeof h);
    h[0] ^= 0x01010000 ^ KEY << 8 ^ MAC;
    memcpy(block, key, KEY);
    compress(h, block, 64, 0);
    for (size_t at = 0; at < n; at += 64) {
        size_t m = n - at < 64 ? n - at : 64;
        memset(block, 0, sizeof block);
        memcpy(block, data + at, m);
        compress(h, block, (uint32_t)(64 + at + m), at + m == n);
    }
    memcpy(mac, h, MAC);
}

/* The thread */

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void send_all(Beats *b) {
    uint8_t bytes[sizeof(Packet) + MAC];
    b->packet.number++;
    b->packet.sent = now();
    for (int i = 0; i < b->n; i++) {
        Target *t = &b->targets[i];
        b->packet.tag = t->tag;
        memcpy(bytes, &b->packet, sizeof(Packet));
        if (t->keyed) authenticate(t->key, bytes, sizeof(Packet), bytes + sizeof(Packet));
        size_t n = sizeof(Packet) + (t->keyed ? MAC : 0);
        (void)!sendto(t->descriptor, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL, t->length ? (struct sockaddr *)&t->to : NULL, t->length);
    }
}

static void *serve(void *given) {
    Beats *b = given;
    int64_t due = now();
    pthread_mutex_lock(&b->lock);
    while (!b->ending) {
        send_all(b);
        due += b->interval;
        if (due < now()) due = now() + b->interval; /* it was stopped: no burst of what is late */
        struct timespec at = {due / 1000000000, due % 1000000000};
        while (!b->ending && pthread_cond_timedwait(&b->wake, &b->lock, &at) != ETIMEDOUT);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Python's side */

static PyObject *beats_start(Beats *b, PyObject *Py_UNUSED(ignored)) {
    sigset_t all, before;
    if (b->running) Py_RETURN_NONE;
    b->owner = getpid();
    b->packet.pid = b->owner;
    b->packet.native = 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for threads of Python */
    int failed = pthread_create(&b->thread, NULL, serve, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    b->running = 1;
    Py_RETURN_NONE;
}

static PyObject *beats_stop(Beats *b, PyObject *Py_UNUSED(ignored)) {
    if (b->running && b->owner == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&b->lock);
        b->ending = 1;
        pthread_cond_signal(&b->wake);
        pthread_mutex_unlock(&b->lock);
        pthread_join(b->thread, NULL);
        Py_END_ALLOW_THREADS
    }
    b->running = 0;
    Py_RETURN_NONE;
}

static PyObject *beats_update(Beats *b, PyObject *args) {
    long long step, pulse, phase, computed, longest, writing;
    if (!PyArg_ParseTuple(args, "LLLLLL", &step, &pulse, &phase, &computed, &longest, &writing)) return NULL;
    pthread_mutex_lock(&b->lock); /* held for as long as some packets take, which wait for nothing */
    b->packet.step = step;
    b->packet.pulse = pulse;
    b->packet.phase = phase;
    b->packet.computed = computed;
    b->packet.longest = longest;
    b->packet.writing = writing;
    pthread_mutex_unlock(&b->lock);
    Py_RETURN_NONE;
}

static PyObject *beats_add(Beats *b, PyObject *args) {
    Target t = {0};
    const char *ip, *key;
    Py_ssize_t nkey;
    unsigned short port;
    unsigned int tag;
    if (!PyArg_ParseTuple(args, "isHIy#", &t.descriptor, &ip, &port, &tag, &key, &nkey)) return NULL;
    if (nkey != 0 && nkey != KEY) return PyErr_Format(PyExc_ValueError, "a key has %d bytes", KEY);
    struct sockaddr_in *four = (struct sockaddr_in *)&t.to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&t.to;
    if (inet_pton(AF_INET, ip, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        t.length = sizeof *four;
    } else if (inet_pton(AF_INET6, ip, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        t.length = sizeof *six;
    } else if (*ip)
        return PyErr_Format(PyExc_ValueError, "%s is no address", ip);
    t.tag = tag;
    t.keyed = nkey > 0;
    memcpy(t.key, key, (size_t)nkey);
    pthread_mutex_lock(&b->lock);
    Target *more = PyMem_RawRealloc(b->targets, sizeof(Target) * (size_t)(b->n + 1));
    if (more) {
        b->targets = more;
        b->targets[b->n++] = t;
    }
    pthread_mutex_unlock(&b->lock);
    if (!more) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static void beats_free(Beats *b) {
    Py_XDECREF(beats_stop(b, NULL));
    PyMem_RawFree(b->targets);
    Py_TYPE(b)->tp_free((PyObject *)b);
}

static PyObject *beats_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    long long interval;
    if (keywords && PyDict_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "NativeBeats takes no keywords");
    if (!PyArg_ParseTuple(args, "L", &interval)) return NULL;
    Beats *b = (Beats *)type->tp_alloc(type, 0);
    if (b == NULL) return NULL;
    b->interval = interval;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&b->wake, &clock);
    return (PyObject *)b;
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)beats_add, METH_VARARGS, "(descriptor, ip, port, tag, key): send to it too; no ip if it is connected, no key if it is trusted"},
    {"start", (PyCFunction)beats_start, METH_NOARGS, "()"},
    {"stop", (PyCFunction)beats_stop, METH_NOARGS, "()"},
    {"update", (PyCFunction)beats_update, METH_VARARGS, "(step, pulse, phase, computed, longest, writing)"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject BeatsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "polyrhythm.core.processes.runtime._beats.NativeBeats",
    .tp_doc = "(interval in nanoseconds)",
    .tp_basicsize = sizeof(Beats),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = beats_new,
    .tp_dealloc = (destructor)beats_free,
    .tp_methods = methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_beats", .m_size = -1};

PyMODINIT_FUNC PyInit__beats(void) {
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&BeatsType) < 0 || PyModule_AddObjectRef(made, "NativeBeats", (PyObject *)&BeatsType) < 0) return NULL;
    return made;
}
