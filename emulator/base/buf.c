#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

void buf_free(struct buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->size = buf->capacity = 0;
    buf->error = 0;
}

static char *fail(struct buf *buf, int number, int *error)
{
    buf->error = number;
    if (error)
        *error = number;
    return NULL;
}

char *buf_reserve(struct buf *buf, size_t size, int *error)
{
    if (buf->error)
        return fail(buf, buf->error, error);
    if (size > buf->max - buf->size)
        return fail(buf, -EMSGSIZE, error);
    size_t need = buf->size + size + 1;
    if (need > buf->capacity) {
        size_t capacity = buf->capacity ? buf->capacity : 64;
        while (capacity < need)
            capacity *= 2;
        if (capacity - 1 > buf->max)
            capacity = buf->max + 1;
        char *data = realloc(buf->data, capacity);
        if (!data) {
            heap_refused();
            return fail(buf, -ENOMEM, error);
        }
        buf->data = data;
        buf->capacity = capacity;
        buf->data[buf->size] = '\0';
    }
    return buf->data + buf->size;
}

void buf_commit(struct buf *buf, size_t size)
{
    buf->size += size;
    buf->data[buf->size] = '\0';
}

int buf_add(struct buf *buf, const void *data, size_t size)
{
    int error = 0;
    char *to = buf_reserve(buf, size, &error);
    if (!to)
        return error;
    if (size)
        memcpy(to, data, size);
    buf_commit(buf, size);
    return 0;
}

int buf_adds(struct buf *buf, const char *text)
{
    return buf_add(buf, text, strlen(text));
}

int buf_addc(struct buf *buf, char c)
{
    return buf_add(buf, &c, 1);
}

int buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0)
        return -EINVAL;
    int error = 0;
    char *to = buf_reserve(buf, (size_t)size, &error);
    if (!to)
        return error;
    va_start(args, format);
    vsnprintf(to, (size_t)size + 1, format, args);
    va_end(args);
    buf_commit(buf, (size_t)size);
    return 0;
}

void buf_drop(struct buf *buf, size_t size)
{
    if (size >= buf->size) {
        buf_clear(buf);
        return;
    }
    memmove(buf->data, buf->data + size, buf->size - size);
    buf->error = 0;
    buf->size -= size;
    buf->data[buf->size] = '\0';
}

void buf_clear(struct buf *buf)
{
    buf->size = 0;
    buf->error = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

const char *buf_text(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

char *buf_steal(struct buf *buf)
{
    char *data = buf->data ? buf->data : calloc(1, 1);
    buf->data = NULL;
    buf->size = buf->capacity = 0;
    buf->error = 0;
    return data;
}
