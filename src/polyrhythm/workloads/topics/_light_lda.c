/* The inner loops of LightLDA (Yuan et al., WWW 2015): alias tables, and draws of topics.
 *
 * portable.py has the same in numpy, and the same results: all sums and products are of doubles, in the same order, so this is compiled
 * without contraction into fused operations. Addresses are of contiguous arrays that the caller keeps.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define AT(type, address) ((type *)(uintptr_t)(address))

/* SplitMix64 (Steele et al., 2014) of a counter: a draw depends on its place alone, not on the order of draws. */
static inline double uniform(uint64_t key, uint64_t place) {
    uint64_t x = key + (place + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static void alias_row(int64_t n, const int32_t *topics, double *keep, int32_t *others, int64_t *small, int64_t *large) {
    int64_t smalls = 0, larges = 0;
    for (int64_t i = 0; i < n; i++)
        if (keep[i] < 1.0) small[smalls++] = i;
        else large[larges++] = i;
    while (smalls && larges) {
        int64_t s = small[--smalls], l = large[larges - 1];
        others[s] = topics[l];
        keep[l] = (keep[l] + keep[s]) - 1.0;
        if (keep[l] < 1.0) {
            larges--;
            small[smalls++] = l;
        }
    }
    while (smalls) keep[small[--smalls]] = 1.0;
    while (larges) keep[large[--larges]] = 1.0;
}

static PyObject *alias(PyObject *self, PyObject *args) {
    unsigned long long starts, topics, keep, others;
    long long rows;
    if (!PyArg_ParseTuple(args, "KLKKK", &starts, &rows, &topics, &keep, &others)) return NULL;
    const int64_t *start = AT(int64_t, starts);
    int64_t widest = 0;
    for (int64_t r = 0; r < rows; r++)
        if (start[r + 1] - start[r] > widest) widest = start[r + 1] - start[r];
    int64_t *stacks = PyMem_Malloc((2 * widest + 1) * sizeof *stacks);
    if (stacks == NULL) return PyErr_NoMemory();
    for (int64_t r = 0; r < rows; r++)
        alias_row(start[r + 1] - start[r], AT(int32_t, topics) + start[r], AT(double, keep) + start[r], AT(int32_t, others) + start[r], stacks,
                  stacks + widest);
    PyMem_Free(stacks);
    Py_RETURN_NONE;
}

typedef struct {
    int32_t *z;             /* the topic of each token of all documents, -1 for one that others hold */
    const int64_t *places;  /* the tokens to draw */
    const int32_t *rows;
    const int64_t *bounds;
    const int32_t *words;  /* the counts of now, then those that proposals are made of */
    const int64_t *totals;
    const int32_t *proposed;
    const int64_t *proposed_totals;
    const int64_t *starts;
    const int32_t *topics;
    const double *keep;
    const int32_t *others;
    const double *mass;
    const double *smooth_keep;
    const int32_t *smooth_others;
    const double *smooth_mass;
    int32_t *counted; /* the topics of the document */
    int64_t tokens, width, cycles;
    double alpha, beta, sum_of_betas;
    uint64_t key;
} Model;

static inline double positive(int64_t count) { return count > 0 ? (double)count : 0.0; }

static inline int64_t below(double x, int64_t n) { return (int64_t)x < n ? (int64_t)x : n - 1; }

/* (n_tw + beta) and (n_t + V beta) without the token, which is counted at `own` */
static inline double of_word(const Model *m, const int32_t *row, int64_t t, int64_t own) { return positive(row[t] - (t == own)) + m->beta; }
static inline double of_topic(const Model *m, int64_t t, int64_t own) { return positive(m->totals[t] - (t == own)) + m->sum_of_betas; }

static inline int64_t by_word(const Model *m, int64_t row, const double *u) {
    double mass = m->mass[row];
    if (u[0] * (mass + m->smooth_mass[0]) < mass) {
        int64_t start = m->starts[row], n = m->starts[row + 1] - start;
        double x = u[1] * (double)n;
        int64_t i = below(x, n);
        return x - (double)i < m->keep[start + i] ? m->topics[start + i] : m->others[start + i];
    }
    double x = u[1] * (double)m->width;
    int64_t i = below(x, m->width);
    return x - (double)i < m->smooth_keep[i] ? i : m->smooth_others[i];
}

static void draw_token(const Model *m, int64_t n, int64_t start, int64_t length) {
    int64_t place = m->places[n], row = m->rows[n], own = m->z[place], s = own;
    const int32_t *words = m->words + row * m->width, *proposed = m->proposed + row * m->width;
    double tokens = (double)length, all = tokens + (double)m->width * m->alpha;
    for (int64_t cycle = 0; cycle < m->cycles; cycle++) {
        double u[5];
        for (int k = 0; k < 5; k++) u[k] = uniform(m->key, (uint64_t)(place * m->cycles + cycle) * 8 + k);
        int64_t t = by_word(m, row, u);
        if (t != s) {
            double to = (m->counted[t] + m->alpha) * of_word(m, words, t, own) * of_topic(m, s, own) * (positive(proposed[s]) + m->beta) *
                        (positive(m->proposed_totals[t]) + m->sum_of_betas);
            double from = (m->counted[s] - 1 + m->alpha) * of_word(m, words, s, own) * of_topic(m, t, own) * (positive(proposed[t]) + m->beta) *
                          (positive(m->proposed_totals[s]) + m->sum_of_betas);
            if (u[2] * from < to) {
                m->counted[s]--, m->counted[t]++;
                m->z[place] = (int32_t)t;
                s = t;
            }
        }
        double x = u[3] * all;
        t = x < tokens ? m->z[start + below(x, length)] : below((x - tokens) / m->alpha, m->width);
        if (t >= 0 && t != s) {
            /* the document's part cancels: it is proposed with the probabilities that it has without this token */
            double to = of_word(m, words, t, own) * of_topic(m, s, own), from = of_word(m, words, s, own) * of_topic(m, t, own);
            if (u[4] * from < to) {
                m->counted[s]--, m->counted[t]++;
                m->z[place] = (int32_t)t;
                s = t;
            }
        }
    }
}

static void draw_all(const Model *m, int64_t document) {
    for (int64_t n = 0; n < m->tokens;) {
        while (m->bounds[document + 1] <= m->places[n]) document++;
        int64_t start = m->bounds[document], end = m->bounds[document + 1];
        for (int64_t i = start; i < end; i++)
            if (m->z[i] >= 0) m->counted[m->z[i]]++;
        for (; n < m->tokens && m->places[n] < end; n++) draw_token(m, n, start, end - start);
        for (int64_t i = start; i < end; i++)
            if (m->z[i] >= 0) m->counted[m->z[i]] = 0;
    }
}

static PyObject *draw(PyObject *self, PyObject *args) {
    unsigned long long addresses, numbers, reals, key;
    if (!PyArg_ParseTuple(args, "KKKK", &addresses, &numbers, &reals, &key)) return NULL;
    const uint64_t *a = AT(uint64_t, addresses);
    const int64_t *n = AT(int64_t, numbers);
    const double *x = AT(double, reals);
    Model m = {AT(int32_t, a[0]), AT(int64_t, a[1]), AT(int32_t, a[2]), AT(int64_t, a[3]), AT(int32_t, a[4]), AT(int64_t, a[5]),
               AT(int32_t, a[6]), AT(int64_t, a[7]), AT(int64_t, a[8]), AT(int32_t, a[9]), AT(double, a[10]), AT(int32_t, a[11]),
               AT(double, a[12]), AT(double, a[13]), AT(int32_t, a[14]), AT(double, a[15]), AT(int32_t, a[16]), n[0], n[1], n[2],
               x[0], x[1], x[2], key};
    Py_BEGIN_ALLOW_THREADS
    draw_all(&m, n[3]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"alias", alias, METH_VARARGS, "(starts, rows, topics, keep, others)"},
    {"draw", draw, METH_VARARGS, "(addresses, numbers, reals, key)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_light_lda", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__light_lda(void) { return PyModule_Create(&module); }
