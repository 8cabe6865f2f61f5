/* The flows that share links, their rates, their ends and deliveries: what `traffic.py`, `sharing.py`, `flow_group.py` and `filling.py` do,
   bit for bit.

   Every sum is taken in the order of the Python, so links keep their flows in the order in which these came, and groups have them in the
   same places. A connection that is on its links belongs to its `Traffic`, as does what is in the heap: the collector of cycles sees both. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <structmember.h>

#include "_heap.h"

#define PLACES 7            /* links on the longest path */
#define TOLERANCE 1e-12     /* as in filling.py */
#define TIDY 1024           /* as in sharing.py */
#define FIRST_ROOM 64

typedef struct Flow Flow;
typedef struct Group Group;
typedef struct Link Link;

typedef struct Node { Flow *flow; struct Node *next, *previous; } Node;     /* a flow among those of a link */

struct Link {
    PyObject_HEAD
    Py_ssize_t index;
    double capacity, left, offer, gone;
    Py_ssize_t count, unsettled, tight, leaving;
    long long mark;
    int full;
    Node *first, *last;
    Group *group;
};

typedef struct Waiting { double nbytes; PyObject *token; struct Waiting *next; } Waiting;    /* a message behind that which flows */

struct Flow {
    PyObject_HEAD
    PyObject *sender, *receiver, *token, *links;
    Waiting *waiting, *latest;
    long long key, generation, mark;
    double alone, latency, round_trip, remaining, rate, share, since;
    char busy, attached, watched;
    int cuts, places;
    Py_ssize_t slot;
    Group *group;
    Flow *next, *previous;      /* among those that are attached */
    Link *path[PLACES];
    Node nodes[PLACES];
};

struct Group {
    long long key, generation, changes;
    double since, end;
    Py_ssize_t size, room, references;      /* of the heap, of the list of changed ones, and one while it has flows */
    Flow **flows;
    double *remaining, *rates, *ends;
    int disturbed;
};

typedef struct { double time; long long key, generation; Flow *flow; Group *group; } End;
typedef struct { void **items; Py_ssize_t size, room; } List;

typedef struct { double time; long long key, number; PyObject *token; } Delivery;

typedef struct {
    PyObject_HEAD
    Py_ssize_t few;
    long long stamp, expected, groups_made, delivered;
    Py_ssize_t tidy_at;
    int changed;
    double time;
    List started, touched, groups;
    Flow *attached;
    End *ends;
    Py_ssize_t size, room;
    Delivery *deliveries;
    Py_ssize_t under_way, delivery_room;
    PyObject *fell_silent, *idle, *arrival;
} Traffic;

static PyTypeObject LinkType, FlowType;
static PyObject *word_code, *word_sending, *word_name, *word_watched;

static int grow(void **items, Py_ssize_t *room, size_t each) {
    Py_ssize_t more = *room ? 2 * *room : FIRST_ROOM;
    void *larger = realloc(*items, (size_t)more * each);
    if (larger == NULL) { PyErr_NoMemory(); return -1; }
    *items = larger, *room = more;
    return 0;
}

static int append(List *list, void *item) {
    if (list->size == list->room && grow((void **)&list->items, &list->room, sizeof(void *)) < 0) return -1;
    list->items[list->size++] = item;
    return 0;
}

/* Links and connections */

static int link_init(Link *self, PyObject *args, PyObject *named) {
    static char *names[] = {"index", "capacity", NULL};
    return PyArg_ParseTupleAndKeywords(args, named, "nd", names, &self->index, &self->capacity) ? 0 : -1;
}

static PyMemberDef link_members[] = {
    {"index", T_PYSSIZET, offsetof(Link, index), READONLY, NULL},
    {"capacity", T_DOUBLE, offsetof(Link, capacity), 0, NULL},
    {NULL},
};

static PyTypeObject LinkType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._traffic.SharedLink",
    .tp_basicsize = sizeof(Link), .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_init = (initproc)link_init,
    .tp_members = link_members, .tp_doc = "A capacity in bytes per second, and the flows that share it.",
};

static int code_of(PyObject *endpoint, long long *code) {
    PyObject *value = PyObject_GetAttr(endpoint, word_code);
    if (value == NULL) return -1;
    *code = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *code == -1 && PyErr_Occurred() ? -1 : 0;
}

static int are_links(PyObject *path) {
    int fits = PyTuple_CheckExact(path) && PyTuple_GET_SIZE(path) <= PLACES;
    for (Py_ssize_t k = 0; fits && k < PyTuple_GET_SIZE(path); k++) fits = PyObject_TypeCheck(PyTuple_GET_ITEM(path, k), &LinkType);
    if (!fits) PyErr_SetString(PyExc_TypeError, "a path is a tuple of at most seven links");
    return fits;
}

static PyObject *alone_on(PyObject *module, PyObject *path) {       /* as in connection.py */
    if (!are_links(path)) return NULL;
    Py_ssize_t places = PyTuple_GET_SIZE(path);
    double least = INFINITY;
    for (Py_ssize_t k = 0; k < places; k++) {
        Py_ssize_t times = 0;
        for (Py_ssize_t other = 0; other < places; other++) times += PyTuple_GET_ITEM(path, other) == PyTuple_GET_ITEM(path, k);
        double rate = ((Link *)PyTuple_GET_ITEM(path, k))->capacity / (double)times;
        if (rate < least) least = rate;
    }
    return PyFloat_FromDouble(least);
}

