/* Times and durations as text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock/clock.h"

/* Longer spans than a century are taken for mistakes, and leave room for sums below 2^63. */
#define DURATION_MAX_MS ((int64_t)100 * 366 * 24 * 3600 * 1000)

/* "2026-01-31T12:30:59". Every answer has a time, and most have that of the one before. */
static const char *date_of(time_t seconds)
{
    static char text[64];
    static time_t known;
    if (!*text || seconds != known) {
        struct tm tm;
        gmtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
        known = seconds;
    }
    return text;
}

void clock_format(int64_t ms, char to[25])
{
    time_t seconds = (time_t)(ms / 1000);
    int rest = (int)(ms % 1000);
    if (rest < 0) {
        rest += 1000;
        seconds--;
    }
    memcpy(to, date_of(seconds), 19);
    to[19] = '.';
    to[20] = (char)('0' + rest / 100);
    to[21] = (char)('0' + rest / 10 % 10);
    to[22] = (char)('0' + rest % 10);
    memcpy(to + 23, "Z", 2);
}

json_t *clock_timestamp(const struct clock *clock)
{
    char text[25];
    clock_format(clock_now_ms(clock), text);
    return json_stringn_nocheck(text, 24);
}

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"ms", 1}, {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000},
};

static const struct unit *unit_at(const char *text)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strncmp(text, units[i].name, strlen(units[i].name)) == 0)
            return &units[i];
    }
    return NULL;
}

int64_t clock_parse_duration(const char *text)
{
    int64_t total = 0;
    if (!*text)
        return -EINVAL;
    while (*text) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        int64_t number = 0;
        for (; *text >= '0' && *text <= '9'; text++) {
            number = number * 10 + (*text - '0');
            if (number > DURATION_MAX_MS)
                return -ERANGE;
        }
        const struct unit *unit = unit_at(text);
        if (!unit)
            return -EINVAL;
        if (number > (DURATION_MAX_MS - total) / unit->ms)
            return -ERANGE;
        total += number * unit->ms;
        text += strlen(unit->name);
    }
    return total;
}

/* Exactly `count` digits; moves on, or gives -1. */
static int digits(const char **text, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return -1;
        number = number * 10 + (**text - '0');
    }
    return number;
}

static bool skip(const char **text, char c)
{
    if (**text != c)
        return false;
    (*text)++;
    return true;
}

/* "Z" or "±hh:mm" to the end of the text; minutes east of UTC, or -100000. */
static int zone(const char *text)
{
    if (text[0] == 'Z')
        return text[1] ? -100000 : 0;
    int sign = *text == '+' ? 1 : *text == '-' ? -1 : 0;
    if (!sign)
        return -100000;
    text++;
    int hours = digits(&text, 2);
    if (hours < 0 || hours > 23 || !skip(&text, ':'))
        return -100000;
    int minutes = digits(&text, 2);
    return minutes < 0 || minutes > 59 || *text ? -100000 : sign * (hours * 60 + minutes);
}

static bool parse_date(const char **text, struct tm *tm)
{
    tm->tm_year = digits(text, 4) - 1900;
    if (tm->tm_year < 70 || !skip(text, '-'))
        return false;
    tm->tm_mon = digits(text, 2) - 1;
    if (tm->tm_mon < 0 || tm->tm_mon > 11 || !skip(text, '-'))
        return false;
    tm->tm_mday = digits(text, 2);
    return tm->tm_mday >= 1 && tm->tm_mday <= 31;
}

static bool parse_clock(const char **text, struct tm *tm, int *ms)
{
    tm->tm_hour = digits(text, 2);
    if (tm->tm_hour < 0 || tm->tm_hour > 23 || !skip(text, ':'))
        return false;
    tm->tm_min = digits(text, 2);
    if (tm->tm_min < 0 || tm->tm_min > 59)
        return false;
    if (skip(text, ':')) {
        tm->tm_sec = digits(text, 2);
        if (tm->tm_sec < 0 || tm->tm_sec > 59)
            return false;
        if (skip(text, '.')) {
            int scale = 100;
            for (; **text >= '0' && **text <= '9'; (*text)++, scale /= 10)
                *ms += (**text - '0') * scale;
        }
    }
    return true;
}

int64_t clock_parse_time(const char *text)
{
    struct tm tm = {0};
    int ms = 0, minutes = 0;
    if (!parse_date(&text, &tm))
        return -1;
    int day = tm.tm_mday;
    if (*text) {
        if (!skip(&text, 'T') || !parse_clock(&text, &tm, &ms))
            return -1;
        minutes = zone(text);
        if (minutes == -100000)
            return -1;
    }
    time_t seconds = timegm(&tm);
    if (tm.tm_mday != day) /* 31 February */
        return -1;
    return (int64_t)seconds * 1000 + ms - (int64_t)minutes * 60000;
}
