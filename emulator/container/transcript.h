/* What a process wrote to one of its outputs, as its log keeps it: the newest part, bounded.
 * Readers have positions of their own, counted from the first byte that the process wrote, and may
 * find that what they want is dropped. */
#ifndef SANDPIT_CONTAINER_TRANSCRIPT_H
#define SANDPIT_CONTAINER_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    TRANSCRIPT_KEPT = 8 * 1024 * 1024, /* at least this much of the end is kept, at most twice */
    TRANSCRIPT_LINE_MAX = 32 * 1024 * 1024, /* a longer line is handed on in parts */
};

struct transcript {
    struct buf text;
    uint64_t base;  /* the position of its first byte: as many were dropped */
    uint64_t ready; /* readers may have what is before this position */
    bool by_line;   /* readers get whole lines, and NUL bytes are dropped; else whole characters */
};
#define TRANSCRIPT_INIT(lines)                                                                     \
    ((struct transcript){.text = BUF_INIT((size_t)TRANSCRIPT_LINE_MAX * 2), .by_line = (lines)})

/* Without memory for them, these bytes and all before are dropped. */
void transcript_add(struct transcript *transcript, const char *data, size_t size);
/* Nothing more comes: what is there is ready, the last line ends with a newline. */
void transcript_finish(struct transcript *transcript);
/* What there is of a line is ready, as if it were too long to be waited for. */
void transcript_part(struct transcript *transcript);
/* When more than twice `keep` is there, drops all but the last `keep` bytes; nothing from position
 * `hold` on. */
void transcript_trim(struct transcript *transcript, uint64_t hold, size_t keep);
/* Drops everything. */
void transcript_clear(struct transcript *transcript);

/* What is ready at a position that is not dropped; its size in *size. */
const char *transcript_at(const struct transcript *transcript, uint64_t position, size_t *size);
/* How much of `size` bytes to take when at most `most` shall be: no character is cut. */
size_t transcript_whole(const char *text, size_t size, size_t most);
/* "[sandpit: 12 bytes of older output dropped]\n" */
int transcript_gap(struct buf *to, uint64_t size);

#endif
