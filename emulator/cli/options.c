#include "cli/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "worker/nearest.h"

enum { HELP_COLUMN = 30, WORD_MAX = 40 };

#define IGNORED_FLAG(NAME)                                                                         \
    {                                                                                              \
        .kind = OPT_KIND_IGNORED_FLAG, .name = (NAME)                                              \
    }
#define IGNORED_VALUE(NAME)                                                                        \
    {                                                                                              \
        .kind = OPT_KIND_IGNORED_VALUE, .name = (NAME)                                             \
    }

const struct opt opt_wrangler[] = {
    IGNORED_VALUE("alias"),
    IGNORED_VALUE("assets"),
    IGNORED_FLAG("bundle"),
    IGNORED_VALUE("compatibility-date"),
    IGNORED_VALUE("compatibility-flag"),
    IGNORED_VALUE("compatibility-flags"),
    IGNORED_VALUE("container-engine"),
    IGNORED_VALUE("define"),
    IGNORED_FLAG("enable-containers"),
    {.kind = OPT_KIND_IGNORED_VALUE, .name = "env", .letter = 'e'},
    IGNORED_VALUE("env-file"),
    IGNORED_VALUE("host"),
    IGNORED_VALUE("https-cert-path"),
    IGNORED_VALUE("https-key-path"),
    IGNORED_VALUE("inspector-ip"),
    IGNORED_VALUE("inspector-port"),
    IGNORED_VALUE("jsx-factory"),
    IGNORED_VALUE("jsx-fragment"),
    IGNORED_FLAG("latest"),
    IGNORED_FLAG("live-reload"),
    IGNORED_VALUE("local-upstream"),
    IGNORED_FLAG("minify"),
    IGNORED_VALUE("name"),
    IGNORED_VALUE("route"),
    IGNORED_VALUE("routes"),
    IGNORED_FLAG("show-interactive-dev-session"),
    IGNORED_VALUE("site"),
    IGNORED_FLAG("test-scheduled"),
    IGNORED_VALUE("tsconfig"),
    IGNORED_FLAG("tunnel"),
    IGNORED_VALUE("tunnel-name"),
    IGNORED_FLAG("types"),
    IGNORED_VALUE("upstream-protocol"),
    IGNORED_VALUE("var"),
    OPT_END,
};

static bool takes_value(const struct opt *opt)
{
    return opt->kind != OPT_KIND_FLAG && opt->kind != OPT_KIND_IGNORED_FLAG;
}

static void print_row(const struct opt *opt)
{
    char left[128];
    char letter[8] = "    ";
    if (opt->letter)
        snprintf(letter, sizeof letter, "-%c, ", opt->letter);
    int width = snprintf(left, sizeof left, "  %s--%s%s%s", letter, opt->name,
                         takes_value(opt) ? " " : "", opt->value ? opt->value : "");
    if (width >= HELP_COLUMN)
        printf("%s\n%*s%s\n", left, HELP_COLUMN, "", opt->help);
    else
        printf("%-*s%s\n", HELP_COLUMN, left, opt->help);
}

static void print_help(const struct opt_command *command)
{
    bool bold = log_colours(1);
    printf("%sUsage:%s %s\n\n%s\n\n%sOptions:%s\n", bold ? "\033[1m" : "", bold ? "\033[0m" : "",
           command->synopsis, command->about, bold ? "\033[1m" : "", bold ? "\033[0m" : "");
    for (const struct opt *opt = command->rows; opt && opt->kind; opt++) {
        if (opt->help)
            print_row(opt);
    }
    for (const struct opt *opt = command->more; opt && opt->kind; opt++) {
        if (opt->help)
            print_row(opt);
    }
    print_row(&(struct opt){.kind = OPT_KIND_FLAG, .name = "help", .letter = 'h', .help = "this"});
}

/* The state of one opt_parse call. */
struct parse {
    const struct opt_command *command;
    int argc;
    char **argv;
    int at;
    char ignored[256];
};

