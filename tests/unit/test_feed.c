/* The ring behind events and logs: what is kept, what followers see, and who is let go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "clock/clock.h"
#include "greatest.h"
#include "objects/events.h"
#include "objects/feed.h"
#include "objects/logs.h"

enum { ROOM = 4, BIG = 1 << 20 };

static int lost(void *arg, uint64_t last, uint64_t count, struct buf *to)
{
    return buf_addf(to, "lost %llu to %llu", (unsigned long long)count, (unsigned long long)last);
}

static struct feed *make(size_t count, size_t bytes, size_t followers)
{
    struct feed_limits limits = {
        .count = count, .bytes = bytes, .followers = followers, .lost = lost};
    return feed_new(&limits);
}

static void add(struct feed *feed, const char *text, const char *subject, const char *type)
{
    struct feed_entry entry = {.text = text, .subject = subject, .type = type};
    feed_add(feed, &entry);
}

static void add_numbers(struct feed *feed, int from, int to)
{
    for (int i = from; i <= to; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        add(feed, text, NULL, "n");
    }
}

static const char *lines(struct feed *feed, struct feed_filter filter)
{
    static char shown[4096];
    CLEANUP_BUF struct buf text = BUF_INIT(BIG);
    feed_write(feed, &filter, &text);
    snprintf(shown, sizeof shown, "%s", buf_text(&text));
    return shown;
}

/* What the sink can take now, and whether that was all there ever will be. */
static const char *taken(struct stream *stream, bool *ended)
{
    static char shown[BIG];
    size_t size = 0;
    long got;
    while ((got = stream_take(stream, shown + size, sizeof shown - 1 - size)) > 0)
        size += (size_t)got;
    shown[size] = '\0';
    if (ended)
        *ended = got < 0;
    return shown;
}

TEST the_ring_keeps_the_last_ones_and_says_what_is_lost(void)
{
    struct feed *feed = make(ROOM, 0, 1);
    ASSERT_STR_EQ("", lines(feed, (struct feed_filter){0}));
    add_numbers(feed, 1, 4);
    ASSERT_STR_EQ("n1\nn2\nn3\nn4\n", lines(feed, (struct feed_filter){0}));
    add_numbers(feed, 5, 7);
    ASSERT_STR_EQ("lost 3 to 3\nn4\nn5\nn6\nn7\n", lines(feed, (struct feed_filter){0}));
    ASSERT_STR_EQ("lost 1 to 3\nn4\nn5\nn6\nn7\n", lines(feed, (struct feed_filter){.after = 2}));
    ASSERT_STR_EQ("n4\nn5\nn6\nn7\n", lines(feed, (struct feed_filter){.after = 3}));
    ASSERT_STR_EQ("n7\n", lines(feed, (struct feed_filter){.after = 6}));
    ASSERT_STR_EQ("", lines(feed, (struct feed_filter){.after = 7}));
    ASSERT_STR_EQ("", lines(feed, (struct feed_filter){.after = UINT64_MAX}));
    ASSERT_EQ(8, (int)feed_next(feed));
    ASSERT_EQ(NULL, feed_text(feed, 3));
    ASSERT_STR_EQ("n4", feed_text(feed, 4));
    feed_free(feed);
    PASS();
}

TEST a_growing_ring_keeps_its_order(void)
{
    struct feed *feed = make(1000, 0, 1);
    add_numbers(feed, 1, 777);
    for (int i = 1; i <= 777; i++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", i);
        ASSERT_STR_EQ(text, feed_text(feed, (uint64_t)i));
    }
    feed_free(feed);
    PASS();
}

TEST bytes_are_bounded_too(void)
{
    struct feed *feed = make(1000, 10, 1);
    add(feed, "12345", NULL, "");
    add(feed, "67890", NULL, "");
    ASSERT_STR_EQ("12345\n67890\n", lines(feed, (struct feed_filter){0}));
    add(feed, "a", NULL, "");
    ASSERT_STR_EQ("lost 1 to 1\n67890\na\n", lines(feed, (struct feed_filter){0}));
    add(feed, "longer than all that may be kept", NULL, "");
    ASSERT_STR_EQ("lost 3 to 3\nlonger than all that may be kept\n",
                  lines(feed, (struct feed_filter){0}));
    feed_free(feed);
    PASS();
}

