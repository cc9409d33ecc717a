/* One-line JSON texts in a bounded ring, numbered without gaps from 1, that any number can follow.
 * A follower reads from the ring at its own speed: what waits for it is the ring itself, and when
 * the ring overtakes it, it is told how much it lost and is let go. */
#ifndef SANDPIT_OBJECTS_FEED_H
#define SANDPIT_OBJECTS_FEED_H

#include <stdint.h>

#include "base/buf.h"
#include "base/stream.h"

struct feed;

struct feed_limits {
    size_t count;
    size_t bytes; /* of all texts; 0 = no bound */
    size_t followers;
    /* Writes the text that stands for `count` lost ones, of which `last` is the last. */
    int (*lost)(void *arg, uint64_t last, uint64_t count, struct buf *to);
    void *arg;
};

/* What is wanted; all of it may be left out. */
struct feed_filter {
    uint64_t after;      /* those with a greater number */
    const char *subject; /* exactly this */
    const char *type;    /* beginning with this */
    int64_t since_ms;    /* not older */
};

struct feed_entry {
    const char *text;
    const char *subject; /* or NULL */
    const char *type;
    int64_t at_ms;
};

struct feed *feed_new(const struct feed_limits *limits);
/* Followers' streams end. */
void feed_free(struct feed *feed);
/* Ends the followers' streams; says how many there were. */
size_t feed_let_go(struct feed *feed);
/* The number that the next one will have, so that a text can hold it. */
uint64_t feed_next(const struct feed *feed);
/* Copies; 0, or -ENOMEM and then the number is still free. */
int feed_add(struct feed *feed, const struct feed_entry *entry);
/* Forgets those up to this number; nobody is told that they were lost. */
void feed_forget(struct feed *feed, uint64_t up_to);
/* The text with this number, or NULL. */
const char *feed_text(const struct feed *feed, uint64_t number);

/* Appends lines; a `lost` one first when what was asked for is not all there any more. */
int feed_write(const struct feed *feed, const struct feed_filter *filter, struct buf *to);
/* The same as server-sent events, and then what comes. NULL when there are too many followers or no
 * memory; the caller is the sink. */
struct stream *feed_follow(struct feed *feed, const struct feed_filter *filter);

#endif