static const struct opt *find_in(const struct opt *opt, const char *name, size_t length,
                                 char letter)
{
    for (; opt && opt->kind; opt++) {
        if (name ? strlen(opt->name) == length && memcmp(opt->name, name, length) == 0
                 : opt->letter == letter)
            return opt;
    }
    return NULL;
}

static const struct opt *find(const struct parse *parse, const char *name, size_t length,
                              char letter)
{
    const struct opt *opt = find_in(parse->command->rows, name, length, letter);
    return opt ? opt : find_in(parse->command->more, name, length, letter);
}

static const char *command_name(const struct parse *parse)
{
    return parse->argv[0];
}

static int usage(const struct parse *parse, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int usage(const struct parse *parse, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sandpit %s: ", command_name(parse));
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry: sandpit %s --help\n", command_name(parse));
    va_end(args);
    return OPT_USAGE;
}

static int unknown(const struct parse *parse, const char *argument)
{
    char word[WORD_MAX + 1];
    const char *start = argument + strspn(argument, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(start, "="), start);
    struct nearest nearest = nearest_to(word);
    const struct opt *tables[] = {parse->command->rows, parse->command->more};
    for (size_t i = 0; i < 2; i++) {
        for (const struct opt *opt = tables[i]; opt && opt->kind; opt++)
            nearest_try(&nearest, opt->name);
    }
    nearest_try(&nearest, "help");
    int length = (int)strcspn(argument, "=");
    if (nearest.best && strlen(word) > 2)
        return usage(parse, "unknown option %.*s; did you mean --%s?", length, argument,
                     nearest.best);
    return usage(parse, "unknown option %.*s", length, argument);
}

static bool is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices; *at;) {
        size_t word = strcspn(at, "|");
        if (word == length && memcmp(at, value, length) == 0)
            return true;
        at += word + (at[word] == '|');
    }
    return false;
}

static int set_number(const struct parse *parse, const struct opt *opt, const char *value)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!*value || *end || errno || number < opt->min || number > opt->max)
        return usage(parse, "--%s takes a number from %ld to %ld, not '%s'", opt->name, opt->min,
                     opt->max, value);
    *(long *)opt->to = number;
    return OPT_GO;
}

static void note_ignored(struct parse *parse, const struct opt *opt)
{
    size_t used = strlen(parse->ignored);
    snprintf(parse->ignored + used, sizeof parse->ignored - used, "%s--%s", used ? ", " : "",
             opt->name);
}

static int set_value(struct parse *parse, const struct opt *opt, const char *value)
{
    struct opt_list *list = opt->to;
    switch (opt->kind) {
    case OPT_KIND_TEXT:
        *(const char **)opt->to = value;
        return OPT_GO;
    case OPT_KIND_CHOICE:
        if (!is_choice(opt->choices, value))
            return usage(parse, "--%s takes one of %s, not '%s'", opt->name, opt->choices, value);
        *(const char **)opt->to = value;
        return OPT_GO;
    case OPT_KIND_NUMBER:
        return set_number(parse, opt, value);
    case OPT_KIND_LIST:
        if (list->count == OPT_LIST_MAX)
            return usage(parse, "--%s is given more than %d times", opt->name, OPT_LIST_MAX);
        list->items[list->count++] = value;
        return OPT_GO;
    case OPT_KIND_IGNORED_VALUE:
        note_ignored(parse, opt);
        return OPT_GO;
    case OPT_KIND_END:
    case OPT_KIND_FLAG:
    case OPT_KIND_IGNORED_FLAG:
        break;
    }
    return OPT_GO;
}

/* `value` is NULL for a bare --flag; `negated` when it was --no-flag. */
static int set_flag(struct parse *parse, const struct opt *opt, const char *value, bool negated)
{
    if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return usage(parse, "--%s is true or false, not '%s'", opt->name, value);
    if (opt->kind == OPT_KIND_IGNORED_FLAG)
        note_ignored(parse, opt);
    else
        *(bool *)opt->to = (!value || strcmp(value, "true") == 0) != negated;
    return OPT_GO;
}