static PyObject *make_flow(PyTypeObject *type, PyObject *const *args, size_t count, PyObject *names) {
    long long here, there;
    double figures[3];      /* alone, latency, round trip */
    if (PyVectorcall_NARGS(count) != 6 || names) {
        PyErr_SetString(PyExc_TypeError, "a connection is made of its sender, its receiver, its links, and three figures, in this order");
        return NULL;
    }
    if (!are_links(args[2]) || code_of(args[0], &here) < 0 || code_of(args[1], &there) < 0) return NULL;
    for (int k = 0; k < 3; k++)
        if ((figures[k] = PyFloat_AsDouble(args[3 + k])) == -1.0 && PyErr_Occurred()) return NULL;
    Flow *self = (Flow *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->alone = figures[0], self->latency = figures[1], self->round_trip = figures[2];
    self->places = (int)PyTuple_GET_SIZE(args[2]);
    for (int k = 0; k < self->places; k++) {
        self->path[k] = (Link *)PyTuple_GET_ITEM(args[2], k);
        self->nodes[k].flow = self;
    }
    self->sender = Py_NewRef(args[0]), self->receiver = Py_NewRef(args[1]), self->links = Py_NewRef(args[2]);
    self->token = Py_NewRef(Py_None);
    self->key = here << 32 | there;
    return (PyObject *)self;
}

static int flow_traverse(Flow *self, visitproc visit, void *arg) {
    Py_VISIT(self->sender); Py_VISIT(self->receiver); Py_VISIT(self->token); Py_VISIT(self->links);
    for (Waiting *each = self->waiting; each; each = each->next) Py_VISIT(each->token);
    return 0;
}

static int wait_behind(Flow *flow, double nbytes, PyObject *token) {
    Waiting *last = malloc(sizeof *last);
    if (last == NULL) { PyErr_NoMemory(); return -1; }
    *last = (Waiting){nbytes, Py_NewRef(token), NULL};
    if (flow->waiting) flow->latest->next = last; else flow->waiting = last;
    flow->latest = last;
    return 0;
}

static PyObject *take_waiting(Flow *flow, double *nbytes) {
    Waiting *first = flow->waiting;
    PyObject *token = first->token;
    *nbytes = first->nbytes, flow->waiting = first->next;
    free(first);
    return token;
}

static int flow_clear(Flow *self) {
    double nbytes;
    Py_CLEAR(self->sender); Py_CLEAR(self->receiver); Py_CLEAR(self->token);
    while (self->waiting) Py_DECREF(take_waiting(self, &nbytes));
    return 0;       /* the links stay: it may still be on them */
}
static void flow_dealloc(Flow *self) {
    PyObject_GC_UnTrack(self);
    flow_clear(self);
    Py_CLEAR(self->links);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

#define AT(field) offsetof(Flow, field)
static PyMemberDef flow_members[] = {
    {"sender", T_OBJECT_EX, AT(sender), READONLY, NULL},    {"receiver", T_OBJECT_EX, AT(receiver), READONLY, NULL},
    {"links", T_OBJECT_EX, AT(links), READONLY, NULL},      {"token", T_OBJECT_EX, AT(token), 0, NULL},
    {"key", T_LONGLONG, AT(key), READONLY, NULL},
    {"alone", T_DOUBLE, AT(alone), 0, NULL},                {"latency", T_DOUBLE, AT(latency), READONLY, NULL},
    {"round_trip", T_DOUBLE, AT(round_trip), READONLY, NULL}, {"remaining", T_DOUBLE, AT(remaining), 0, NULL},
    {"rate", T_DOUBLE, AT(rate), READONLY, NULL},           {"busy", T_BOOL, AT(busy), 0, NULL},
    {"attached", T_BOOL, AT(attached), READONLY, NULL},     {"watched", T_BOOL, AT(watched), 0, NULL},
    {"cuts", T_INT, AT(cuts), 0, NULL},                     {NULL},
};

static PyTypeObject FlowType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._traffic.Connection",
    .tp_basicsize = sizeof(Flow), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_vectorcall = (vectorcallfunc)make_flow,
    .tp_traverse = (traverseproc)flow_traverse, .tp_clear = (inquiry)flow_clear,
    .tp_dealloc = (destructor)flow_dealloc, .tp_members = flow_members, .tp_doc = "The connection from one actor to another.",
};

static int seen_before(Flow *flow, int place) {     /* a shared medium is on the path twice */
    for (int k = 0; k < place; k++)
        if (flow->path[k] == flow->path[place]) return 1;
    return 0;
}

static void put_on(Flow *flow) {
    for (int k = 0; k < flow->places; k++) {
        if (seen_before(flow, k)) continue;
        Link *link = flow->path[k];
        Node *node = &flow->nodes[k];
        node->next = NULL, node->previous = link->last;
        if (link->last) link->last->next = node; else link->first = node;
        link->last = node;
        link->count++;
    }
}

static void take_off(Flow *flow) {
    for (int k = 0; k < flow->places; k++) {
        if (seen_before(flow, k)) continue;
        Link *link = flow->path[k];
        Node *node = &flow->nodes[k];
        if (node->previous) node->previous->next = node->next; else link->first = node->next;
        if (node->next) node->next->previous = node->previous; else link->last = node->previous;
        link->count--;
    }
}

/* Groups */

static void release(Group *group) {
    if (--group->references) return;
    free(group->flows), free(group->remaining), free(group->rates), free(group->ends), free(group);
}

static void settle(Group *group, double now) {
    if (now <= group->since) return;
    double passed = now - group->since;
    for (Py_ssize_t k = 0; k < group->size; k++) group->remaining[k] -= group->rates[k] * passed;
    group->since = now;
}

static int group_add(Group *group, Flow *flow, double now) {
    settle(group, now);
    if (group->size == group->room) {
        Py_ssize_t a = group->room, b = a, c = a;
        if (grow((void **)&group->remaining, &a, sizeof(double)) < 0 || grow((void **)&group->rates, &b, sizeof(double)) < 0 ||
            grow((void **)&group->ends, &c, sizeof(double)) < 0 || grow((void **)&group->flows, &group->room, sizeof(Flow *)) < 0)
            return -1;
    }
    if (!group->size) group->references++;
    flow->slot = group->size++;
    group->flows[flow->slot] = flow;
    group->remaining[flow->slot] = flow->remaining;
    group->rates[flow->slot] = 0.0;
    for (int k = 0; k < flow->places; k++) flow->path[k]->group = group;
    flow->group = group;
    return 0;
}

static void group_remove(Group *group, Flow *flow, double now) {
    settle(group, now);
    Py_ssize_t slot = flow->slot, last = --group->size;
    flow->remaining = group->remaining[slot];
    flow->since = now;
    flow->group = NULL;
    if (slot != last) {
        group->flows[slot] = group->flows[last], group->flows[slot]->slot = slot;
        group->remaining[slot] = group->remaining[last], group->rates[slot] = group->rates[last];
    }
    if (!last) release(group);
}

static int group_disband(Group *group, double now, List *freed) {
    settle(group, now);
    group->generation++;
    for (Py_ssize_t k = 0; k < group->size; k++) {
        Flow *flow = group->flows[k];
        flow->remaining = group->remaining[k], flow->rate = 0.0, flow->since = now, flow->group = NULL;
        for (int p = 0; p < flow->places; p++) flow->path[p]->group = NULL;
        if (append(freed, flow) < 0) return -1;
    }
    if (group->size) group->size = 0, release(group);
    return 0;
}

/* Filling, as in filling.py */

static int fill_few(Flow **flows, Py_ssize_t count) {
    if (count == 1) { flows[0]->share = flows[0]->alone; return 0; }
    List links = {0};
    Flow **growing = malloc((size_t)count * sizeof *growing);
    int failed = growing == NULL;
    for (Py_ssize_t k = 0; k < count && !failed; k++) {
        growing[k] = flows[k];
        for (int p = 0; p < flows[k]->places && !failed; p++) {
            Link *link = flows[k]->path[p];
            if (!link->unsettled) failed = append(&links, link) < 0, link->left = link->capacity;
            link->unsettled++;
        }
    }
    while (count && !failed) {
        double pace = INFINITY, limit;
        Py_ssize_t kept = 0;
        for (Py_ssize_t k = 0; k < links.size; k++) {
            Link *link = links.items[k];
            if (!link->unsettled) continue;
            links.items[kept++] = link;
            double offer = link->left / (double)link->unsettled;
            if (offer < pace) pace = offer;
        }
        links.size = kept;
        limit = pace * (1 + TOLERANCE);
        for (Py_ssize_t k = 0; k < links.size; k++) {
            Link *link = links.items[k];
            link->full = link->left / (double)link->unsettled <= limit;
        }
        kept = 0;
        for (Py_ssize_t k = 0; k < count; k++) {
            Flow *flow = growing[k];
            int full = 0;
            for (int p = 0; p < flow->places && !full; p++) full = flow->path[p]->full;
            if (!full) { growing[kept++] = flow; continue; }
            flow->share = pace;
            for (int p = 0; p < flow->places; p++) flow->path[p]->left -= pace, flow->path[p]->unsettled--;
        }
        if (kept == count) break;       /* capacities that are no numbers: Python would not end either */
        count = kept;
    }
    free(growing), free(links.items);
    if (failed && !PyErr_Occurred()) PyErr_NoMemory();
    return failed ? -1 : 0;
}

static int fill_many(Group *group) {
    List links = {0};
    Py_ssize_t count = group->size, kept;
    Flow **growing = malloc((size_t)count * sizeof *growing);
    if (growing == NULL) { PyErr_NoMemory(); return -1; }
    for (Py_ssize_t k = 0; k < count; k++) {
        growing[k] = group->flows[k];
        for (int p = 0; p < growing[k]->places; p++) {
            Link *link = growing[k]->path[p];
            if (!link->unsettled) {
                if (append(&links, link) < 0) { free(growing), free(links.items); return -1; }
                link->left = link->capacity;
            }
            link->unsettled++;
        }
    }
    while (count) {
        for (Py_ssize_t k = 0; k < links.size; k++) {
            Link *link = links.items[k];
            link->offer = link->left / (double)(link->unsettled > 1 ? link->unsettled : 1);
            link->tight = 0, link->gone = 0.0, link->leaving = 0;
        }
        for (Py_ssize_t k = 0; k < count; k++) {
            Flow *flow = growing[k];
            flow->share = INFINITY;
            for (int p = 0; p < flow->places; p++)
                if (flow->path[p]->offer < flow->share) flow->share = flow->path[p]->offer;
            for (int p = 0; p < flow->places; p++) flow->path[p]->tight += flow->path[p]->offer <= flow->share * (1 + TOLERANCE);
        }
        kept = 0;
        for (Py_ssize_t k = 0; k < count; k++) {
            Flow *flow = growing[k];
            int settled = 0;
            for (int p = 0; p < flow->places && !settled; p++) {
                Link *link = flow->path[p];
                settled = link->offer <= flow->share * (1 + TOLERANCE) && link->tight == link->unsettled;
            }
            if (!settled) { growing[kept++] = flow; continue; }
            group->rates[flow->slot] = flow->share;
            for (int p = 0; p < flow->places; p++) flow->path[p]->gone += flow->share, flow->path[p]->leaving++;
        }
        if (kept == count) break;
        count = kept;
        for (Py_ssize_t k = 0; k < links.size; k++) {
            Link *link = links.items[k];
            link->left -= link->gone, link->unsettled -= link->leaving;
        }
    }
    for (Py_ssize_t k = 0; k < links.size; k++) ((Link *)links.items[k])->unsettled = 0;
    free(growing), free(links.items);
    return 0;
}

/* The heap of ends */

static int before(const End *a, const End *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->key != b->key) return a->key < b->key;
    return a->generation < b->generation;
}