TEST filters_name_a_subject_and_the_beginning_of_a_type(void)
{
    struct feed *feed = make(10, 0, 2);
    add(feed, "1", "a", "x.one");
    add(feed, "2", "b", "x.two");
    add(feed, "3", NULL, "y");
    add(feed, "4", "a", "y.one");
    ASSERT_STR_EQ("1\n4\n", lines(feed, (struct feed_filter){.subject = "a"}));
    ASSERT_STR_EQ("1\n2\n", lines(feed, (struct feed_filter){.type = "x."}));
    ASSERT_STR_EQ("4\n", lines(feed, (struct feed_filter){.subject = "a", .type = "y"}));
    struct feed_filter filter = {.subject = "a"};
    struct stream *stream = feed_follow(feed, &filter);
    add(feed, "5", "b", "z");
    add(feed, "6", "a", "z");
    ASSERT_STR_EQ("id: 1\ndata: 1\n\nid: 4\ndata: 4\n\nid: 6\ndata: 6\n\n", taken(stream, NULL));
    stream_abort(stream);
    feed_free(feed);
    PASS();
}

TEST a_follower_gets_what_was_and_then_what_comes(void)
{
    struct feed *feed = make(ROOM, 0, 1);
    bool ended;
    add_numbers(feed, 1, 2);
    struct feed_filter filter = {.after = 1};
    struct stream *stream = feed_follow(feed, &filter);
    ASSERT_STR_EQ("id: 2\ndata: n2\n\n", taken(stream, NULL));
    ASSERT_STR_EQ("", taken(stream, NULL));
    add_numbers(feed, 3, 3);
    ASSERT_STR_EQ("id: 3\ndata: n3\n\n", taken(stream, &ended));
    ASSERT(!ended);
    ASSERT_EQm("there is room for one", NULL, feed_follow(feed, &filter));
    stream_abort(stream);
    add_numbers(feed, 4, 9);
    stream = feed_follow(feed, &filter);
    ASSERTm("who left makes room", stream);
    ASSERT(strncmp("id: 5\ndata: lost 4 to 5\n\nid: 6\n", taken(stream, &ended), 30) == 0);
    ASSERTm("what was lost before it came is no reason to go", !ended);
    feed_free(feed);
    taken(stream, &ended);
    ASSERTm("the end of the feed is the end of the stream", ended);
    stream_abort(stream);
    PASS();
}

TEST a_slow_follower_is_dropped_with_a_last_lost_event(void)
{
    enum { SIZE = 10000 };
    static char text[SIZE + 1];
    memset(text, 'x', SIZE);
    struct feed *feed = make(ROOM, 0, 2);
    struct feed_filter filter = {0};
    struct stream *slow = feed_follow(feed, &filter), *quick = feed_follow(feed, &filter);
    size_t quick_size = 0;
    for (int i = 0; i < 40; i++) {
        add(feed, text, NULL, "n");
        quick_size += strlen(taken(quick, NULL));
    }
    bool ended;
    const char *got = taken(slow, &ended);
    ASSERTm("it was let go", ended);
    ASSERTm("what waited for it is bounded", strlen(got) < 100 * 1024);
    const char *last = strstr(got, "lost ");
    ASSERTm("it is told", last);
    ASSERTm("and nothing after that", strstr(last, "\n\n") && !strstr(last, "data: "));
    stream_abort(slow);
    ASSERTm("the quick one got all", quick_size > 40 * SIZE);
    add(feed, "more", NULL, "n");
    ASSERT(strstr(taken(quick, NULL), "more"));
    stream_abort(quick);
    feed_free(feed);
    PASS();
}

