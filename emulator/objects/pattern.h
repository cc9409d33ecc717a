/* What waitForLog looks for in a process's output: a text, or a regular expression with
 * JavaScript's meaning. Output grows, so a search goes on where the last one found nothing that
 * could still become a match; and it comes in slices, so that a costly expression does not hold the
 * loop. */
#ifndef SANDPIT_OBJECTS_PATTERN_H
#define SANDPIT_OBJECTS_PATTERN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct pattern;

/* Output of one stream, of which only the end is kept that a match could begin in. */
struct pattern_text {
    struct buf text;
    size_t resume;    /* no match begins before this */
    size_t at;        /* how far the search under way has come */
    size_t seen;      /* the size of the text when it began */
    bool second;      /* it has found no match, and looks where one may have begun */
    int64_t spent_ns; /* by it; 0 = there is none */
    bool searched;    /* the end was reached */
    bool cut;         /* the text does not begin with the first byte any more */
};
#define PATTERN_TEXT_INIT ((struct pattern_text){.text = BUF_INIT((size_t)192 << 20)})

enum pattern_result {
    PATTERN_NONE,
    PATTERN_FOUND,
    PATTERN_MORE,   /* the turn is over: search again */
    PATTERN_COSTLY, /* the expression takes too long: give up */
};

/* From a string, where "/source/flags" is a regular expression, or from {source, flags}. NULL with
 * err when it is none of them or JavaScript would refuse it. */
struct pattern *pattern_new(const json_t *spec, struct error *err);
void pattern_free(struct pattern *pattern);
/* As error messages show it: "text" in quotes, or /source/flags. */
const char *pattern_shown(const struct pattern *pattern);

/* Adds UTF-8 text: whole characters. */
int pattern_add(struct pattern_text *text, const char *data, size_t size);
/* PATTERN_FOUND gives {line} or {line, match}, a new reference. */
enum pattern_result pattern_search(const struct pattern *pattern, struct pattern_text *text,
                                   json_t **found);
/* Whether ^ and $ at lines, which takes the flag m, would have matched. */
bool pattern_matches_lines(const struct pattern *pattern, const struct pattern_text *text);

/* Writes a JavaScript expression as PCRE2 understands it: pattern_js.c. */
int pattern_translate(struct buf *to, const char *source, size_t size, bool unicode,
                      struct error *err);

#endif