static int outdated(const End *end) { return end->generation != (end->flow ? end->flow->generation : end->group->generation); }

static void drop(End *end) {
    if (end->flow) Py_DECREF(end->flow); else release(end->group);
}

HEAP(ends, End, before)

static End pop(Traffic *self) {
    End first = self->ends[0];
    if (--self->size) self->ends[0] = self->ends[self->size], ends_sink(self->ends, self->size, 0);
    return first;
}

static int push(Traffic *self, End end) {
    if (self->size == self->room && grow((void **)&self->ends, &self->room, sizeof(End)) < 0) return -1;
    if (end.flow) Py_INCREF(end.flow); else end.group->references++;
    self->ends[self->size] = end;
    ends_rise(self->ends, self->size++);
    return 0;
}

static int expect(Traffic *self, Flow *flow, double now) {
    flow->since = now;
    flow->generation = ++self->expected;
    if (flow->rate == 0.0) { PyErr_SetString(PyExc_ZeroDivisionError, "float division by zero"); return -1; }
    return push(self, (End){now + flow->remaining / flow->rate, flow->key, flow->generation, flow, NULL});
}

/* Sharing */

static int disturb(Traffic *self, Group *group) {
    if (group->disturbed) return 0;
    if (append(&self->groups, group) < 0) return -1;
    group->disturbed = 1, group->references++, self->changed = 1;
    return 0;
}

