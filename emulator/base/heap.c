#include "base/heap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    LARGE = 256 * 1024,
    KEPT = 8 * 1024 * 1024, /* at the top of the heap, until it is given back */
    GIVE_BACK_MS = 1000,
    RESERVE = 2 * 1024 * 1024, /* for one text that is being read; never touched otherwise */
    ALIGNMENT = 16,
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

/* What is read into the reserve is dropped at once, so that it is empty for the next. */
static _Alignas(ALIGNMENT) char reserve[RESERVE];
static size_t reserve_used;
static unsigned reserve_blocks;
static bool loading;

static void *from_reserve(size_t size)
{
    if (size > RESERVE - reserve_used)
        return NULL;
    void *memory = reserve + reserve_used;
    size_t left = RESERVE - reserve_used;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    reserve_used += size < left ? size : left;
    reserve_blocks++;
    return memory;
}

static void *json_memory(size_t size)
{
    void *memory = malloc(size);
    if (memory)
        return memory;
    heap_refused();
    return loading ? from_reserve(size) : NULL;
}

static void json_free(void *memory)
{
    uintptr_t at = (uintptr_t)memory - (uintptr_t)reserve;
    if (!memory || at >= RESERVE)
        free(memory);
    else if (--reserve_blocks == 0)
        reserve_used = 0;
}

json_t *heap_load_json(const char *text, size_t size, size_t flags, json_error_t *error)
{
    unsigned long before = refusals;
    loading = true;
    json_t *value = json_loadb(text, size, flags, error);
    loading = false;
    if (refusals == before)
        return value;
    json_decref(value);
    return NULL;
}

static void trim(void *arg)
{
    malloc_trim(0);
}

void heap_setup(struct loop *loop)
{
    mallopt(M_TRIM_THRESHOLD, KEPT);
    mallopt(M_MMAP_THRESHOLD, KEPT);
    json_set_alloc_funcs(json_memory, json_free);
    heap_loop = loop;
    give_back = (struct timer){.fire = trim};
}

void heap_used(size_t size)
{
    if (heap_loop && size >= LARGE)
        loop_arm(heap_loop, &give_back, MS_NS(GIVE_BACK_MS));
}
