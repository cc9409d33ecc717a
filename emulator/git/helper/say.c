#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

enum { PROGRESS_MS = 300 };

void (*say_undo)(void);

void say(json_t *line)
{
    CLEANUP_FREE char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
    CLEANUP_FREE char *whole = NULL;
    json_decref(line);
    int size = asprintf(&whole, "%s\n", text ? text : "{}");
    for (int done = 0; done < size;) {
        ssize_t wrote = write(STDOUT_FILENO, whole + done, (size_t)(size - done));
        if (wrote <= 0)
            _exit(1);
        done += (int)wrote;
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void say_progress(const char *step, uint64_t done, uint64_t total, uint64_t bytes)
{
    static int64_t last;
    int64_t now = now_ms();
    if (last == 0)
        last = now; /* what is over at once needs no word */
    if (now - last < PROGRESS_MS)
        return;
    last = now;
    say(json_pack("{s:s,s:s,s:I,s:I,s:I}", "type", "progress", "step", step, "done",
                  (json_int_t)done, "total", (json_int_t)total, "bytes", (json_int_t)bytes));
}

/* Texts come from servers and repositories, and may be in any encoding. */
static void make_ascii(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text > 126 || ((unsigned char)*text < ' ' && *text != '\n'))
            *text = '?';
    }
}

void fatal(const char *format, ...)
{
    CLEANUP_FREE char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (say_undo)
        say_undo();
    json_t *words = text ? json_string(text) : NULL;
    if (text && !words) {
        make_ascii(text);
        words = json_string(text);
    }
    say(json_pack("{s:s,s:i,s:o?}", "type", "error", "exit", GIT_FATAL, "stderr", words));
    _exit(1);
}

const char *last_error(void)
{
    const git_error *error = git_error_last();
    return error && error->message ? error->message : "unknown error";
}

void fatal_git(const char *what)
{
    CLEANUP_FREE char *text = strdup(last_error());
    fatal("fatal: %s: %s", what, text ? text : "");
}