static int touch(Traffic *self, Link *link) {
    if (append(&self->touched, link) < 0) return -1;
    Py_INCREF(link);
    self->changed = 1;
    return 0;
}

static int by_key(const void *a, const void *b) {
    const Flow *x = *(Flow *const *)a, *y = *(Flow *const *)b;
    return (x->key > y->key) - (x->key < y->key);
}

static int attach(Traffic *self, double now, List *seeds) {
    List started = self->started;
    int failed = 0;
    self->started = (List){0};
    if (started.size > 1) qsort(started.items, (size_t)started.size, sizeof(void *), by_key);
    for (Py_ssize_t k = 0; k < started.size; k++) {     /* the reference of the list becomes that of what is attached */
        Flow *flow = started.items[k];
        flow->since = now, flow->attached = 1;
        put_on(flow);
        flow->previous = NULL, flow->next = self->attached;
        if (self->attached) self->attached->previous = flow;
        self->attached = flow;
    }
    for (Py_ssize_t k = 0; k < started.size && !failed; k++) {
        Flow *flow = started.items[k];
        int shared = 0;
        for (int p = 0; p < flow->places && !shared; p++) shared = flow->path[p]->count > 1;
        if (shared) failed = append(seeds, flow) < 0;
        else flow->rate = flow->alone, failed = expect(self, flow, now) < 0;
    }
    free(started.items);
    return failed ? -1 : 0;
}

