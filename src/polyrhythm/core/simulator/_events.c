/* The queue of future work, what resumes tasks, and the post: what `event_queue.py`, `task_runner.py` and `post.py` do, in the same order.

   Tasks, actors, channels, messages and effects are the dataclasses of Python, which have slots: `bind_classes` gets the classes, and their fields
   are read and written where they lie. A reference that is read so is borrowed, and kept where Python may run before its last use. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>

#include "_heap.h"

#define COMPACT_AT 1024     /* as in event_queue.py */
#define FIRST_ROOM 64
#define HEADER_BYTES 24     /* as in message.py, and the next three */
#define NUMBER_BYTES 8
#define TENSOR_HEADER_BYTES 4
#define DIMENSION_BYTES 8

/* The fields of the dataclasses */

enum { TASK, ACTOR, CHANNEL, DELIVERY, MESSAGE, SEND, RECEIVE, SLEEP, COMPUTE, KINDS };
enum { T_ACTOR, T_STEP, T_COROUTINE, T_WAITING, T_SERIAL, T_GRAD };
enum { A_NAME, A_MAIL, A_WAITERS, A_CHANNELS, A_HELD_UNTIL, A_ENDED, A_BYTES_SENT, A_MESSAGES_SENT, A_TIMING, A_FREE_AT, A_STALLED };
enum { C_SENDER, C_RECEIVER, C_LOSES, C_CROSSES, C_FATES, C_LINE, C_LEFT, C_NBYTES, C_MESSAGES, C_BUSY, C_SINCE };
enum { D_SENDER, D_MESSAGE };
enum { M_TOPIC, M_NUMBERS, M_TEXT, M_TENSORS };
enum { S_TO, S_MESSAGE };
enum { R_TOPIC, R_TIMEOUT };
enum { Z_SECONDS };
enum { W_FLOPS, W_CONTRIBUTIONS, W_STEP };
#define MOST_FIELDS 11

static const char *const fields[KINDS][MOST_FIELDS + 1] = {
    {"actor", "step", "coroutine", "waiting", "serial", "grad", NULL},
    {"name", "mail", "waiters", "channels", "held_until", "ended", "bytes_sent", "messages_sent", "timing", "free_at",
     "stalled", NULL},
    {"sender", "receiver", "loses", "crosses", "fates", "line", "left", "nbytes", "messages", "busy", "since", NULL},
    {"sender", "message", NULL},
    {"topic", "numbers", "text", "tensors", NULL},
    {"to", "message", NULL},
    {"topic", "timeout", NULL},
    {"seconds", NULL},
    {"flops", "contributions", "step", NULL},
};
static PyTypeObject *kinds[KINDS];
static Py_ssize_t offsets[KINDS][MOST_FIELDS];
static PyObject *word_append, *word_popleft, *word_running, *word_close, *word_dim, *word_numel, *word_element_size;
static PyObject *word_step_seconds, *word_seconds, *word_merge_seconds;

