#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

/* The longest message shown, as it is shown; what is longer ends in an ellipsis. */
#define MESSAGE_MAX 8192
#define NAME_MAX_SHOWN 128
#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT "\xef\xbf\xbd"

struct style {
    const char *word;   /* for --log-level and JSON */
    const char *prefix; /* of a text line */
    const char *colour; /* the escape sequence the prefix is shown with */
};

static const struct style STYLES[] = {
    [LOG_DEBUG] = {"debug", "[sandpit:debug]", "\x1b[2m"},
    [LOG_INFO] = {"info", "[sandpit:info]", "\x1b[2m"},
    [LOG_LOG] = {"log", "", ""},
    [LOG_WARN] = {"warn", "▲ [WARNING]", "\x1b[33m"},
    [LOG_ERROR] = {"error", "✘ [ERROR]", "\x1b[31m"},
    [LOG_NONE] = {"none", "", ""},
};

static enum log_level least = LOG_LOG;
static enum log_format format_now = LOG_TEXT;
static long long (*clock_now_ms)(void *arg);
static void *clock_arg;
static int terminal = -1; /* whether standard error is one, once that was asked */

void log_setup(enum log_level level, enum log_format format)
{
    least = level;
    format_now = format;
    terminal = -1;
}

void log_set_clock(long long (*now_ms)(void *arg), void *arg)
{
    clock_now_ms = now_ms;
    clock_arg = arg;
}

int log_level_parse(const char *word)
{
    for (int i = LOG_DEBUG; i <= LOG_NONE; i++)
        if (strcmp(word, STYLES[i].word) == 0)
            return i;
    return -1;
}

bool log_enabled(enum log_level level)
{
    return level != LOG_NONE && level >= least;
}

/* The kernel is not asked again for each line. */
static bool is_terminal(int fd)
{
    if (fd != STDERR_FILENO)
        return isatty(fd);
    if (terminal < 0)
        terminal = isatty(fd);
    return terminal;
}

bool log_colours(int fd)
{
    const char *force = getenv("FORCE_COLOR");
    if (force && *force)
        return strcmp(force, "0") != 0;
    const char *no = getenv("NO_COLOR");
    if (no && *no)
        return false;
    const char *term = getenv("TERM");
    return is_terminal(fd) && !(term && strcmp(term, "dumb") == 0);
}

/* A line in the making, with room for what goes around the longest message. */
struct line {
    char text[MESSAGE_MAX + 8 * NAME_MAX_SHOWN + 256];
    size_t size;
};

static void put(struct line *line, const char *text, size_t size)
{
    if (size > sizeof line->text - line->size)
        size = sizeof line->text - line->size;
    memcpy(line->text + line->size, text, size);
    line->size += size;
}

static void puts_line(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* How the character of `size` bytes at `at` is shown. What could steer a terminal (C0, DEL and the
 * C1 controls U+0080 to U+009F) is spelled out: messages hold text from sandboxes. */
static int show(const char *at, int size, bool json, char to[8])
{
    unsigned char c = (unsigned char)at[0];
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') { /* most of them */
        to[0] = (char)c;
        return 1;
    }
    if (size < 0)
        return snprintf(to, 8, "%s", REPLACEMENT);
    if (json && (c == '"' || c == '\\'))
        return snprintf(to, 8, "\\%c", c);
    if (c == '\n' || c == '\t') {
        const char *escape = c == '\n' ? "\\n" : "\\t";
        return json ? snprintf(to, 8, "%s", escape) : snprintf(to, 8, "%c", c);
    }
    if (size == 2 && c == 0xc2 && (unsigned char)at[1] < 0xa0)
        c = (unsigned char)at[1];
    else if (c >= 0x20 && c != 0x7f)
        return snprintf(to, 8, "%.*s", size, at);
    return snprintf(to, 8, json ? "\\u%04x" : "\\x%02x", c);
}