static int gather(Traffic *self, Flow *seed, List *flows, List *groups) {
    seed->mark = self->stamp;
    if (append(flows, seed) < 0) return -1;
    for (Py_ssize_t k = 0; k < flows->size; k++) {
        Flow *flow = flows->items[k];
        for (int p = 0; p < flow->places; p++) {
            Link *link = flow->path[p];
            if (link->group) {
                int known = 0;
                for (Py_ssize_t g = 0; g < groups->size && !known; g++) known = groups->items[g] == link->group;
                if (!known && append(groups, link->group) < 0) return -1;
            } else if (link->mark != self->stamp) {
                link->mark = self->stamp;
                for (Node *node = link->first; node; node = node->next)
                    if (node->flow->mark != self->stamp) {
                        node->flow->mark = self->stamp;
                        if (append(flows, node->flow) < 0) return -1;
                    }
            }
        }
    }
    return 0;
}

static int merge(Traffic *self, List *flows, List *groups, double now) {
    Group *group = groups->size ? groups->items[0] : NULL;
    for (Py_ssize_t g = 1; g < groups->size; g++)
        if (((Group *)groups->items[g])->size > group->size) group = groups->items[g];
    if (group == NULL) {
        group = calloc(1, sizeof *group);
        if (group == NULL) { PyErr_NoMemory(); return -1; }
        group->key = -++self->groups_made, group->since = now, group->end = INFINITY;
    }
    for (Py_ssize_t g = 0; g < groups->size; g++)
        if (groups->items[g] != group && group_disband(groups->items[g], now, flows) < 0) return -1;
    for (Py_ssize_t k = 0; k < flows->size; k++) {
        Flow *flow = flows->items[k];
        flow->remaining -= flow->rate * (now - flow->since);
        flow->generation++;
        if (group_add(group, flow, now) < 0) return -1;
    }
    return disturb(self, group);
}

static int share(Traffic *self, List *seeds, double now) {
    List flows = {0}, groups = {0};
    int failed = 0;
    self->stamp++;
    for (Py_ssize_t s = 0; s < seeds->size && !failed; s++) {
        Flow *seed = seeds->items[s];
        if (seed->mark == self->stamp || seed->group) continue;
        flows.size = groups.size = 0;
        failed = gather(self, seed, &flows, &groups) < 0;
        if (failed) break;
        if (groups.size || flows.size > self->few) { failed = merge(self, &flows, &groups, now) < 0; continue; }
        failed = fill_few((Flow **)flows.items, flows.size) < 0;
        for (Py_ssize_t k = 0; k < flows.size && !failed; k++) {
            Flow *flow = flows.items[k];
            if (flow->share == flow->rate) continue;
            flow->remaining -= flow->rate * (now - flow->since);
            flow->rate = flow->share;
            failed = expect(self, flow, now) < 0;
        }
    }
    free(flows.items), free(groups.items);
    return failed ? -1 : 0;
}

static int solve_groups(Traffic *self, double now) {
    int failed = 0;
    for (Py_ssize_t g = 0; g < self->groups.size; g++) {
        Group *group = self->groups.items[g];
        group->disturbed = 0;
        if (group->size && !failed) {
            settle(group, now);
            group->generation++, group->changes++;
            failed = fill_many(group) < 0;
            group->end = INFINITY;
            for (Py_ssize_t k = 0; k < group->size; k++) {
                group->ends[k] = now + group->remaining[k] / group->rates[k];
                if (group->ends[k] < group->end) group->end = group->ends[k];
            }
            failed = failed || push(self, (End){group->end, group->key, group->generation, NULL, group}) < 0;
        }
        release(group);
    }
    self->groups.size = 0;
    return failed ? -1 : 0;
}

static void tidy(Traffic *self) {      /* the heap is whole before anything is let go: that may run Python, and collect cycles */
    Py_ssize_t kept = 0, all = self->size;
    for (Py_ssize_t k = 0; k < all; k++) {
        if (outdated(&self->ends[k])) continue;
        End current = self->ends[k];
        self->ends[k] = self->ends[kept], self->ends[kept++] = current;
    }
    self->size = kept;
    for (Py_ssize_t k = kept / 2; k-- > 0;) ends_sink(self->ends, kept, k);
    self->tidy_at = TIDY + 2 * kept;
    for (Py_ssize_t k = kept; k < all; k++) drop(&self->ends[k]);
}

static int solve(Traffic *self, double now) {
    List seeds = {0};
    int failed = self->started.size && attach(self, now, &seeds) < 0;
    for (Py_ssize_t g = 0; g < self->groups.size && !failed; g++) {
        Group *group = self->groups.items[g];
        if (group->size <= self->few / 2 || group->changes > group->size + self->few) failed = group_disband(group, now, &seeds) < 0;
    }
    for (Py_ssize_t k = 0; k < self->touched.size; k++) {
        Link *link = self->touched.items[k];
        if (link->group == NULL)
            for (Node *node = link->first; node && !failed; node = node->next) failed = append(&seeds, node->flow) < 0;
        Py_DECREF(link);
    }
    self->touched.size = 0;
    failed = failed || (seeds.size && share(self, &seeds, now) < 0);
    free(seeds.items);
    if (failed || (self->groups.size && solve_groups(self, now) < 0)) return -1;
    self->changed = 0;
    if (self->size > self->tidy_at) tidy(self);
    return 0;
}