TEST a_paused_follower_goes_on_where_it_was(void)
{
    enum { SIZE = 10000, COUNT = 30 };
    static char text[SIZE + 1];
    memset(text, 'x', SIZE);
    struct feed *feed = make(100, 0, 1);
    for (int i = 0; i < COUNT; i++)
        add(feed, text, NULL, "n");
    struct feed_filter filter = {0};
    struct stream *stream = feed_follow(feed, &filter);
    const char *got = taken(stream, NULL);
    int count = 0;
    for (const char *at = got; (at = strstr(at, "id: ")); at++) {
        ASSERT_EQ(++count, (int)strtol(at + 4, NULL, 10));
    }
    ASSERT_EQ((int)COUNT, count);
    stream_abort(stream);
    feed_free(feed);
    PASS();
}

TEST what_is_forgotten_is_not_missed(void)
{
    struct feed *feed = make(10, 0, 1);
    struct feed_filter filter = {0};
    add_numbers(feed, 1, 5);
    feed_forget(feed, 3);
    ASSERT_STR_EQ("n4\nn5\n", lines(feed, filter));
    struct stream *stream = feed_follow(feed, &filter);
    ASSERT_STR_EQ("id: 4\ndata: n4\n\nid: 5\ndata: n5\n\n", taken(stream, NULL));
    feed_forget(feed, 100);
    add_numbers(feed, 6, 6);
    ASSERT_STR_EQ("id: 6\ndata: n6\n\n", taken(stream, NULL));
    stream_abort(stream);
    feed_free(feed);
    PASS();
}

/* Logs and events, on a clock. */

static struct loop *loop;
static struct clock *clock_now;

/* "text|text|" of all lines. */
static const char *log_texts(struct logs *logs)
{
    static char shown[65536];
    CLEANUP_BUF struct buf text = BUF_INIT(BIG);
    struct feed_filter filter = {0};
    logs_write(logs, &filter, &text);
    size_t size = 0;
    shown[0] = '\0';
    for (const char *at = buf_text(&text); *at; at += strcspn(at, "\n") + 1) {
        CLEANUP_JSON json_t *line = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        size += (size_t)snprintf(shown + size, sizeof shown - size, "%s|",
                                 json_string_value(json_object_get(line, "text")));
    }
    return shown;
}

TEST output_is_put_together_into_lines(void)
{
    struct logs *logs = logs_new(clock_now);
    logs_output(logs, "p", "stdout", "on", 2);
    logs_output(logs, "p", "stderr", "bad\n", 4);
    logs_output(logs, "p", "stdout", "e\ntwo\nth", 8);
    ASSERT_STR_EQ("bad|one|two|", log_texts(logs));
    logs_output(logs, "q", "stdout", "other\n", 6);
    logs_output(logs, "p", "stdout", NULL, 0);
    logs_output(logs, "p", "stdout", NULL, 0);
    ASSERT_STR_EQ("bad|one|two|other|th|", log_texts(logs));
    logs_free(logs);
    PASS();
}

TEST logs_are_bounded_and_any_bytes_become_json(void)
{
    struct logs *logs = logs_new(clock_now);
    static char wild[50000];
    for (size_t i = 0; i < sizeof wild; i++)
        wild[i] = (char)(i * 7 % 256 == '\n' ? 'x' : i * 7 % 256);
    for (int i = 0; i < 40; i++)
        logs_output(logs, "p", "stdout", wild, sizeof wild);
    CLEANUP_BUF struct buf text = BUF_INIT(16 * BIG);
    struct feed_filter filter = {0};
    ASSERT_EQ(0, logs_write(logs, &filter, &text));
    ASSERT(text.size < 300 * 1024);
    int count = 0;
    for (const char *at = buf_text(&text); *at; at += strcspn(at, "\n") + 1) {
        CLEANUP_JSON json_t *line = json_loadb(at, strcspn(at, "\n"), JSON_ALLOW_NUL, NULL);
        ASSERT(line);
        count++;
    }
    ASSERT(count > 5);
    logs_free(logs);
    PASS();
}