static PyObject **place(int kind, PyObject *object, int field) {
    if (Py_TYPE(object) != kinds[kind]) {
        PyErr_Format(PyExc_TypeError, "%s is needed, not %s", kinds[kind] ? kinds[kind]->tp_name : "a class that is bound", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return (PyObject **)((char *)object + offsets[kind][field]);
}

static PyObject *get(int kind, PyObject *object, int field) {       /* borrowed */
    PyObject **at = place(kind, object, field);
    if (at == NULL) return NULL;
    if (*at == NULL) PyErr_SetString(PyExc_AttributeError, fields[kind][field]);
    return *at;
}

static int put(int kind, PyObject *object, int field, PyObject *value) {    /* takes the reference; NULL is an error that was set */
    PyObject **at = value ? place(kind, object, field) : NULL;
    if (at == NULL) { Py_XDECREF(value); return -1; }
    Py_XSETREF(*at, value);
    return 0;
}

static int get_double(int kind, PyObject *object, int field, double *value) {
    PyObject *found = get(kind, object, field);
    if (found == NULL) return -1;
    *value = PyFloat_AsDouble(found);
    return *value == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static int add(int kind, PyObject *object, int field, PyObject *more) {
    PyObject *before = get(kind, object, field);
    return before ? put(kind, object, field, PyNumber_Add(before, more)) : -1;
}

static PyObject *bind_classes(PyObject *module, PyObject *classes) {
    if (!PyTuple_Check(classes) || PyTuple_GET_SIZE(classes) != KINDS) { PyErr_SetString(PyExc_TypeError, "a tuple of the classes is needed"); return NULL; }
    for (int kind = 0; kind < KINDS; kind++) {
        PyObject *class = PyTuple_GET_ITEM(classes, kind);
        if (!PyType_Check(class)) { PyErr_SetString(PyExc_TypeError, "a class is needed"); return NULL; }
        for (int field = 0; fields[kind][field]; field++) {
            PyObject *slot = PyObject_GetAttrString(class, fields[kind][field]);
            int fits = slot && Py_IS_TYPE(slot, &PyMemberDescr_Type) && ((PyMemberDescrObject *)slot)->d_member->type == T_OBJECT_EX;
            if (fits) offsets[kind][field] = ((PyMemberDescrObject *)slot)->d_member->offset;
            else if (slot) PyErr_Format(PyExc_TypeError, "%s has no slot %s", ((PyTypeObject *)class)->tp_name, fields[kind][field]);
            Py_XDECREF(slot);
            if (!fits) return NULL;
        }
        Py_XSETREF(kinds[kind], (PyTypeObject *)Py_NewRef(class));
    }
    Py_RETURN_NONE;
}

/* What is ready */

typedef struct { PyObject_HEAD PyObject **items; Py_ssize_t first, size, room; } Ready;

static int is_work(PyObject *work) {
    if (PyTuple_CheckExact(work) && PyTuple_GET_SIZE(work) == 3) return 1;
    PyErr_SetString(PyExc_TypeError, "work is an action and what it is done with, a tuple of three");
    return 0;
}

static int ready_push(Ready *self, PyObject *work) {    /* takes a reference of its own */
    if (self->size == self->room) {
        Py_ssize_t more = self->room ? 2 * self->room : FIRST_ROOM;
        PyObject **larger = malloc((size_t)more * sizeof *larger);
        if (larger == NULL) { PyErr_NoMemory(); return -1; }
        for (Py_ssize_t k = 0; k < self->size; k++) larger[k] = self->items[(self->first + k) % self->room];
        free(self->items);
        self->items = larger, self->first = 0, self->room = more;
    }
    self->items[(self->first + self->size++) % self->room] = Py_NewRef(work);
    return 0;
}

static PyObject *ready_pop(Ready *self) {
    PyObject *work = self->items[self->first];
    self->first = (self->first + 1) % self->room;
    self->size--;
    return work;
}

static PyObject *ready_append(Ready *self, PyObject *work) {
    if (!is_work(work) || ready_push(self, work) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *ready_popleft(Ready *self, PyObject *none) {
    if (!self->size) { PyErr_SetString(PyExc_IndexError, "nothing is ready"); return NULL; }
    return ready_pop(self);
}

static Py_ssize_t ready_length(Ready *self) { return self->size; }

static int ready_traverse(Ready *self, visitproc visit, void *arg) {
    for (Py_ssize_t k = 0; k < self->size; k++) Py_VISIT(self->items[(self->first + k) % self->room]);
    return 0;
}
static int ready_clear(Ready *self) {
    while (self->size) Py_DECREF(ready_pop(self));
    return 0;
}
static void ready_dealloc(Ready *self) {
    PyObject_GC_UnTrack(self);
    ready_clear(self);
    free(self->items);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef ready_methods[] = {
    {"append", (PyCFunction)ready_append, METH_O, NULL},
    {"popleft", (PyCFunction)ready_popleft, METH_NOARGS, NULL},
    {NULL},
};
static PySequenceMethods ready_sequence = {.sq_length = (lenfunc)ready_length};
static PyTypeObject ReadyType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._events.Ready",
    .tp_basicsize = sizeof(Ready), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_traverse = (traverseproc)ready_traverse, .tp_clear = (inquiry)ready_clear, .tp_dealloc = (destructor)ready_dealloc,
    .tp_methods = ready_methods, .tp_as_sequence = &ready_sequence, .tp_doc = "Work that is due now, in the order of scheduling.",
};

/* The queue */

typedef struct { double time; long long number; PyObject *work; } Entry;
typedef struct {
    PyObject_HEAD
    double now;
    PyObject *ready, *timer, *stale;
    Entry *heap;
    Py_ssize_t size, room;
    long long scheduled;
} Queue;
static PyTypeObject QueueType;

static int make_ready(Queue *self, PyObject *work) {
    if (Py_IS_TYPE(self->ready, &ReadyType)) return ready_push((Ready *)self->ready, work);
    PyObject *done = PyObject_CallMethodOneArg(self->ready, word_append, work);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int earlier(const Entry *a, const Entry *b) { return a->time != b->time ? a->time < b->time : a->number < b->number; }

HEAP(entries, Entry, earlier)

static PyObject *queue_pop(Queue *self, double *time) {
    PyObject *work = self->heap[0].work;
    *time = self->heap[0].time;
    if (--self->size) self->heap[0] = self->heap[self->size], entries_sink(self->heap, self->size, 0);
    return work;
}

static int is_stale(Queue *self, PyObject *work) {
    if (PyTuple_GET_ITEM(work, 0) != self->timer) return 0;
    PyObject *found = PyObject_CallFunctionObjArgs(self->stale, PyTuple_GET_ITEM(work, 1), PyTuple_GET_ITEM(work, 2), NULL);
    int stale = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return stale;
}

static int queue_compact(Queue *self) {      /* the heap is whole whenever Python may run, or collect cycles */
    Py_ssize_t count = 0, kept = 0;
    PyObject **gone = malloc((size_t)self->size * sizeof *gone);
    if (gone == NULL) { PyErr_NoMemory(); return -1; }
    int stale = 0;
    for (Py_ssize_t k = 0; k < self->size && stale >= 0; k++)
        if ((stale = is_stale(self, self->heap[k].work)) == 1) gone[count++] = self->heap[k].work;
    Py_ssize_t left = count, next = 0;
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (next < left && self->heap[k].work == gone[next]) next++; else self->heap[kept++] = self->heap[k];
    self->size = kept;
    for (Py_ssize_t k = kept / 2; k-- > 0;) entries_sink(self->heap, self->size, k);
    while (count) Py_DECREF(gone[--count]);
    free(gone);
    return stale < 0 ? -1 : 0;
}

static int queue_at(Queue *self, double time, PyObject *work) {
    if (time <= self->now) return make_ready(self, work);
    if (!(time < INFINITY)) {
        if (time == INFINITY) return 0;
        PyObject *given = PyFloat_FromDouble(time);     /* it would stand at the head of the heap for ever */
        if (given) PyErr_Format(PyExc_ValueError, "%S s is not a time at which something can happen.", given);
        Py_XDECREF(given);
        return -1;
    }
    if (self->size == self->room) {
        Py_ssize_t more = self->room ? 2 * self->room : FIRST_ROOM;
        Entry *larger = realloc(self->heap, (size_t)more * sizeof *larger);
        if (larger == NULL) { PyErr_NoMemory(); return -1; }
        self->heap = larger, self->room = more;
    }
    self->heap[self->size] = (Entry){time, ++self->scheduled, Py_NewRef(work)};
    entries_rise(self->heap, self->size++);
    return self->scheduled % COMPACT_AT || self->size < COMPACT_AT ? 0 : queue_compact(self);
}

static int schedule(Queue *self, double time, PyObject *action, PyObject *first, PyObject *second) {
    PyObject *work = PyTuple_Pack(3, action, first, second);
    int failed = work == NULL || queue_at(self, time, work) < 0;
    Py_XDECREF(work);
    return failed ? -1 : 0;
}

static PyObject *at(Queue *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a time and work are needed"); return NULL; }
    double time = PyFloat_AsDouble(args[0]);
    if ((time == -1.0 && PyErr_Occurred()) || !is_work(args[1]) || queue_at(self, time, args[1]) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *advance(Queue *self, PyObject *given) {
    double limit = PyFloat_AsDouble(given), time;
    if (limit == -1.0 && PyErr_Occurred()) return NULL;
    while (self->size && self->heap[0].time <= limit) {
        PyObject *work = queue_pop(self, &time);
        int stale = is_stale(self, work);
        if (!stale) self->now = limit = time;       /* what else is due at this time follows */
        int failed = stale < 0 || (!stale && make_ready(self, work) < 0);
        Py_DECREF(work);
        if (failed) return NULL;
    }
    if (self->now < limit && limit < INFINITY) self->now = limit;
    return PyFloat_FromDouble(limit);
}

static int is_running(PyObject *going) {
    PyObject *found = PyObject_GetAttr(going, word_running);
    int running = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return running;
}

static PyObject *drain(Queue *self, PyObject *going) {
    int plain = Py_IS_TYPE(self->ready, &ReadyType), running = 1;
    PyObject *ready = self->ready;
    Py_ssize_t left;
    while ((left = plain ? ((Ready *)ready)->size : PyObject_Size(ready)) > 0 && (running = is_running(going)) == 1) {
        PyObject *work = plain ? ready_pop((Ready *)ready) : PyObject_CallMethodNoArgs(ready, word_popleft), *done = NULL;
        if (work && is_work(work)) done = PyObject_Vectorcall(PyTuple_GET_ITEM(work, 0), &PyTuple_GET_ITEM(work, 1), 2, NULL);
        Py_XDECREF(work);
        if (done == NULL) return NULL;
        Py_DECREF(done);
    }
    if (left < 0 || running < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *timers(Queue *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "an action and a test are needed"); return NULL; }
    Py_XSETREF(self->timer, Py_NewRef(args[0]));
    Py_XSETREF(self->stale, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

static int queue_init(Queue *self, PyObject *args, PyObject *named) {
    static char *names[] = {"ready", NULL};
    PyObject *ready = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|O", names, &ready)) return -1;
    ready = ready ? Py_NewRef(ready) : PyObject_CallNoArgs((PyObject *)&ReadyType);
    Py_XSETREF(self->ready, ready);
    return ready ? 0 : -1;
}

static Py_ssize_t queue_length(Queue *self) { return self->size; }

static int queue_traverse(Queue *self, visitproc visit, void *arg) {
    Py_VISIT(self->ready); Py_VISIT(self->timer); Py_VISIT(self->stale);
    for (Py_ssize_t k = 0; k < self->size; k++) Py_VISIT(self->heap[k].work);
    return 0;
}
static int queue_clear(Queue *self) {
    Py_CLEAR(self->ready); Py_CLEAR(self->timer); Py_CLEAR(self->stale);
    while (self->size) Py_DECREF(self->heap[--self->size].work);
    return 0;
}
static void queue_dealloc(Queue *self) {
    PyObject_GC_UnTrack(self);
    queue_clear(self);
    free(self->heap);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef queue_methods[] = {
    {"timers", (PyCFunction)(void (*)(void))timers, METH_FASTCALL, NULL},
    {"at", (PyCFunction)(void (*)(void))at, METH_FASTCALL, NULL},
    {"advance", (PyCFunction)advance, METH_O, NULL},
    {"drain", (PyCFunction)drain, METH_O, NULL},
    {NULL},
};
static PyMemberDef queue_members[] = {
    {"now", T_DOUBLE, offsetof(Queue, now), 0, NULL},
    {"ready", T_OBJECT_EX, offsetof(Queue, ready), READONLY, NULL},
    {NULL},
};
static PySequenceMethods queue_sequence = {.sq_length = (lenfunc)queue_length};
static PyTypeObject QueueType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._events.EventQueue",
    .tp_basicsize = sizeof(Queue), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)queue_init, .tp_traverse = (traverseproc)queue_traverse, .tp_clear = (inquiry)queue_clear,
    .tp_dealloc = (destructor)queue_dealloc, .tp_methods = queue_methods, .tp_members = queue_members, .tp_as_sequence = &queue_sequence,
    .tp_doc = "Virtual time, and the work that is scheduled in it.",
};

/* Mailboxes: a list of messages, or of tasks that wait, for each topic */

static PyObject *take_first(PyObject *boxes, PyObject *topic) {     /* NULL without an error where there is none */
    PyObject *box = PyDict_CheckExact(boxes) ? PyDict_GetItemWithError(boxes, topic) : NULL;
    if (box == NULL) {
        if (!PyErr_Occurred() && !PyDict_CheckExact(boxes)) PyErr_SetString(PyExc_TypeError, "mailboxes are a dict");
        return NULL;
    }
    if (!PyList_CheckExact(box) || !PyList_GET_SIZE(box)) { PyErr_SetString(PyExc_TypeError, "a mailbox is a list with something in it"); return NULL; }
    PyObject *first = Py_NewRef(PyList_GET_ITEM(box, 0));
    int failed = PyList_GET_SIZE(box) == 1 ? PyDict_DelItem(boxes, topic) : PyList_SetSlice(box, 0, 1, NULL);
    if (failed) Py_CLEAR(first);
    return first;
}

static int append_to(PyObject *boxes, PyObject *topic, PyObject *item) {
    if (!PyDict_CheckExact(boxes)) { PyErr_SetString(PyExc_TypeError, "mailboxes are a dict"); return -1; }
    PyObject *box = PyDict_GetItemWithError(boxes, topic);
    if (box) return PyList_Append(box, item);
    if (PyErr_Occurred() || (box = PyList_New(1)) == NULL) return -1;
    PyList_SET_ITEM(box, 0, Py_NewRef(item));
    int failed = PyDict_SetItem(boxes, topic, box);
    Py_DECREF(box);
    return failed;
}

/* What runs tasks */

typedef struct {
    PyObject_HEAD
    Queue *queue;
    PyObject *handlers, *over, *timer, *resume, *worked, *pending, *stopped, *grad_enabled, *set_grad;
    int direct;         /* nothing happens before a task is resumed */
} Runner;
static PyTypeObject RunnerType;

static int gradients(Runner *self) {
    PyObject *found = PyObject_CallNoArgs(self->grad_enabled);
    int enabled = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return enabled;
}

static int set_gradients(Runner *self, PyObject *enabled) {
    PyObject *done = PyObject_CallOneArg(self->set_grad, enabled);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int over(Runner *self, PyObject *task, PyObject *value, PyObject *error) {
    int enabled = gradients(self);
    if (enabled < 0 || (!enabled && set_gradients(self, Py_True) < 0)) return -1;
    PyObject *done = PyObject_CallFunctionObjArgs(self->over, task, value, error, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int failed_in(Runner *self, PyObject *task, PyObject *value) {      /* an error is set: the task is over, unless the error is not its own */
    if (PyErr_ExceptionMatches(self->stopped) || !(PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_SystemExit))) return -1;
    PyObject *type, *error, *trace, *coroutine = NULL, *closed = NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    coroutine = get(TASK, task, T_COROUTINE);
    if (coroutine) closed = PyObject_CallMethodNoArgs(coroutine, word_close);      /* still open where the runtime refused its effect */
    int result = closed ? over(self, task, value, error) : -1;
    Py_XDECREF(closed), Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    return result;
}

static PySendResult resume_step(PyObject *step, PyObject *value, PyObject **result) {
    if (PyCFunction_CheckExact(step)) {
        PyObject *coroutine = PyCFunction_GET_SELF(step);       /* of coroutine.send */
        if (coroutine && PyCoro_CheckExact(coroutine)) return PyIter_Send(coroutine, value, result);
    }
    *result = PyObject_CallOneArg(step, value);
    if (*result) return PYGEN_NEXT;
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return PYGEN_ERROR;
    PyObject *type, *stop, *trace;
    PyErr_Fetch(&type, &stop, &trace);
    PyErr_NormalizeException(&type, &stop, &trace);
    *result = PyObject_GetAttrString(stop, "value");
    Py_XDECREF(type), Py_XDECREF(stop), Py_XDECREF(trace);
    return *result ? PYGEN_RETURN : PYGEN_ERROR;
}

static int run_task(Runner *self, PyObject *task, PyObject *step, PyObject *value) {
    PyObject *given = Py_NewRef(value), *effect;
    while (1) {
        PySendResult how = resume_step(step, given, &effect);
        Py_DECREF(given);
        if (how == PYGEN_RETURN) {
            int result = over(self, task, effect, Py_None);
            Py_DECREF(effect);
            return result;
        }
        if (how == PYGEN_ERROR) return failed_in(self, task, value);
        PyObject *handler = PyDict_GetItemWithError(self->handlers, (PyObject *)Py_TYPE(effect)), *both[] = {task, effect};
        if (handler == NULL && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, (PyObject *)Py_TYPE(effect));
        given = handler ? PyObject_Vectorcall(handler, both, 2, NULL) : NULL;
        if (given == self->pending) break;
        Py_DECREF(effect);
        if (given == NULL) return failed_in(self, task, value);
    }
    Py_DECREF(given);
    if (put(TASK, task, T_WAITING, effect) < 0) return -1;
    int enabled = gradients(self);
    if (enabled) return enabled < 0 ? -1 : 0;
    return put(TASK, task, T_GRAD, Py_NewRef(Py_False)) < 0 ? -1 : set_gradients(self, Py_True);
}

static int run_now(Runner *self, PyObject *task, PyObject *value) {
    PyObject *actor = get(TASK, task, T_ACTOR), *grad, *step;
    double held;
    if (actor == NULL || get_double(ACTOR, actor, A_HELD_UNTIL, &held) < 0) return -1;
    if (held > self->queue->now) {
        PyObject *ended = get(ACTOR, actor, A_ENDED);
        if (ended == NULL) return -1;
        return ended == Py_True ? 0 : schedule(self->queue, held, self->resume, task, value);
    }
    if ((grad = get(TASK, task, T_GRAD)) == NULL || (step = get(TASK, task, T_STEP)) == NULL) return -1;
    if (grad != Py_None && (set_gradients(self, grad) < 0 || put(TASK, task, T_GRAD, Py_NewRef(Py_None)) < 0)) return -1;
    Py_INCREF(step);
    int result = run_task(self, task, step, value);
    Py_DECREF(step);
    return result;
}

static PyObject *wake(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a task and a value are needed"); return NULL; }
    if (run_now(self, args[0], args[1]) < 0) return NULL;
    Py_RETURN_NONE;
}

static int resume(Runner *self, PyObject *task, PyObject *value) {
    if (self->direct) return run_now(self, task, value);
    PyObject *done = PyObject_CallFunctionObjArgs(self->resume, task, value, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *receive(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a task and an effect are needed"); return NULL; }
    PyObject *task = args[0], *effect = args[1], *actor = get(TASK, task, T_ACTOR), *topic = get(RECEIVE, effect, R_TOPIC);
    PyObject *mail = actor ? get(ACTOR, actor, A_MAIL) : NULL, *delivery = topic && mail ? take_first(mail, topic) : NULL;
    if (delivery || PyErr_Occurred()) return delivery;
    PyObject *timeout = get(RECEIVE, effect, R_TIMEOUT), *waiters = get(ACTOR, actor, A_WAITERS), *serial = get(TASK, task, T_SERIAL);
    if (timeout == NULL || waiters == NULL || serial == NULL) return NULL;
    if (timeout != Py_None) {
        double seconds = PyFloat_AsDouble(timeout);
        if (seconds == -1.0 && PyErr_Occurred()) return NULL;
        if (seconds <= 0) Py_RETURN_NONE;
        if (schedule(self->queue, self->queue->now + seconds, self->timer, task, serial) < 0) return NULL;
    }
    return append_to(waiters, topic, task) < 0 ? NULL : Py_NewRef(self->pending);
}

static PyObject *sleep_(Runner *self, PyObject *const *args, Py_ssize_t count) {
    double seconds;
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a task and an effect are needed"); return NULL; }
    if (get_double(SLEEP, args[1], Z_SECONDS, &seconds) < 0 ||
        schedule(self->queue, self->queue->now + seconds, self->resume, args[0], Py_None) < 0)
        return NULL;
    return Py_NewRef(self->pending);
}

/* What devices do */

static int charge_device(Runner *self, PyObject *actor, double seconds, PyObject *work) {
    Queue *queue = self->queue;
    double free_at;
    if (seconds <= 0) return make_ready(queue, work);
    PyObject *stalled = get(ACTOR, actor, A_STALLED), *whose;
    if (stalled == NULL || get_double(ACTOR, actor, A_FREE_AT, &free_at) < 0) return -1;
    free_at = (queue->now > free_at ? queue->now : free_at) + seconds;
    if (put(ACTOR, actor, A_FREE_AT, PyFloat_FromDouble(free_at)) < 0 || (whose = PyTuple_Pack(2, actor, stalled)) == NULL) return -1;
    int failed = schedule(queue, free_at, self->worked, whose, work) < 0;
    Py_DECREF(whose);
    return failed ? -1 : 0;
}

static PyObject *charge(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) { PyErr_SetString(PyExc_TypeError, "an actor, seconds and work are needed"); return NULL; }
    double seconds = PyFloat_AsDouble(args[1]);
    if ((seconds == -1.0 && PyErr_Occurred()) || !is_work(args[2]) || charge_device(self, args[0], seconds, args[2]) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *worked(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != 2 || !is_work(args[1])) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an actor with the seconds of its stalls, and work, are needed");
        return NULL;
    }
    PyObject *actor = PyTuple_GET_ITEM(args[0], 0), *work = args[1], *whose, *since = get(ACTOR, actor, A_STALLED);
    double before = PyFloat_AsDouble(PyTuple_GET_ITEM(args[0], 1)), stalled;
    if (since == NULL || PyErr_Occurred() || get_double(ACTOR, actor, A_STALLED, &stalled) < 0) return NULL;
    if (!(stalled > before)) return PyObject_Vectorcall(PyTuple_GET_ITEM(work, 0), &PyTuple_GET_ITEM(work, 1), 2, NULL);
    if ((whose = PyTuple_Pack(2, actor, since)) == NULL) return NULL;
    int failed = schedule(self->queue, self->queue->now + stalled - before, self->worked, whose, work) < 0;
    Py_DECREF(whose);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static int ask(PyObject *timing, PyObject *name, PyObject *given, PyObject *more, double *seconds) {    /* `more` may be NULL */
    PyObject *all[] = {timing, given, more}, *found = PyObject_VectorcallMethod(name, all, more ? 3 : 2, NULL);
    if (found == NULL) return -1;
    *seconds = PyFloat_AsDouble(found);
    Py_DECREF(found);
    return *seconds == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static int work_seconds(PyObject *timing, PyObject *effect, double *seconds) {
    PyObject *flops = get(COMPUTE, effect, W_FLOPS), *contributions = get(COMPUTE, effect, W_CONTRIBUTIONS), *step = get(COMPUTE, effect, W_STEP);
    double counted, merging = 0.0;
    if (flops == NULL || contributions == NULL || step == NULL || get_double(COMPUTE, effect, W_FLOPS, &counted) < 0) return -1;
    if (step == Py_True) {
        PyObject *none = PyLong_FromLong(0);
        int failed = none == NULL || ask(timing, word_step_seconds, flops, none, seconds) < 0;
        Py_XDECREF(none);
        return failed ? -1 : 0;
    }
    *seconds = 0.0;
    if ((counted > 0 && ask(timing, word_seconds, flops, NULL, seconds) < 0) || ask(timing, word_merge_seconds, contributions, NULL, &merging) < 0)
        return -1;
    *seconds += merging;
    return 0;
}

static PyObject *compute(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a task and an effect are needed"); return NULL; }
    PyObject *actor = get(TASK, args[0], T_ACTOR), *timing = actor ? get(ACTOR, actor, A_TIMING) : NULL, *work;
    double seconds;
    if (timing == NULL || work_seconds(timing, args[1], &seconds) < 0) return NULL;
    if (seconds <= 0) Py_RETURN_NONE;
    if ((work = PyTuple_Pack(3, self->resume, args[0], Py_None)) == NULL) return NULL;
    int failed = charge_device(self, actor, seconds, work) < 0;
    Py_DECREF(work);
    return failed ? NULL : Py_NewRef(self->pending);
}

static int hand_to(Runner *self, PyObject *receiver, PyObject *delivery) {
    PyObject *ended = get(ACTOR, receiver, A_ENDED), *message = get(DELIVERY, delivery, D_MESSAGE);
    PyObject *topic = message ? get(MESSAGE, message, M_TOPIC) : NULL, *waiters = get(ACTOR, receiver, A_WAITERS);
    if (ended == NULL || topic == NULL || waiters == NULL) return -1;
    if (ended == Py_True) return 0;
    PyObject *task = take_first(waiters, topic), *one;
    if (task == NULL) {
        PyObject *mail = PyErr_Occurred() ? NULL : get(ACTOR, receiver, A_MAIL);
        return mail ? append_to(mail, topic, delivery) : -1;
    }
    int failed = (one = PyLong_FromLong(1)) == NULL || add(TASK, task, T_SERIAL, one) < 0 || resume(self, task, delivery) < 0;
    Py_XDECREF(one);
    Py_DECREF(task);
    return failed ? -1 : 0;
}

static PyObject *deliver(Runner *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "an actor and a delivery are needed"); return NULL; }
    if (hand_to(self, args[0], args[1]) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *runner_get_resume(Runner *self, void *none) { return Py_NewRef(self->resume); }

static int runner_set_resume(Runner *self, PyObject *value, void *none) {
    if (value == NULL) { PyErr_SetString(PyExc_AttributeError, "it cannot be deleted"); return -1; }
    self->direct = PyCFunction_CheckExact(value) && PyCFunction_GET_SELF(value) == (PyObject *)self;
    Py_XSETREF(self->resume, Py_NewRef(value));
    return 0;
}

static int runner_init(Runner *self, PyObject *args, PyObject *named) {
    static char *names[] = {"queue", "handlers", "over", "timer", "pending", "stopped", "grad_enabled", "set_grad", NULL};
    if (self->queue) { PyErr_SetString(PyExc_ValueError, "it is made once"); return -1; }
    PyObject *queue, *given[7];
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O!OOOOOO", names, &QueueType, &queue, &PyDict_Type, &given[0], &given[1], &given[2],
                                     &given[3], &given[4], &given[5], &given[6]))
        return -1;
    self->handlers = Py_NewRef(given[0]), self->over = Py_NewRef(given[1]), self->timer = Py_NewRef(given[2]);
    self->pending = Py_NewRef(given[3]), self->stopped = Py_NewRef(given[4]);
    self->grad_enabled = Py_NewRef(given[5]), self->set_grad = Py_NewRef(given[6]);
    self->queue = (Queue *)Py_NewRef(queue);
    PyObject *own = PyObject_GetAttrString((PyObject *)self, "wake");
    self->worked = PyObject_GetAttrString((PyObject *)self, "worked");
    int failed = own == NULL || self->worked == NULL || runner_set_resume(self, own, NULL) < 0;
    Py_XDECREF(own);
    return failed ? -1 : 0;
}

static int runner_traverse(Runner *self, visitproc visit, void *arg) {
    Py_VISIT((PyObject *)self->queue); Py_VISIT(self->handlers); Py_VISIT(self->over); Py_VISIT(self->timer); Py_VISIT(self->resume); Py_VISIT(self->worked);
    Py_VISIT(self->pending); Py_VISIT(self->stopped); Py_VISIT(self->grad_enabled); Py_VISIT(self->set_grad);
    return 0;
}
static int runner_clear(Runner *self) {
    Py_CLEAR(self->queue); Py_CLEAR(self->handlers); Py_CLEAR(self->over); Py_CLEAR(self->timer); Py_CLEAR(self->resume); Py_CLEAR(self->worked);
    Py_CLEAR(self->pending); Py_CLEAR(self->stopped); Py_CLEAR(self->grad_enabled); Py_CLEAR(self->set_grad);
    return 0;
}
static void runner_dealloc(Runner *self) {
    PyObject_GC_UnTrack(self);
    runner_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef runner_methods[] = {
    {"wake", (PyCFunction)(void (*)(void))wake, METH_FASTCALL, NULL},
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, NULL},
    {"sleep", (PyCFunction)(void (*)(void))sleep_, METH_FASTCALL, NULL},
    {"compute", (PyCFunction)(void (*)(void))compute, METH_FASTCALL, NULL},
    {"charge", (PyCFunction)(void (*)(void))charge, METH_FASTCALL, NULL},
    {"worked", (PyCFunction)(void (*)(void))worked, METH_FASTCALL, NULL},
    {"deliver", (PyCFunction)(void (*)(void))deliver, METH_FASTCALL, NULL},
    {NULL},
};
static PyGetSetDef runner_properties[] = {{"resume", (getter)runner_get_resume, (setter)runner_set_resume, NULL, NULL}, {NULL}};
static PyTypeObject RunnerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._events.TaskRunner",
    .tp_basicsize = sizeof(Runner), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)runner_init, .tp_traverse = (traverseproc)runner_traverse, .tp_clear = (inquiry)runner_clear,
    .tp_dealloc = (destructor)runner_dealloc, .tp_methods = runner_methods, .tp_getset = runner_properties,
    .tp_doc = "Runs tasks until they wait or end.",
};

/* The post */

typedef struct {
    PyObject_HEAD
    Queue *queue;
    Runner *runner;
    PyObject *start, *open, *hand_over, *sent, *noted, *late, *close, *arrive, *measured;
    long long nbytes, bytes_sent, messages_sent, bytes_between_sites;
    PyObject *size;     /* the bytes of `measured` */
    char crowded;
} Post;

static PyObject *delivery_of(PyObject *sender, PyObject *message) {
    PyObject *name = get(ACTOR, sender, A_NAME), *made = name && kinds[DELIVERY] ? kinds[DELIVERY]->tp_alloc(kinds[DELIVERY], 0) : NULL;
    if (made == NULL) return NULL;
    *(PyObject **)((char *)made + offsets[DELIVERY][D_SENDER]) = Py_NewRef(name);
    *(PyObject **)((char *)made + offsets[DELIVERY][D_MESSAGE]) = Py_NewRef(message);
    return made;
}

static int text_bytes(PyObject *text, long long *total) {
    Py_ssize_t size = 0;
    if (text == NULL || PyUnicode_AsUTF8AndSize(text, &size) == NULL) return -1;
    *total += size;
    return 0;
}

static long long figure_of(PyObject *tensor, PyObject *name) {     /* -1 and an error */
    PyObject *found = PyObject_CallMethodNoArgs(tensor, name);
    long long value = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(found);
    return value;
}

static long long message_bytes(PyObject *message) {        /* as in message.py; -1 and an error */
    PyObject *numbers = get(MESSAGE, message, M_NUMBERS), *tensors = get(MESSAGE, message, M_TENSORS);
    long long total = HEADER_BYTES;
    if (numbers == NULL || tensors == NULL || text_bytes(get(MESSAGE, message, M_TOPIC), &total) < 0 || text_bytes(get(MESSAGE, message, M_TEXT), &total) < 0)
        return -1;
    Py_ssize_t count = PyObject_Size(numbers);
    PyObject *all = count < 0 ? NULL : PySequence_Fast(tensors, "tensors are a sequence");
    if (all == NULL) return -1;
    total += NUMBER_BYTES * (long long)count;
    for (Py_ssize_t k = 0; total >= 0 && k < PySequence_Fast_GET_SIZE(all); k++) {
        PyObject *tensor = PySequence_Fast_GET_ITEM(all, k);
        long long places = figure_of(tensor, word_dim), numel = places < 0 ? -1 : figure_of(tensor, word_numel);
        long long each = numel < 0 ? -1 : figure_of(tensor, word_element_size);
        total = each < 0 ? -1 : total + TENSOR_HEADER_BYTES + DIMENSION_BYTES * places + numel * each;
    }
    Py_DECREF(all);
    return total;
}

static PyObject *wire_bytes(PyObject *module, PyObject *message) {
    long long total = message_bytes(message);
    return total < 0 ? NULL : PyLong_FromLongLong(total);
}

static int measure(Post *self, PyObject *message) {     /* a server sends the same message to a thousand workers */
    if (message == self->measured) return 0;
    long long nbytes = message_bytes(message);
    PyObject *size = nbytes < 0 ? NULL : PyLong_FromLongLong(nbytes);
    if (size == NULL) return -1;
    Py_XSETREF(self->size, size);
    Py_XSETREF(self->measured, Py_NewRef(message));
    self->nbytes = nbytes;
    return 0;
}

static int is_lost(PyObject *channel, PyObject *message) {
    PyObject *loses = get(CHANNEL, channel, C_LOSES), *topic = get(MESSAGE, message, M_TOPIC);
    if (loses == NULL || topic == NULL) return -1;
    if (loses == Py_None) return 0;
    PyObject *found = PyObject_CallOneArg(loses, topic);
    int lost = found ? PyObject_IsTrue(found) : -1;
    Py_XDECREF(found);
    return lost;
}

static int count_sent(Post *self, PyObject *channel, PyObject *actor) {
    PyObject *one = PyLong_FromLong(1), *crosses = get(CHANNEL, channel, C_CROSSES);
    int failed = one == NULL || crosses == NULL || add(ACTOR, actor, A_BYTES_SENT, self->size) < 0 || add(ACTOR, actor, A_MESSAGES_SENT, one) < 0 ||
                 add(CHANNEL, channel, C_NBYTES, self->size) < 0 || add(CHANNEL, channel, C_MESSAGES, one) < 0;
    self->bytes_sent += self->nbytes, self->messages_sent++;
    if (crosses == Py_True) self->bytes_between_sites += self->nbytes;
    Py_XDECREF(one);
    return failed ? -1 : 0;
}

static int put_on_line(Post *self, PyObject *channel, PyObject *actor, PyObject *message) {
    PyObject *line = get(CHANNEL, channel, C_LINE);
    if (line == NULL || !PyList_CheckExact(line)) { if (line) PyErr_SetString(PyExc_TypeError, "a line is a list"); return -1; }
    if (!PyList_GET_SIZE(line) && put(CHANNEL, channel, C_SINCE, PyFloat_FromDouble(self->queue->now)) < 0) return -1;
    int lost = is_lost(channel, message);
    PyObject *last = lost < 0 ? NULL : lost ? Py_NewRef(Py_None) : delivery_of(actor, message);
    int failed = last == NULL || PyList_Append(line, last) < 0;
    Py_XDECREF(last);
    return failed ? -1 : 0;
}

static int carry(Post *self, PyObject *channel, PyObject *actor) {
    if (self->start == Py_None) return schedule(self->queue, self->queue->now, self->arrive, channel, Py_None);
    PyObject *receiver = get(CHANNEL, channel, C_RECEIVER), *from = get(ACTOR, actor, A_NAME), *to = receiver ? get(ACTOR, receiver, A_NAME) : NULL;
    PyObject *now = from && to ? PyFloat_FromDouble(self->queue->now) : NULL, *size = Py_NewRef(self->size), *done = NULL;
    if (now) {
        PyObject *given[] = {now, from, to, size, channel};
        done = PyObject_Vectorcall(self->start, given, 5, NULL);
        Py_DECREF(now);
    }
    Py_DECREF(size);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int send_on(Post *self, PyObject *channel, PyObject *message) {
    PyObject *actor = get(CHANNEL, channel, C_SENDER);
    if (actor == NULL || measure(self, message) < 0 || count_sent(self, channel, actor) < 0 || put_on_line(self, channel, actor, message) < 0) return -1;
    if (self->sent != Py_None) {
        PyObject *done = PyObject_CallFunctionObjArgs(self->sent, channel, message, self->size, NULL);
        Py_XDECREF(done);
        if (done == NULL) return -1;
    }
    return carry(self, channel, actor);
}

static PyObject *dispatch(Post *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a channel and a message are needed"); return NULL; }
    if (send_on(self, args[0], args[1]) < 0) return NULL;
    Py_RETURN_NONE;
}

static int hand_aside(Post *self, PyObject *actor, PyObject *to, PyObject *message) {      /* it is not counted, and takes no time */
    PyObject *delivery = delivery_of(actor, message), *work = delivery ? PyTuple_Pack(3, self->hand_over, to, delivery) : NULL;
    int failed = work == NULL || make_ready(self->queue, work) < 0;
    Py_XDECREF(delivery), Py_XDECREF(work);
    return failed ? -1 : 0;
}

static PyObject *send(Post *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a task and an effect are needed"); return NULL; }
    PyObject *actor = get(TASK, args[0], T_ACTOR), *message = get(SEND, args[1], S_MESSAGE), *to = get(SEND, args[1], S_TO);
    PyObject *topic = message ? get(MESSAGE, message, M_TOPIC) : NULL, *channels = actor ? get(ACTOR, actor, A_CHANNELS) : NULL;
    if (to == NULL || topic == NULL || channels == NULL) return NULL;
    if (!PyUnicode_Check(topic) || !PyDict_CheckExact(channels)) { PyErr_SetString(PyExc_TypeError, "a topic is a text, and channels are a dict"); return NULL; }
    int failed;
    if (PyUnicode_GET_LENGTH(topic) && PyUnicode_READ_CHAR(topic, 0) == '~') {
        failed = hand_aside(self, actor, to, message) < 0;
    } else {
        PyObject *channel = PyDict_GetItemWithError(channels, to);
        if (channel) Py_INCREF(channel);
        else if (!PyErr_Occurred()) channel = PyObject_CallFunctionObjArgs(self->open, actor, to, NULL);
        failed = channel == NULL || send_on(self, channel, message) < 0;
        Py_XDECREF(channel);
    }
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static int call_hook(PyObject *hook, PyObject *channel, PyObject *delivery) {
    PyObject *done = PyObject_CallFunctionObjArgs(hook, channel, delivery, NULL);      /* up to the first NULL */
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int arrived(Post *self, PyObject *channel, PyObject *line, PyObject *delivery) {
    PyObject *left = get(CHANNEL, channel, C_LEFT), *fates = get(CHANNEL, channel, C_FATES), *loses = get(CHANNEL, channel, C_LOSES);
    PyObject *receiver = get(CHANNEL, channel, C_RECEIVER);
    double since, busy;
    if (left == NULL || fates == NULL || loses == NULL || receiver == NULL) return -1;
    if (!PyList_GET_SIZE(line)) {
        if (get_double(CHANNEL, channel, C_SINCE, &since) < 0 || get_double(CHANNEL, channel, C_BUSY, &busy) < 0 ||
            put(CHANNEL, channel, C_BUSY, PyFloat_FromDouble(busy + (self->queue->now - since))) < 0)
            return -1;
    }
    if (PyList_CheckExact(left) && PyList_GET_SIZE(left) && call_hook(self->noted, channel, delivery) < 0) return -1;
    if (fates != Py_None) return call_hook(self->late, channel, delivery);
    if (self->crowded && !PyList_GET_SIZE(line) && loses == Py_None && call_hook(self->close, channel, NULL) < 0) return -1;
    return delivery == Py_None ? 0 : hand_to(self->runner, receiver, delivery);
}

static PyObject *arrive(Post *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "a channel and nothing more are needed"); return NULL; }
    PyObject *line = get(CHANNEL, args[0], C_LINE);
    if (line == NULL) return NULL;
    if (!PyList_CheckExact(line) || !PyList_GET_SIZE(line)) { PyErr_SetString(PyExc_IndexError, "nothing is on the line"); return NULL; }
    PyObject *delivery = Py_NewRef(PyList_GET_ITEM(line, 0));
    Py_INCREF(line);
    int failed = PyList_SetSlice(line, 0, 1, NULL) < 0 || arrived(self, args[0], line, delivery) < 0;
    Py_DECREF(line), Py_DECREF(delivery);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static int post_init(Post *self, PyObject *args, PyObject *named) {
    static char *names[] = {"queue", "runner", "start", "open", "hand_over", "sent", "noted", "late", "close", NULL};
    PyObject *queue, *runner, *given[7];
    if (self->queue) { PyErr_SetString(PyExc_ValueError, "it is made once"); return -1; }
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O!OOOOOOO", names, &QueueType, &queue, &RunnerType, &runner, &given[0], &given[1], &given[2],
                                     &given[3], &given[4], &given[5], &given[6]))
        return -1;
    self->start = Py_NewRef(given[0]), self->open = Py_NewRef(given[1]), self->hand_over = Py_NewRef(given[2]), self->sent = Py_NewRef(given[3]);
    self->noted = Py_NewRef(given[4]), self->late = Py_NewRef(given[5]), self->close = Py_NewRef(given[6]);
    self->queue = (Queue *)Py_NewRef(queue), self->runner = (Runner *)Py_NewRef(runner);
    self->arrive = PyObject_GetAttrString((PyObject *)self, "arrive");
    return self->arrive ? 0 : -1;
}

static int post_traverse(Post *self, visitproc visit, void *arg) {
    Py_VISIT((PyObject *)self->queue); Py_VISIT((PyObject *)self->runner); Py_VISIT(self->start); Py_VISIT(self->open);
    Py_VISIT(self->hand_over); Py_VISIT(self->sent); Py_VISIT(self->noted); Py_VISIT(self->late); Py_VISIT(self->close);
    Py_VISIT(self->arrive); Py_VISIT(self->measured);
    return 0;
}
static int post_clear(Post *self) {
    Py_CLEAR(self->queue); Py_CLEAR(self->runner); Py_CLEAR(self->start); Py_CLEAR(self->open);
    Py_CLEAR(self->hand_over); Py_CLEAR(self->sent); Py_CLEAR(self->noted); Py_CLEAR(self->late); Py_CLEAR(self->close);
    Py_CLEAR(self->arrive); Py_CLEAR(self->measured); Py_CLEAR(self->size);
    return 0;
}
static void post_dealloc(Post *self) {
    PyObject_GC_UnTrack(self);
    post_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef post_methods[] = {
    {"send", (PyCFunction)(void (*)(void))send, METH_FASTCALL, NULL},
    {"dispatch", (PyCFunction)(void (*)(void))dispatch, METH_FASTCALL, NULL},
    {"arrive", (PyCFunction)(void (*)(void))arrive, METH_FASTCALL, NULL},
    {NULL},
};
static PyMemberDef post_members[] = {
    {"bytes_sent", T_LONGLONG, offsetof(Post, bytes_sent), 0, NULL},
    {"messages_sent", T_LONGLONG, offsetof(Post, messages_sent), 0, NULL},
    {"bytes_between_sites", T_LONGLONG, offsetof(Post, bytes_between_sites), 0, NULL},
    {"crowded", T_BOOL, offsetof(Post, crowded), 0, NULL},
    {NULL},
};
static PyTypeObject PostType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._events.Post",
    .tp_basicsize = sizeof(Post), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)post_init, .tp_traverse = (traverseproc)post_traverse, .tp_clear = (inquiry)post_clear,
    .tp_dealloc = (destructor)post_dealloc, .tp_methods = post_methods, .tp_members = post_members,
    .tp_doc = "Sends messages and delivers them.",
};

static PyMethodDef functions[] = {{"bind_classes", (PyCFunction)bind_classes, METH_O, NULL}, {"wire_bytes", (PyCFunction)wire_bytes, METH_O, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_events", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__events(void) {
    struct { PyObject **at; const char *text; } words[] = {
        {&word_append, "append"}, {&word_popleft, "popleft"}, {&word_running, "running"}, {&word_close, "close"},
        {&word_dim, "dim"}, {&word_numel, "numel"}, {&word_element_size, "element_size"},
        {&word_step_seconds, "step_seconds"}, {&word_seconds, "seconds"}, {&word_merge_seconds, "merge_seconds"},
    };
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if ((*words[k].at = PyUnicode_InternFromString(words[k].text)) == NULL) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &ReadyType) < 0 || PyModule_AddType(made, &QueueType) < 0 ||
        PyModule_AddType(made, &RunnerType) < 0 || PyModule_AddType(made, &PostType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