static double next_end(Traffic *self) {
    while (self->size && outdated(&self->ends[0])) { End end = pop(self); drop(&end); }
    return self->size ? self->ends[0].time : INFINITY;
}

static int take_ended(Traffic *self, double limit, List *found) {
    int failed = 0;
    while (self->size && self->ends[0].time <= limit && !failed) {
        End end = pop(self);
        if (!outdated(&end)) {
            if (end.flow) failed = append(found, end.flow) < 0;
            else
                for (Py_ssize_t k = 0; k < end.group->size && !failed; k++)
                    if (end.group->ends[k] <= limit) failed = append(found, end.group->flows[k]) < 0;
        }
        drop(&end);     /* what has ended is attached, and so kept */
    }
    if (found->size > 1) qsort(found->items, (size_t)found->size, sizeof(void *), by_key);
    return failed ? -1 : 0;
}

static int begin(Traffic *self, Flow *flow) {
    if (append(&self->started, flow) < 0) return -1;
    Py_INCREF(flow);
    self->changed = 1;
    return 0;
}

static int restart(Traffic *self, Flow *flow, double nbytes) {
    if (flow->group == NULL) {
        flow->remaining = nbytes;
        return expect(self, flow, self->time);
    }
    if (disturb(self, flow->group) < 0) return -1;
    settle(flow->group, self->time);
    flow->group->remaining[flow->slot] = nbytes;
    return 0;
}

static int detach(Traffic *self, Flow *flow) {      /* may drop the last reference to it */
    if (flow->group) {
        if (disturb(self, flow->group) < 0) return -1;
        group_remove(flow->group, flow, self->time);
    } else {
        flow->remaining -= flow->rate * (self->time - flow->since);
    }
    flow->rate = 0.0;
    flow->generation++;
    flow->attached = 0;
    take_off(flow);
    if (flow->previous) flow->previous->next = flow->next; else self->attached = flow->next;
    if (flow->next) flow->next->previous = flow->previous;
    int failed = 0;
    for (int k = 0; k < flow->places && !failed; k++) {
        Link *link = flow->path[k];
        if (!link->count) link->group = NULL;
        else if (link->group == NULL) failed = touch(self, link) < 0;
    }
    Py_DECREF(flow);
    return failed ? -1 : 0;
}

/* Deliveries */

static int comes_before(const Delivery *a, const Delivery *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->key != b->key) return a->key < b->key;
    return a->number < b->number;
}

HEAP(deliveries, Delivery, comes_before)

static int deliver(Traffic *self, Delivery last) {
    if (self->under_way == self->delivery_room && grow((void **)&self->deliveries, &self->delivery_room, sizeof(Delivery)) < 0) return -1;
    Py_INCREF(last.token);
    self->deliveries[self->under_way] = last;
    deliveries_rise(self->deliveries, self->under_way++);
    return 0;
}

static PyObject *delivered(Traffic *self) {
    PyObject *token = self->deliveries[0].token;
    if (--self->under_way) self->deliveries[0] = self->deliveries[self->under_way], deliveries_sink(self->deliveries, self->under_way, 0);
    return token;
}

static long count_sending(Traffic *self, Flow *flow, long more) {      /* how many connections of its sender are busy now; -1 and an error */
    PyObject *before = PyObject_GetAttr(flow->sender, word_sending);
    if (before == NULL) return -1;
    long count = PyLong_AsLong(before) + more;
    Py_DECREF(before);
    PyObject *now = PyErr_Occurred() ? NULL : PyLong_FromLong(count);
    int failed = now == NULL || PyObject_SetAttr(flow->sender, word_sending, now) < 0;
    Py_XDECREF(now);
    return failed ? -1 : count;
}

static int note_silence(Traffic *self, Flow *flow, PyObject *receiver) {        /* takes the reference to the receiver's name */
    PyObject *sender = PyObject_GetAttr(flow->sender, word_name);
    PyObject *way = sender && receiver ? PyTuple_Pack(2, sender, receiver) : NULL;
    int failed = way == NULL || PyList_Append(self->fell_silent, way) < 0;
    Py_XDECREF(sender), Py_XDECREF(receiver), Py_XDECREF(way);
    return failed ? -1 : 0;
}

static int fall_silent(Traffic *self, Flow *flow) {
    flow->busy = 0;
    Py_SETREF(flow->token, Py_NewRef(Py_None));
    long left = count_sending(self, flow, -1);
    if (left < 0) return -1;
    if (flow->watched) {
        flow->watched = 0;
        if (note_silence(self, flow, PyObject_GetAttr(flow->receiver, word_name)) < 0) return -1;
    }
    if (left) return 0;
    PyObject *watched = PyObject_GetAttr(flow->sender, word_watched);
    int noted = watched ? PyObject_IsTrue(watched) : -1;
    Py_XDECREF(watched);
    if (noted < 1) return noted;
    return PyObject_SetAttr(flow->sender, word_watched, Py_False) < 0 ? -1 : note_silence(self, flow, PyUnicode_FromString(""));
}

