/* Demos: text files that tell a story by requests and what must come of them. docs/demos.md
 * describes the format; demo_read.c reads it, demo_play.c plays it, demo_curl.c prints it for a
 * shell. */
#ifndef SANDPIT_CLI_DEMO_H
#define SANDPIT_CLI_DEMO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/client.h"

enum { DEMO_CHECKS_MAX = 16, DEMO_SAVES_MAX = 4, DEMO_SHOWS_MAX = 8, DEMO_OPTIONS_MAX = 32 };
enum { DEMO_FILES_MAX = 8, DEMO_NEEDS_MAX = 8, DEMO_BYTES_MAX = 1 << 20 };

enum demo_relation {
    DEMO_STATUS, /* the status is `status` */
    DEMO_TEXT,   /* the body contains the value */
    DEMO_NO_TEXT,
    DEMO_IS, /* from here on: the JSON at `path` */
    DEMO_IS_NOT,
    DEMO_HAS, /* as text contains the value */
    DEMO_AT_LEAST,
    DEMO_BELOW,
    DEMO_EXISTS,
    DEMO_ABSENT,
};

/* An `expect` line. */
struct demo_check {
    int line;
    enum demo_relation relation;
    int status;
    const char *text;  /* as written after "expect", for the story */
    char path[128];    /* ".files[0].name"; "." is the whole answer */
    const char *value; /* JSON as written; may have {{names}} */
};

struct demo_save {
    const char *name;
    char path[128];
};

enum demo_kind { DEMO_HEADING, DEMO_PROSE, DEMO_REQUEST, DEMO_CLOCK };

struct demo_step {
    enum demo_kind kind;
    int line;
    const char *text;          /* of headings and prose; "advance 10m" of clock lines */
    const char *method, *path; /* of requests */
    const char *body;          /* or NULL */
    struct buf headers;        /* whole lines with CRLF */
    struct demo_check checks[DEMO_CHECKS_MAX];
    size_t check_count;
    struct demo_save saves[DEMO_SAVES_MAX];
    size_t save_count;
    char shows[DEMO_SHOWS_MAX]
              [128]; /* what of the answer is printed; none = all of it, shortened */
    size_t show_count;
};

struct demo_file {
    const char *name;
    const char *lines; /* indented by four spaces, as in the demo */
};

struct demo {
    char *text; /* everything below points into it */
    const char *title;
    const char *options[DEMO_OPTIONS_MAX];
    size_t option_count;
    const char *needs[DEMO_NEEDS_MAX]; /* programs */
    size_t need_count;
    struct demo_file files[DEMO_FILES_MAX];
    size_t file_count;
    struct demo_step *steps;
    size_t step_count;
};
#define CLEANUP_DEMO __attribute__((cleanup(demo_free)))

/* Errors begin with "source:line: ". The struct may be uninitialised; it must be freed also after
 * an error. */
int demo_read(const char *source, const char *text, size_t size, struct demo *demo,
              struct error *err);
void demo_free(struct demo *demo);
/* A file of the demo as it is to be written. */
int demo_file_text(const struct demo_file *file, struct buf *to);

/* The values that `save` lines gave, by name. */
struct demo_values {
    json_t *values; /* an object */
};

/* Appends text with {{names}} replaced; `escaped` makes what comes in fit into a JSON string.
 * -ENOENT with the name in err when there is no such value. */
int demo_expand(struct buf *to, const char *text, const struct demo_values *values, bool escaped,
                struct error *err);
/* The JSON at ".a.b[0]", borrowed; NULL when it is not there. */
const json_t *demo_at(const json_t *json, const char *path);
/* Whether a path is well-formed. */
bool demo_path_valid(const char *path);
/* 0 when it holds; else -EINVAL with what was expected and what came. */
int demo_check(const struct demo_check *check, const struct client_answer *answer,
               const struct demo_values *values, struct error *err);

/* The request that a step stands for: "POST", path, body (NULL or text). */
struct demo_request {
    const char *method;
    char path[512];
    char body[256]; /* of clock lines */
};
void demo_clock_request(const char *text, struct demo_request *request);
/* Whether the words after "clock" are understood. */
bool demo_clock_valid(const char *text);

struct demo_play {
    const char *name; /* "persistence" */
    const char *source;
    bool step; /* wait for a key before each request */
};
/* Plays it on a private emulator. The exit code: 0, 1 when something came otherwise than told, 2
 * when the emulator did not take the options. */
int demo_play(const struct demo *demo, const struct demo_play *play);
/* Appends the story as a shell script of curl lines. */
int demo_curl(const struct demo *demo, const char *name, struct buf *to);

/* Those in the program, sorted by name; ends with a NULL name. */
struct demo_embedded {
    const char *name;
    const char *start, *end;
};
extern const struct demo_embedded demo_embedded[];

#endif
