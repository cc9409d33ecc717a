/* Logging with wrangler's six level words. Text lines look like wrangler's ("✘ [ERROR] …"); with
 * LOG_JSON each line is one JSON object. Goes to stderr; colours only when it is a terminal and
 * NO_COLOR is unset (FORCE_COLOR turns them on). */
#ifndef SANDPIT_BASE_LOG_H
#define SANDPIT_BASE_LOG_H

#include <stdbool.h>

/* In wrangler's order: `log`, its default, says more than `info`. */
enum log_level { LOG_DEBUG, LOG_LOG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_NONE };
enum log_format { LOG_TEXT, LOG_JSON };

void log_setup(enum log_level level, enum log_format format);
/* -1 when the word is not one of debug, info, log, warn, error, none. */
int log_level_parse(const char *word);
bool log_enabled(enum log_level level);
/* Whether escape sequences may be written to this descriptor. */
bool log_colours(int fd);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same about one sandbox: its name stands before the message, always in the same colour. */
void log_about(enum log_level level, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The escape sequence of a name's colour. */
const char *log_name_colour(const char *name);
/* The time shown in JSON lines, in ms since 1970; the clock module sets it, 0 = the real time. */
void log_set_clock(long long (*now_ms)(void *arg), void *arg);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_plain(...) log_write(LOG_LOG, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
