/* Heaps in arrays, with the least item first. HEAP(name, Item, before) defines, for items of one type of which `before` compares two:

   name_rise(heap, at): bring the item that was put behind all others to its place.
   name_sink(heap, size, at): bring an item to its place among those below it. */

#define HEAP(name, Item, before)                                                                                                  \
    static void name##_rise(Item *heap, Py_ssize_t at) {                                                                          \
        Item last = heap[at];                                                                                                     \
        for (Py_ssize_t parent; at && before(&last, &heap[parent = (at - 1) / 2]); at = parent) heap[at] = heap[parent];          \
        heap[at] = last;                                                                                                          \
    }                                                                                                                             \
    static void name##_sink(Item *heap, Py_ssize_t size, Py_ssize_t at) {                                                         \
        Item moved = heap[at];                                                                                                    \
        for (Py_ssize_t child; (child = 2 * at + 1) < size; at = child) {                                                         \
            if (child + 1 < size && before(&heap[child + 1], &heap[child])) child++;                                              \
            if (!before(&heap[child], &moved)) break;                                                                             \
            heap[at] = heap[child];                                                                                               \
        }                                                                                                                         \
        heap[at] = moved;                                                                                                         \
    }
