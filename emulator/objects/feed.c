#include "objects/feed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { FIRST_ROOM = 64, STREAM_LIMIT = 64 * 1024, FRAME_MAX = 16 * 1024 * 1024 };

struct entry {
    int64_t at_ms;
    uint32_t size, subject, type; /* of the text; offsets into it, 0 = no subject */
    char text[];
};

struct follower {
    struct feed *feed;
    struct follower *next;
    struct stream *stream;
    uint64_t at; /* the next number to look at */
    int64_t since_ms;
    char *subject, *type; /* or NULL */
    bool paused;
    bool gone; /* freed by the sweep */
};

struct feed {
    struct feed_limits limits;
    struct entry **ring; /* number n is at n % room */
    size_t room;
    uint64_t first, last; /* first is last + 1 when there is none */
    uint64_t forgotten;   /* those up to here are not missed */
    size_t bytes;
    struct follower *followers;
    size_t follower_count;
    int walking;
};

struct feed *feed_new(const struct feed_limits *limits)
{
    struct feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->limits = *limits;
    feed->first = 1;
    return feed;
}

static struct entry **slot(const struct feed *feed, uint64_t number)
{
    return &feed->ring[number % feed->room];
}

/* Followers. */

/* Frees those that are gone, unless somebody is in the middle of the list. */
static void sweep(struct feed *feed)
{
    for (struct follower **at = &feed->followers; feed->walking == 0 && *at;) {
        struct follower *follower = *at;
        if (!follower->gone) {
            at = &follower->next;
            continue;
        }
        *at = follower->next;
        feed->follower_count--;
        free(follower->subject);
        free(follower->type);
        free(follower);
    }
}

static void let_go(struct follower *follower)
{
    if (follower->gone)
        return;
    follower->gone = true;
    stream_end(steal_pointer(&follower->stream));
}

static void follower_aborted(void *arg)
{
    struct follower *follower = arg;
    struct feed *feed = follower->feed;
    let_go(follower);
    sweep(feed);
}

static int write_frame(struct follower *follower, uint64_t number, const char *text, size_t size)
{
    CLEANUP_BUF struct buf frame = BUF_INIT(FRAME_MAX);
    buf_addf(&frame, "id: %llu\ndata: ", (unsigned long long)number);
    buf_add(&frame, text, size);
    if (buf_adds(&frame, "\n\n") < 0)
        return -ENOMEM;
    return stream_write(follower->stream, frame.data, frame.size);
}

/* The number after `after`, which may be one that this feed has not reached. */
static uint64_t follows(const struct feed *feed, uint64_t after)
{
    return after < feed->last ? after + 1 : feed->last + 1;
}

/* The first number that would be there if nothing had been lost. */
static uint64_t wanted_from(const struct feed *feed, uint64_t at)
{
    return at > feed->forgotten ? at : feed->forgotten + 1;
}

static int tell_lost(struct follower *follower)
{
    struct feed *feed = follower->feed;
    uint64_t from = wanted_from(feed, follower->at);
    CLEANUP_BUF struct buf text = BUF_INIT(4096);
    follower->at = feed->first;
    if (from >= feed->first)
        return 0;
    if (feed->limits.lost(feed->limits.arg, feed->first - 1, feed->first - from, &text) < 0)
        return -ENOMEM;
    return write_frame(follower, feed->first - 1, text.data, text.size);
}

static bool passes(const struct entry *entry, const char *subject, const char *type,
                   int64_t since_ms)
{
    if (subject && (!entry->subject || strcmp(entry->text + entry->subject, subject) != 0))
        return false;
    if (type && strncmp(entry->text + entry->type, type, strlen(type)) != 0)
        return false;
    return entry->at_ms >= since_ms;
}

/* Hands on what is there until the follower has enough for now. */
static void pump(struct follower *follower)
{
    struct feed *feed = follower->feed;
    int result = 0;
    follower->paused = false;
    while (!follower->gone && result == 0 && follower->at <= feed->last) {
        const struct entry *entry = *slot(feed, follower->at);
        uint64_t number = follower->at++; /* first: a write may come back here */
        if (passes(entry, follower->subject, follower->type, follower->since_ms))
            result = write_frame(follower, number, entry->text, entry->size);
    }
    if (result < 0)
        let_go(follower);
    follower->paused = result > 0;
}

static void follower_resume(void *arg)
{
    struct follower *follower = arg;
    struct feed *feed = follower->feed;
    feed->walking++;
    if (!follower->gone)
        pump(follower);
    feed->walking--;
    sweep(feed);
}

/* Something was added: those who keep up get it, those whom the ring overtook are let go. */
static void tell_followers(struct feed *feed)
{
    feed->walking++;
    for (struct follower *follower = feed->followers; follower; follower = follower->next) {
        if (follower->gone)
            continue;
        if (follower->at < feed->first) {
            tell_lost(follower);
            let_go(follower);
        } else if (!follower->paused) {
            pump(follower);
        }
    }
    feed->walking--;
    sweep(feed);
}

