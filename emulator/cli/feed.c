#include "cli/feed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/percent.h"

enum { PATH_BYTES_MAX = 8192, ANSWER_MS = 60000 };

int feed_query(struct feed_request *request, const char *name, const char *value)
{
    if (!value)
        return 0;
    if (!request->query.max)
        request->query = BUF_INIT(PATH_BYTES_MAX / 2);
    int result = buf_addf(&request->query, "&%s=", name);
    return result < 0 ? result : percent_encode(&request->query, value);
}

const char *feed_member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

void feed_put(const char *text, int width)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            putchar('?');
            text++;
        } else {
            putchar((c < 0x20 && c != '\t') || c == 0x7f ? '?' : c);
        }
        width -= (c & 0xc0) != 0x80;
    }
    for (; width > 0; width--)
        putchar(' ');
}

void feed_put_coloured(const char *text, int width, const char *colour)
{
    bool colours = log_colours(fileno(stdout));
    fputs(colours ? colour : "", stdout);
    feed_put(text, width);
    fputs(colours ? "\033[0m" : "", stdout);
}

void feed_put_time(const char *iso)
{
    char text[16];
    const char *start = strchr(iso, 'T');
    snprintf(text, sizeof text, "%.12s", start ? start + 1 : iso);
    feed_put_coloured(text, 12, "\033[2m");
}

static int print_line(void *arg, const char *line)
{
    const struct feed_request *request = arg;
    CLEANUP_JSON json_t *json = request->json ? NULL : json_loads(line, JSON_ALLOW_NUL, NULL);
    if (json)
        request->print(json);
    else
        puts(line);
    return fflush(stdout) == 0 ? 0 : -EPIPE;
}

static int print_all(const struct client *client, const struct feed_request *request,
                     const char *path, struct error *err)
{
    CLEANUP_ANSWER struct client_answer answer = {0};
    int result = client_request(client, "GET", path, NULL, ANSWER_MS, &answer, err);
    if (result < 0)
        return result;
    if (answer.status >= 400)
        return error_set(err, answer.status == 404 ? ENOENT : EINVAL, "%s",
                         feed_member(answer.json, "error"));
    char *at = answer.body.data;
    for (char *end; at && (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        if (print_line((void *)request, at) < 0)
            return error_set(err, EPIPE, "standard output is closed");
    }
    return 0;
}

int feed_run(const struct client *client, const struct feed_request *request, struct error *err)
{
    CLEANUP_BUF struct buf path = BUF_INIT(PATH_BYTES_MAX);
    int result = buf_addf(&path, "/cdn-cgi/local%s%cfollow=%d%s", request->path,
                          strchr(request->path, '?') ? '&' : '?', request->follow,
                          buf_text(&request->query));
    if (result < 0)
        return error_set(err, E2BIG, "the arguments are too long");
    if (request->follow)
        return client_follow(client, buf_text(&path), print_line, (void *)request, err);
    return print_all(client, request, buf_text(&path), err);
}
