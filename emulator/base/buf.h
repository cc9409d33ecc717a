/* A growing byte buffer with a maximum given at creation. Hitting the maximum is -EMSGSIZE, its own
 * error; running out of memory is -ENOMEM. After an error nothing more is added, so that of several
 * additions only the last needs to be checked. The bytes are always followed by a NUL that does not
 * count, so buf_text() can be handed to anything that wants a C string. */
#ifndef SANDPIT_BASE_BUF_H
#define SANDPIT_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t size;
    size_t capacity;
    size_t max;
    int error; /* the first that there was */
};

#define BUF_INIT(maximum) ((struct buf){.max = (maximum)})
#define CLEANUP_BUF __attribute__((cleanup(buf_free)))

void buf_free(struct buf *buf);
/* Room for `size` more bytes; returns where to put them, or NULL with *error set when not NULL. */
char *buf_reserve(struct buf *buf, size_t size, int *error);
/* Marks `size` bytes, written after buf_reserve, as used. */
void buf_commit(struct buf *buf, size_t size);
int buf_add(struct buf *buf, const void *data, size_t size);
int buf_adds(struct buf *buf, const char *text);
int buf_addc(struct buf *buf, char c);
int buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Drops the first `size` bytes, or all, and the error. */
void buf_drop(struct buf *buf, size_t size);
void buf_clear(struct buf *buf);
const char *buf_text(const struct buf *buf);
/* Hands the bytes (NUL-terminated, malloc'd) to the caller and leaves the buffer empty. */
char *buf_steal(struct buf *buf);

#endif