/* Appends a message, cut when it is `cut` already or becomes too long. */
static void put_message(struct line *line, const char *message, size_t size, bool json, bool cut)
{
    const char *end = message + size;
    size_t limit = line->size + MESSAGE_MAX;
    while (message < end) {
        int step = utf8_step(message, end);
        int length = step < 0 ? -step : step;
        /* The cut may have left half a character behind. */
        if (cut && step < 0 && message + length == end)
            break;
        char shown[8];
        int used = show(message, step, json, shown);
        if (line->size + (size_t)used > limit) {
            cut = true;
            break;
        }
        put(line, shown, (size_t)used);
        message += length;
    }
    if (cut)
        puts_line(line, ELLIPSIS);
}

static void put_time(struct line *line)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long ms = clock_now_ms ? clock_now_ms(clock_arg) : 0;
    if (ms == 0)
        ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts = {0};
    gmtime_r(&seconds, &parts);
    char text[64];
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    put(line, text, size);
    snprintf(text, sizeof text, ".%03dZ", (int)(ms % 1000));
    puts_line(line, text);
}

static void put_prefix(struct line *line, const struct style *style)
{
    if (!*style->prefix)
        return;
    bool colours = log_colours(STDERR_FILENO);
    if (colours)
        puts_line(line, style->colour);
    puts_line(line, style->prefix);
    puts_line(line, colours ? "\x1b[0m " : " ");
}

/* One write(2), so that lines of several processes on one terminal do not mix; more only when the
 * kernel took a part. A log that cannot be written is given up in silence: there is nowhere left to
 * say so. */
static void send_line(const struct line *line)
{
    size_t sent = 0;
    while (sent < line->size) {
        ssize_t wrote = write(STDERR_FILENO, line->text + sent, line->size - sent);
        if (wrote < 0 && errno != EINTR)
            return;
        if (wrote > 0)
            sent += (size_t)wrote;
    }
}

const char *log_name_colour(const char *name)
{
    static const char *const colours[] = {"\x1b[36m", "\x1b[35m", "\x1b[34m", "\x1b[32m",
                                          "\x1b[96m", "\x1b[95m", "\x1b[94m", "\x1b[92m"};
    unsigned hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return colours[(hash >> 8) % (sizeof colours / sizeof *colours)];
}

static void put_name(struct line *line, const char *name)
{
    bool colours = log_colours(STDERR_FILENO);
    puts_line(line, colours ? log_name_colour(name) : "");
    puts_line(line, "[");
    put_message(line, name, strnlen(name, NAME_MAX_SHOWN), false, false);
    puts_line(line, colours ? "]\x1b[0m " : "] ");
}

/* `name` may be NULL. */
static void put_line(struct line *line, enum log_level level, const char *name, const char *message,
                     size_t size, bool cut)
{
    if (format_now == LOG_TEXT) {
        put_prefix(line, &STYLES[level]);
        if (name)
            put_name(line, name);
        put_message(line, message, size, false, cut);
        puts_line(line, "\n");
        return;
    }
    puts_line(line, "{\"level\":\"");
    puts_line(line, STYLES[level].word);
    puts_line(line, "\",\"time\":\"");
    put_time(line);
    if (name) {
        puts_line(line, "\",\"sandbox\":\"");
        put_message(line, name, strnlen(name, NAME_MAX_SHOWN), true, false);
    }
    puts_line(line, "\",\"msg\":\"");
    put_message(line, message, size, true, cut);
    puts_line(line, "\"}\n");
}

__attribute__((format(printf, 3, 0))) static void
write_line(enum log_level level, const char *name, const char *format, va_list args)
{
    int saved = errno;
    char message[MESSAGE_MAX + 1];
    int made = vsnprintf(message, sizeof message, format, args);
    if (made >= 0) {
        bool cut = (size_t)made >= sizeof message;
        struct line line;
        line.size = 0;
        put_line(&line, level, name, message, cut ? sizeof message - 1 : (size_t)made, cut);
        send_line(&line);
    }
    errno = saved;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    va_list args;
    va_start(args, format);
    write_line(level, NULL, format, args);
    va_end(args);
}

void log_about(enum log_level level, const char *name, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    va_list args;
    va_start(args, format);
    write_line(level, name, format, args);
    va_end(args);
}