struct stream *feed_follow(struct feed *feed, const struct feed_filter *filter)
{
    if (feed->follower_count >= feed->limits.followers)
        return NULL;
    struct follower *follower = calloc(1, sizeof *follower);
    if (!follower)
        return NULL;
    struct stream_source source = {
        .resume = follower_resume, .aborted = follower_aborted, .arg = follower};
    *follower = (struct follower){.feed = feed, .at = follows(feed, filter->after)};
    follower->since_ms = filter->since_ms;
    follower->subject = filter->subject ? strdup(filter->subject) : NULL;
    follower->type = filter->type ? strdup(filter->type) : NULL;
    follower->stream = stream_new(STREAM_LIMIT, source);
    if (!follower->stream || (filter->subject && !follower->subject) ||
        (filter->type && !follower->type)) {
        if (follower->stream) {
            stream_end(follower->stream);
            stream_abort(follower->stream);
        }
        free(follower->subject);
        free(follower->type);
        free(follower);
        return NULL;
    }
    follower->next = feed->followers;
    feed->followers = follower;
    feed->follower_count++;
    struct stream *stream = follower->stream;
    if (follower->at < feed->first)
        tell_lost(follower);
    follower_resume(follower);
    return stream;
}

/* The ring. */

static void drop_first(struct feed *feed)
{
    struct entry **at = slot(feed, feed->first);
    feed->bytes -= (*at)->size;
    free(*at);
    *at = NULL;
    feed->first++;
}

static int grow(struct feed *feed)
{
    size_t count = (size_t)(feed->last + 1 - feed->first);
    if (count < feed->room || feed->room == feed->limits.count)
        return 0;
    size_t room = feed->room ? feed->room * 2 : FIRST_ROOM;
    room = room < feed->limits.count ? room : feed->limits.count;
    struct entry **ring = calloc(room, sizeof(struct entry *));
    if (!ring)
        return feed->room ? 0 : -ENOMEM; /* then it stays smaller */
    for (uint64_t number = feed->first; number <= feed->last; number++)
        ring[number % room] = *slot(feed, number);
    free(feed->ring);
    feed->ring = ring;
    feed->room = room;
    return 0;
}

static struct entry *entry_new(const struct feed_entry *from)
{
    size_t text = strlen(from->text), type = strlen(from->type);
    size_t subject = from->subject ? strlen(from->subject) + 1 : 0;
    struct entry *entry = malloc(sizeof *entry + text + 1 + type + 1 + subject);
    if (!entry)
        return NULL;
    *entry = (struct entry){.at_ms = from->at_ms, .size = (uint32_t)text};
    memcpy(entry->text, from->text, text + 1);
    entry->type = (uint32_t)(text + 1);
    memcpy(entry->text + entry->type, from->type, type + 1);
    if (subject) {
        entry->subject = (uint32_t)(entry->type + type + 1);
        memcpy(entry->text + entry->subject, from->subject, subject);
    }
    return entry;
}

uint64_t feed_next(const struct feed *feed)
{
    return feed->last + 1;
}

int feed_add(struct feed *feed, const struct feed_entry *from)
{
    struct entry *entry = grow(feed) == 0 ? entry_new(from) : NULL;
    if (!entry)
        return -ENOMEM;
    size_t bytes = feed->limits.bytes;
    while (feed->first <= feed->last && (feed->last + 1 - feed->first >= feed->room ||
                                         (bytes && feed->bytes + entry->size > bytes)))
        drop_first(feed);
    feed->last++;
    *slot(feed, feed->last) = entry;
    feed->bytes += entry->size;
    if (feed->followers)
        tell_followers(feed);
    return 0;
}

void feed_forget(struct feed *feed, uint64_t up_to)
{
    if (up_to > feed->last)
        up_to = feed->last;
    while (feed->first <= up_to)
        drop_first(feed);
    feed->forgotten = up_to > feed->forgotten ? up_to : feed->forgotten;
    for (struct follower *follower = feed->followers; follower; follower = follower->next) {
        if (follower->at <= feed->forgotten)
            follower->at = feed->forgotten + 1;
    }
}

const char *feed_text(const struct feed *feed, uint64_t number)
{
    return number >= feed->first && number <= feed->last ? (*slot(feed, number))->text : NULL;
}

int feed_write(const struct feed *feed, const struct feed_filter *filter, struct buf *to)
{
    uint64_t from = wanted_from(feed, follows(feed, filter->after));
    if (from < feed->first) {
        int result = feed->limits.lost(feed->limits.arg, feed->first - 1, feed->first - from, to);
        if (result < 0 || (result = buf_addc(to, '\n')) < 0)
            return result;
        from = feed->first;
    }
    for (uint64_t number = from; number <= feed->last; number++) {
        const struct entry *entry = *slot(feed, number);
        if (!passes(entry, filter->subject, filter->type, filter->since_ms))
            continue;
        buf_add(to, entry->text, entry->size);
        int result = buf_addc(to, '\n');
        if (result < 0)
            return result;
    }
    return 0;
}

size_t feed_let_go(struct feed *feed)
{
    size_t count = 0;
    feed->walking++;
    for (struct follower *follower = feed->followers; follower; follower = follower->next) {
        count += !follower->gone;
        let_go(follower);
    }
    feed->walking--;
    sweep(feed);
    return count;
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    feed_let_go(feed);
    while (feed->first <= feed->last)
        drop_first(feed);
    free(feed->ring);
    free(feed);
}
