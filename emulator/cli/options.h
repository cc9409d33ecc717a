/* Command-line options as a table. A command declares its rows next to the variables they fill,
 * calls opt_parse(), and goes on only when that returns OPT_GO:
 *
 *     long port = 8787;
 *     bool quiet = false;
 *     const struct opt rows[] = {
 *         OPT_NUMBER("port", 'p', &port, 0, 65535, "N", "listen on port N (0 = any)"),
 *         OPT_FLAG("quiet", 'q', &quiet, "say less"),
 *         OPT_END,
 *     };
 *     const struct opt_command command = {
 *         .synopsis = "sandpit dev [options] [DIR]", .about = "…", .rows = rows, .max = 1};
 *     struct opt_rest rest;
 *     int code = opt_parse(&command, argc, argv, &rest);
 *     if (code != OPT_GO)
 *         return code;
 *
 * Understood: --name value, --name=value, -n value, -nvalue, --flag, --flag=false, --no-flag, and
 * "--", after which nothing is an option. The values point into argv. */
#ifndef SANDPIT_CLI_OPTIONS_H
#define SANDPIT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum opt_kind {
    OPT_KIND_END,
    OPT_KIND_FLAG,
    OPT_KIND_TEXT,
    OPT_KIND_CHOICE,
    OPT_KIND_NUMBER,
    OPT_KIND_LIST,
    OPT_KIND_IGNORED_FLAG,
    OPT_KIND_IGNORED_VALUE,
};

enum { OPT_LIST_MAX = 128, OPT_GO = -1, OPT_USAGE = 2 };

/* What an option that may be repeated gave, in order. */
struct opt_list {
    const char *items[OPT_LIST_MAX];
    size_t count;
};

struct opt {
    enum opt_kind kind;
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    void *to;
    const char *value;   /* how help shows the value: "N", "DIR" */
    const char *help;    /* one line; NULL hides the option from help */
    const char *choices; /* "on|off" */
    long min, max;
};

/* The pointer, with its type checked by the compiler. */
#define OPT_TO(TYPE, POINTER) (1 ? (POINTER) : (TYPE *)0)
#define OPT_END                                                                                    \
    {                                                                                              \
        .kind = OPT_KIND_END                                                                       \
    }
#define OPT_FLAG(NAME, LETTER, BOOL_TO, HELP)                                                      \
    {                                                                                              \
        .kind = OPT_KIND_FLAG, .name = (NAME), .letter = (LETTER), .to = OPT_TO(bool, BOOL_TO),    \
        .help = (HELP)                                                                             \
    }
#define OPT_TEXT(NAME, LETTER, TEXT_TO, VALUE, HELP)                                               \
    {                                                                                              \
        .kind = OPT_KIND_TEXT, .name = (NAME), .letter = (LETTER),                                 \
        .to = OPT_TO(const char *, TEXT_TO), .value = (VALUE), .help = (HELP)                      \
    }
/* One of the words in CHOICES, which also stand for the value in help. */
#define OPT_CHOICE(NAME, LETTER, TEXT_TO, CHOICES, HELP)                                           \
    {                                                                                              \
        .kind = OPT_KIND_CHOICE, .name = (NAME), .letter = (LETTER),                               \
        .to = OPT_TO(const char *, TEXT_TO), .value = (CHOICES), .help = (HELP),                   \
        .choices = (CHOICES)                                                                       \
    }
#define OPT_NUMBER(NAME, LETTER, LONG_TO, MIN, MAX, VALUE, HELP)                                   \
    {                                                                                              \
        .kind = OPT_KIND_NUMBER, .name = (NAME), .letter = (LETTER), .to = OPT_TO(long, LONG_TO),  \
        .value = (VALUE), .help = (HELP), .min = (MIN), .max = (MAX)                               \
    }
#define OPT_LIST(NAME, LETTER, LIST_TO, VALUE, HELP)                                               \
    {                                                                                              \
        .kind = OPT_KIND_LIST, .name = (NAME), .letter = (LETTER),                                 \
        .to = OPT_TO(struct opt_list, LIST_TO), .value = (VALUE), .help = (HELP)                   \
    }

struct opt_command {
    const char *synopsis; /* "sandpit dev [options] [DIR]" */
    const char *about;    /* what it does, lines of at most 80 columns */
    const struct opt *rows;
    const struct opt *more; /* searched after rows: opt_target rows, opt_wrangler; or NULL */
    int min, max;           /* how many arguments there may be before the command's rest */
    bool rest; /* after `max` arguments (or "--") the remainder is kept as it is: a command line */
};

struct opt_rest {
    char **arguments; /* argument_count of them */
    int argument_count;
    char **rest; /* what followed "--" (or the last argument, with .rest); rest_count of them */
    int rest_count;
};

/* argv[0] is the command's name and is passed over. Returns OPT_GO, 0 when help was printed, or
 * OPT_USAGE (2) after a message. argv is reordered, never written through. */
int opt_parse(const struct opt_command *command, int argc, char **argv, struct opt_rest *rest);

/* wrangler's documented flags that mean nothing here: taken with one warning, so that a command
 * line written for wrangler works. A command's own rows come first. */
extern const struct opt opt_wrangler[];

#endif