TEST a_log_holds_the_last_life_and_this_one(void)
{
    struct logs *logs = logs_new(clock_now);
    logs_begin(logs);
    logs_line(logs, "c", "info", "first", 5);
    logs_begin(logs);
    logs_line(logs, "c", "info", "second", 6);
    ASSERT_STR_EQ("first|second|", log_texts(logs));
    logs_begin(logs);
    logs_line(logs, "c", "info", "third", 5);
    ASSERT_STR_EQ("second|third|", log_texts(logs));
    logs_free(logs);
    PASS();
}

TEST events_have_all_members_and_numbers_without_gaps(void)
{
    struct events *events = events_new(clock_now);
    for (int i = 0; i < 10010; i++)
        events_add(events, i % 2 ? "a" : NULL, NULL, "reset", i % 3 ? "why \"so\"" : NULL,
                   i % 5 ? NULL : json_pack("{s:i}", "i", i));
    CLEANUP_BUF struct buf text = BUF_INIT(16 * BIG);
    struct feed_filter filter = {0};
    ASSERT_EQ(0, events_write(events, &filter, &text));
    int seq = 9;
    for (const char *at = buf_text(&text); *at; at += strcspn(at, "\n") + 1) {
        CLEANUP_JSON json_t *line = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        static const char *const names[] = {"v",       "seq",  "at",     "real", "sandbox",
                                            "runtime", "type", "reason", "data"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            ASSERTm(names[i], json_object_get(line, names[i]));
        ASSERT_EQ(++seq, (int)json_integer_value(json_object_get(line, "seq")));
        const char *type = json_string_value(json_object_get(line, "type"));
        ASSERT_STR_EQ(seq == 10 ? "lost" : "reset", type);
    }
    ASSERT_EQ(10010, seq);
    ASSERT_EQ(10010, (int)events_last(events));
    events_free(events);
    PASS();
}

TEST a_full_events_file_is_given_up_and_events_go_on(void)
{
    struct events *events = events_new(clock_now);
    struct error err = {0};
    ASSERT_EQ(0, events_to_file(events, "/dev/full", &err));
    for (int i = 0; i < 3; i++)
        events_add(events, NULL, NULL, "reset", NULL, NULL);
    ASSERT_EQ(3, (int)events_last(events));
    ASSERT(events_to_file(events, "/nonexistent/file", &err) < 0);
    ASSERT(strstr(err.text, "/nonexistent/file"));
    events_free(events);
    PASS();
}

TEST every_type_has_one_row(void)
{
    for (const struct event_type *row = event_types; row->type; row++)
        ASSERT_EQm(row->type, row, event_type(row->type));
    ASSERT_EQ(NULL, event_type("container."));
    PASS();
}

SUITE(feed_suite)
{
    RUN_TEST(the_ring_keeps_the_last_ones_and_says_what_is_lost);
    RUN_TEST(a_growing_ring_keeps_its_order);
    RUN_TEST(bytes_are_bounded_too);
    RUN_TEST(filters_name_a_subject_and_the_beginning_of_a_type);
    RUN_TEST(a_follower_gets_what_was_and_then_what_comes);
    RUN_TEST(a_slow_follower_is_dropped_with_a_last_lost_event);
    RUN_TEST(a_paused_follower_goes_on_where_it_was);
    RUN_TEST(what_is_forgotten_is_not_missed);
    RUN_TEST(output_is_put_together_into_lines);
    RUN_TEST(logs_are_bounded_and_any_bytes_become_json);
    RUN_TEST(a_log_holds_the_last_life_and_this_one);
    RUN_TEST(events_have_all_members_and_numbers_without_gaps);
    RUN_TEST(every_type_has_one_row);
    RUN_TEST(a_full_events_file_is_given_up_and_events_go_on);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    struct error err = {0};
    loop = loop_new(&err);
    clock_now = loop ? clock_new(loop, &err) : NULL;
    if (!clock_now) {
        printf("%s\n", err.text);
        return 1;
    }
    RUN_SUITE(feed_suite);
    clock_free(clock_now);
    loop_free(loop);
    GREATEST_MAIN_END();
}