static int arrives(Traffic *self, Flow *flow, double *time) {
    if (self->arrival == Py_None) { *time = self->time + flow->latency; return 0; }
    PyObject *now = PyFloat_FromDouble(self->time), *found = NULL;
    if (now) found = PyObject_CallFunctionObjArgs(self->arrival, (PyObject *)flow, now, NULL);
    Py_XDECREF(now);
    if (found == NULL) return -1;
    *time = PyFloat_AsDouble(found);
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

static int finish(Traffic *self, Flow *flow) {
    double time, nbytes;
    self->delivered++;
    if (arrives(self, flow, &time) < 0 || deliver(self, (Delivery){time, flow->key, self->delivered, flow->token}) < 0) return -1;
    if (flow->waiting) {
        PyObject *token = take_waiting(flow, &nbytes);
        Py_SETREF(flow->token, token);
        return restart(self, flow, nbytes);
    }
    if (fall_silent(self, flow) < 0 || PyList_Append(self->idle, (PyObject *)flow) < 0) return -1;
    return detach(self, flow);
}

/* The calls of Python */

static Flow *flow_of(PyObject *given) {
    if (PyObject_TypeCheck(given, &FlowType)) return (Flow *)given;
    PyErr_SetString(PyExc_TypeError, "a connection of this module is needed");
    return NULL;
}

static PyObject *start(Traffic *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) { PyErr_SetString(PyExc_TypeError, "a connection, bytes and a token are needed"); return NULL; }
    Flow *flow = flow_of(args[0]);
    if (flow == NULL) return NULL;
    double nbytes = PyFloat_AsDouble(args[1]);
    if (nbytes == -1.0 && PyErr_Occurred()) return NULL;
    if (flow->busy) {
        if (wait_behind(flow, nbytes, args[2]) < 0) return NULL;
        Py_RETURN_FALSE;
    }
    if (count_sending(self, flow, 1) < 0) return NULL;
    flow->busy = 1, flow->remaining = nbytes;
    Py_SETREF(flow->token, Py_NewRef(args[2]));
    if (flow->cuts) Py_RETURN_FALSE;
    if (begin(self, flow) < 0) return NULL;
    Py_RETURN_TRUE;
}

