/* What is kept of a process's output, and what readers may have of it. */
#include "container/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "greatest.h"

static void add(struct transcript *log, const char *text)
{
    transcript_add(log, text, strlen(text));
}

/* What a reader gets from the beginning of what is kept. */
static const char *ready(const struct transcript *log)
{
    static char text[256];
    size_t size;
    const char *from = transcript_at(log, log->base, &size);
    memcpy(text, from, size);
    text[size] = '\0';
    return text;
}

TEST a_line_is_ready_when_it_is_complete(void)
{
    struct transcript log = TRANSCRIPT_INIT(true);
    add(&log, "a");
    ASSERT_STR_EQ("", ready(&log));
    add(&log, "b\nc");
    ASSERT_STR_EQ("ab\n", ready(&log));
    add(&log, "\n\nd");
    ASSERT_STR_EQ("ab\nc\n\n", ready(&log));
    transcript_finish(&log);
    ASSERT_STR_EQ("ab\nc\n\nd\n", ready(&log));
    transcript_finish(&log);
    ASSERT_STR_EQ("ab\nc\n\nd\n", ready(&log));
    transcript_clear(&log);
    PASS();
}

TEST nul_bytes_are_dropped_from_lines_only(void)
{
    struct transcript lines = TRANSCRIPT_INIT(true), raw = TRANSCRIPT_INIT(false);
    transcript_add(&lines, "\0a\0\0b\n\0", 7);
    transcript_add(&raw, "\0a\0\0b\n\0", 7);
    ASSERT_STR_EQ("ab\n", ready(&lines));
    ASSERT_EQ(7, raw.ready);
    transcript_clear(&lines);
    transcript_clear(&raw);
    PASS();
}

TEST without_lines_only_a_cut_character_waits(void)
{
    struct transcript log = TRANSCRIPT_INIT(false);
    add(&log, "a\xe2\x82");
    ASSERT_STR_EQ("a", ready(&log));
    add(&log, "\xac!");
    ASSERT_STR_EQ("a\xe2\x82\xac!", ready(&log));
    add(&log, "\xff");
    ASSERT_STR_EQ("a\xe2\x82\xac!\xff", ready(&log)); /* never becomes one */
    add(&log, "\xf0\x9f");
    ASSERT_STR_EQ("a\xe2\x82\xac!\xff", ready(&log));
    transcript_finish(&log);
    ASSERT_STR_EQ("a\xe2\x82\xac!\xff\xf0\x9f", ready(&log));
    transcript_clear(&log);
    PASS();
}

TEST a_piece_never_ends_inside_a_character(void)
{
    const char *text = "ab\xe2\x82\xac"
                       "cd";
    ASSERT_EQ(7, transcript_whole(text, 7, 100));
    ASSERT_EQ(2, transcript_whole(text, 7, 3));
    ASSERT_EQ(2, transcript_whole(text, 7, 4));
    ASSERT_EQ(5, transcript_whole(text, 7, 5));
    ASSERT_EQ(6, transcript_whole(text, 7, 6));
    PASS();
}

TEST old_lines_go_first_and_what_is_kept_begins_with_a_line(void)
{
    struct transcript log = TRANSCRIPT_INIT(true);
    uint64_t written = 0;
    for (int i = 0; i < 3000; i++) {
        char line[32];
        snprintf(line, sizeof line, "line %06d\n", i);
        add(&log, line);
        written += strlen(line);
        transcript_trim(&log, UINT64_MAX, 4096);
        ASSERT(log.text.size <= 2 * 4096);
    }
    ASSERT(log.base > 0 && log.base % 12 == 0);
    ASSERT_EQ(written, log.base + log.text.size);
    ASSERT(log.text.size >= 4096);
    ASSERT_EQ(0, strncmp(log.text.data, "line ", 5));
    transcript_clear(&log);
    ASSERT_EQ(written, log.base);
    PASS();
}

TEST nothing_is_dropped_that_is_held_or_not_ready(void)
{
    struct transcript log = TRANSCRIPT_INIT(true);
    for (int i = 0; i < 5000; i++)
        add(&log, "0123456789\n");
    transcript_trim(&log, 100, 1000);
    ASSERT(log.base <= 100);
    transcript_trim(&log, UINT64_MAX, 1000);
    uint64_t base = log.base;
    for (int i = 0; i < 5000; i++)
        add(&log, "0123456789");
    transcript_trim(&log, UINT64_MAX, 1000);
    ASSERT(log.base <= base + 1100); /* the open line of 50,000 bytes stays whole */
    ASSERT(log.text.size >= 50000);
    transcript_clear(&log);
    PASS();
}

TEST an_endless_line_is_handed_on_in_parts_and_the_end_is_kept(void)
{
    struct transcript log = TRANSCRIPT_INIT(true);
    static char piece[64 * 1024];
    memset(piece, 'x', sizeof piece);
    size_t most = 0;
    for (int i = 0; i < 2048; i++) {
        transcript_add(&log, piece, sizeof piece);
        transcript_trim(&log, UINT64_MAX, TRANSCRIPT_KEPT);
        most = log.text.size > most ? log.text.size : most;
    }
    transcript_finish(&log);
    transcript_trim(&log, UINT64_MAX, TRANSCRIPT_KEPT);
    ASSERT(most <= (size_t)TRANSCRIPT_LINE_MAX + 2 * TRANSCRIPT_KEPT);
    ASSERT(log.text.size >= TRANSCRIPT_KEPT);
    ASSERT_EQ(2048ULL * sizeof piece + 1, log.base + log.text.size);
    transcript_clear(&log);
    PASS();
}

TEST a_part_of_a_line_is_ready_when_there_is_no_room_to_wait(void)
{
    struct transcript log = TRANSCRIPT_INIT(true);
    add(&log, "first\nsecond \xe2\x82");
    transcript_part(&log);
    ASSERT_STR_EQ("first\nsecond ", ready(&log));
    add(&log, "\xac\n");
    ASSERT_STR_EQ("first\nsecond \xe2\x82\xac\n", ready(&log));
    transcript_part(&log);
    ASSERT_STR_EQ("first\nsecond \xe2\x82\xac\n", ready(&log));
    transcript_clear(&log);
    PASS();
}

TEST a_gap_says_how_much_is_missing(void)
{
    CLEANUP_BUF struct buf text = BUF_INIT(100);
    ASSERT_EQ(0, transcript_gap(&text, 12));
    ASSERT_STR_EQ("[sandpit: 12 bytes of older output dropped]\n", buf_text(&text));
    PASS();
}

SUITE(transcripts)
{
    RUN_TEST(a_line_is_ready_when_it_is_complete);
    RUN_TEST(nul_bytes_are_dropped_from_lines_only);
    RUN_TEST(without_lines_only_a_cut_character_waits);
    RUN_TEST(a_piece_never_ends_inside_a_character);
    RUN_TEST(old_lines_go_first_and_what_is_kept_begins_with_a_line);
    RUN_TEST(nothing_is_dropped_that_is_held_or_not_ready);
    RUN_TEST(an_endless_line_is_handed_on_in_parts_and_the_end_is_kept);
    RUN_TEST(a_part_of_a_line_is_ready_when_there_is_no_room_to_wait);
    RUN_TEST(a_gap_says_how_much_is_missing);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(transcripts);
    GREATEST_MAIN_END();
}
