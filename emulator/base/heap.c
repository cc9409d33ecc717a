#include "base/heap.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

enum {
    LARGE = 256 * 1024,
    KEPT = 8 * 1024 * 1024, /* at the top of the heap, until it is given back */
    GIVE_BACK_MS = 1000,
};

static struct loop *heap_loop;
static struct timer give_back;
static unsigned long refusals;

unsigned long heap_refusals(void)
{
    return refusals;
}

void heap_refused(void)
{
    refusals++;
}

static void *json_memory(size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        heap_refused();
    return memory;
}

static void trim(void *arg)
{
    malloc_trim(0);
}

void heap_setup(struct loop *loop)
{
    mallopt(M_TRIM_THRESHOLD, KEPT);
    mallopt(M_MMAP_THRESHOLD, KEPT);
    json_set_alloc_funcs(json_memory, free);
    heap_loop = loop;
    give_back = (struct timer){.fire = trim};
}

void heap_used(size_t size)
{
    if (heap_loop && size >= LARGE)
        loop_arm(heap_loop, &give_back, MS_NS(GIVE_BACK_MS));
}
