/* What commands and processes of one sandbox wrote and how they ended: at most 256 KiB, of the
 * current container's life and the one before. */
#ifndef SANDPIT_OBJECTS_LOGS_H
#define SANDPIT_OBJECTS_LOGS_H

#include <jansson.h>

#include "clock/clock.h"
#include "objects/feed.h"

struct logs;

struct logs *logs_new(struct clock *clock);
void logs_free(struct logs *logs);
/* A life begins: what was written before the last one is forgotten. */
void logs_begin(struct logs *logs);
/* One line {seq, at, source, stream, text}. */
void logs_line(struct logs *logs, const char *source, const char *stream, const char *text,
               size_t size);
/* Output as it comes; lines are put together. Size 0 is the end of that stream. */
void logs_output(struct logs *logs, const char *source, const char *stream, const char *data,
                 size_t size);
/* See feed.h; the subject is the source. */
int logs_write(const struct logs *logs, const struct feed_filter *filter, struct buf *to);
struct stream *logs_follow(struct logs *logs, const struct feed_filter *filter);

#endif