static PyObject *hold(Traffic *self, PyObject *given) {
    Flow *flow = flow_of(given);
    if (flow == NULL) return NULL;
    int failed = 0;
    if (flow->attached && flow->cuts) failed = detach(self, flow) < 0;
    else if (flow->busy && !flow->attached && !flow->cuts) failed = begin(self, flow) < 0;
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *resize(Traffic *self, PyObject *given) {
    if (!PyObject_TypeCheck(given, &LinkType)) { PyErr_SetString(PyExc_TypeError, "a link of this module is needed"); return NULL; }
    Link *link = (Link *)given;
    if ((link->group ? disturb(self, link->group) : touch(self, link)) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *next_time(Traffic *self, PyObject *none) {
    if (self->changed && solve(self, self->time) < 0) return NULL;
    double end = next_end(self);
    return PyFloat_FromDouble(self->under_way && self->deliveries[0].time < end ? self->deliveries[0].time : end);
}

static int end_until(Traffic *self, double now, double look) {      /* 1 where it stops before `look` */
    if (self->changed && solve(self, self->time) < 0) return -1;
    List ended = {0};
    int failed = 0, stopped = 0;
    while (!failed) {
        double end = self->size ? self->ends[0].time : INFINITY;
        if (look <= now && look < end) {
            if (look > self->time) self->time = look;
            stopped = 1;
            break;
        }
        if (end > now) break;
        double instant = end > self->time ? end : self->time;       /* rounding may put an end a hair before the change that moved it */
        ended.size = 0;
        failed = take_ended(self, instant * (1 + TOLERANCE), &ended) < 0;
        if (failed || !ended.size) continue;
        self->time = instant;
        for (Py_ssize_t k = 0; k < ended.size && !failed; k++) failed = finish(self, ended.items[k]) < 0;
        failed = failed || (self->changed && solve(self, instant) < 0);
    }
    free(ended.items);
    return failed ? -1 : stopped;
}

static PyObject *run(Traffic *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) { PyErr_SetString(PyExc_TypeError, "two times are needed"); return NULL; }
    double now = PyFloat_AsDouble(args[0]), look = PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred() || PyList_SetSlice(self->idle, 0, PyList_GET_SIZE(self->idle), NULL) < 0) return NULL;
    int stopped = end_until(self, now, look);
    if (stopped) return stopped < 0 ? NULL : Py_NewRef(Py_True);
    if (now < self->time) {
        PyObject *then = PyFloat_FromDouble(self->time);
        if (then) PyErr_Format(PyExc_ValueError, "time went back from %R to %R", then, args[0]);
        Py_XDECREF(then);
        return NULL;
    }
    self->time = now;
    Py_RETURN_FALSE;
}

static PyObject *take(Traffic *self, PyObject *none) {
    PyObject *tokens = PyList_New(0);
    while (tokens && self->under_way && self->deliveries[0].time <= self->time) {
        PyObject *token = delivered(self);
        if (PyList_Append(tokens, token) < 0) Py_CLEAR(tokens);
        Py_DECREF(token);
    }
    return tokens;
}

static PyObject *lose(Traffic *self, PyObject *given) {
    Flow *flow = flow_of(given);
    double nbytes;
    PyObject *lost = flow ? PyList_New(0) : NULL;
    if (lost == NULL || (flow->attached && detach(self, flow) < 0)) { Py_XDECREF(lost); return NULL; }
    if (!flow->busy) return lost;
    int failed = PyList_Append(lost, flow->token) < 0;
    while (flow->waiting) {
        PyObject *token = take_waiting(flow, &nbytes);
        failed = failed || PyList_Append(lost, token) < 0;
        Py_DECREF(token);
    }
    if (failed || fall_silent(self, flow) < 0) Py_CLEAR(lost);
    return lost;
}

static int traffic_init(Traffic *self, PyObject *args, PyObject *named) {
    static char *names[] = {"few", "arrival", NULL};
    PyObject *arrival = Py_None;
    if (self->fell_silent) { PyErr_SetString(PyExc_ValueError, "traffic is made once"); return -1; }
    if (!PyArg_ParseTupleAndKeywords(args, named, "n|O", names, &self->few, &arrival)) return -1;
    self->tidy_at = TIDY;
    self->arrival = Py_NewRef(arrival);
    self->fell_silent = PyList_New(0), self->idle = PyList_New(0);
    return self->fell_silent && self->idle ? 0 : -1;
}

static int traffic_traverse(Traffic *self, visitproc visit, void *arg) {
    for (Py_ssize_t k = 0; k < self->started.size; k++) Py_VISIT((PyObject *)self->started.items[k]);
    for (Py_ssize_t k = 0; k < self->size; k++) Py_VISIT((PyObject *)self->ends[k].flow);
    for (Py_ssize_t k = 0; k < self->under_way; k++) Py_VISIT(self->deliveries[k].token);
    for (Flow *flow = self->attached; flow; flow = flow->next) Py_VISIT((PyObject *)flow);
    Py_VISIT(self->fell_silent); Py_VISIT(self->idle); Py_VISIT(self->arrival);
    return 0;
}

static int traffic_clear(Traffic *self) {
    Flow *flow = self->attached;
    self->attached = NULL;
    for (Flow *next; flow; flow = next) {
        next = flow->next;
        take_off(flow);
        if (flow->group) group_remove(flow->group, flow, flow->group->since);
        flow->attached = 0;
        Py_DECREF(flow);
    }
    while (self->started.size) Py_DECREF((PyObject *)self->started.items[--self->started.size]);
    while (self->touched.size) Py_DECREF((PyObject *)self->touched.items[--self->touched.size]);
    while (self->groups.size) release(self->groups.items[--self->groups.size]);
    while (self->size) drop(&self->ends[--self->size]);
    while (self->under_way) Py_DECREF(self->deliveries[--self->under_way].token);
    Py_CLEAR(self->fell_silent); Py_CLEAR(self->idle); Py_CLEAR(self->arrival);
    return 0;
}

static void traffic_dealloc(Traffic *self) {
    PyObject_GC_UnTrack(self);
    traffic_clear(self);
    free(self->started.items), free(self->touched.items), free(self->groups.items), free(self->ends), free(self->deliveries);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef traffic_methods[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_FASTCALL, NULL},
    {"hold", (PyCFunction)hold, METH_O, NULL},
    {"resize", (PyCFunction)resize, METH_O, NULL},
    {"next_time", (PyCFunction)next_time, METH_NOARGS, NULL},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, NULL},
    {"take", (PyCFunction)take, METH_NOARGS, NULL},
    {"lose", (PyCFunction)lose, METH_O, NULL},
    {NULL},
};
static PyMemberDef traffic_members[] = {
    {"time", T_DOUBLE, offsetof(Traffic, time), READONLY, NULL},
    {"fell_silent", T_OBJECT_EX, offsetof(Traffic, fell_silent), READONLY, NULL},
    {"idle", T_OBJECT_EX, offsetof(Traffic, idle), READONLY, NULL},
    {NULL},
};

static PyTypeObject TrafficType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polyrhythm.core.simulator._traffic.Traffic",
    .tp_basicsize = sizeof(Traffic), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)traffic_init, .tp_traverse = (traverseproc)traffic_traverse, .tp_clear = (inquiry)traffic_clear,
    .tp_dealloc = (destructor)traffic_dealloc, .tp_methods = traffic_methods, .tp_members = traffic_members,
    .tp_doc = "What flows on connections, and what is delivered.",
};

static PyMethodDef functions[] = {{"alone_on", (PyCFunction)alone_on, METH_O, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_traffic", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__traffic(void) {
    word_code = PyUnicode_InternFromString("code"), word_sending = PyUnicode_InternFromString("sending");
    word_name = PyUnicode_InternFromString("name"), word_watched = PyUnicode_InternFromString("watched");
    PyObject *made = word_code && word_sending && word_name && word_watched ? PyModule_Create(&module) : NULL;
    if (made == NULL || PyModule_AddType(made, &LinkType) < 0 || PyModule_AddType(made, &FlowType) < 0 ||
        PyModule_AddType(made, &TrafficType) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