static int next_value(struct parse *parse, const struct opt *opt, const char **value)
{
    if (parse->at >= parse->argc)
        return usage(parse, "--%s needs a value%s%s", opt->name, opt->value ? ": " : "",
                     opt->value ? opt->value : "");
    *value = parse->argv[parse->at++];
    return OPT_GO;
}

static int parse_long(struct parse *parse, const char *argument)
{
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] ? name + length + 1 : NULL;
    const struct opt *opt = find(parse, name, length, 0);
    bool negated = false;
    if (!opt && length > 3 && strncmp(name, "no-", 3) == 0) {
        opt = find(parse, name + 3, length - 3, 0);
        negated = opt != NULL;
        if (opt && takes_value(opt))
            opt = NULL;
    }
    if (!opt && length == 4 && strncmp(name, "help", 4) == 0) {
        print_help(parse->command);
        return 0;
    }
    if (!opt)
        return unknown(parse, argument);
    if (!takes_value(opt))
        return set_flag(parse, opt, value, negated);
    int code = value ? OPT_GO : next_value(parse, opt, &value);
    return code == OPT_GO ? set_value(parse, opt, value) : code;
}

/* -x, -xy (flags), -n5, -n 5, -n=5. */
static int parse_letters(struct parse *parse, const char *argument)
{
    for (const char *at = argument + 1; *at; at++) {
        const struct opt *opt = find(parse, NULL, 0, *at);
        if (!opt && *at == 'h') {
            print_help(parse->command);
            return 0;
        }
        if (!opt)
            return unknown(parse, argument);
        if (!takes_value(opt)) {
            set_flag(parse, opt, NULL, false);
            continue;
        }
        const char *value = at[1] ? at + 1 + (at[1] == '=') : NULL;
        int code = value ? OPT_GO : next_value(parse, opt, &value);
        return code == OPT_GO ? set_value(parse, opt, value) : code;
    }
    return OPT_GO;
}

static int check_counts(const struct parse *parse, const struct opt_rest *rest)
{
    const struct opt_command *command = parse->command;
    if (rest->argument_count < command->min)
        return usage(parse, "an argument is missing: %s", command->synopsis);
    if (rest->argument_count > command->max)
        return usage(parse, "'%s' is one argument too many", rest->arguments[command->max]);
    return OPT_GO;
}

int opt_parse(const struct opt_command *command, int argc, char **argv, struct opt_rest *rest)
{
    struct parse parse = {.command = command, .argc = argc, .argv = argv, .at = 1};
    *rest = (struct opt_rest){.arguments = argv + 1};
    int code = OPT_GO;
    while (parse.at < argc && code == OPT_GO) {
        char *argument = argv[parse.at];
        bool dashes = strcmp(argument, "--") == 0;
        bool plain = argument[0] != '-' || argument[1] == '\0';
        if (dashes || (plain && command->rest && rest->argument_count == command->max)) {
            parse.at += dashes;
            break;
        }
        parse.at++;
        if (plain) /* never behind `at`, so nothing unread is overwritten */
            rest->arguments[rest->argument_count++] = argument;
        else if (argument[1] == '-')
            code = parse_long(&parse, argument);
        else
            code = parse_letters(&parse, argument);
    }
    if (code != OPT_GO)
        return code;
    if (!command->rest) { /* then "--" only says that the remainder is no option */
        while (parse.at < argc)
            rest->arguments[rest->argument_count++] = argv[parse.at++];
    }
    rest->rest = argv + parse.at;
    rest->rest_count = argc - parse.at;
    code = check_counts(&parse, rest);
    if (code == OPT_GO && parse.ignored[0])
        log_warn("ignored: %s (wrangler's; without meaning here)", parse.ignored);
    return code;
}
