#include "container/port_http.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* The head of an answer. */

/* One line without its end; 1, or 0 when its end is not there yet. */
static int take_line(const char **at, const char *end, const char **line, size_t *size)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (!newline)
        return 0;
    *line = *at;
    *size = (size_t)(newline - *at);
    if (*size && (*line)[*size - 1] == '\r')
        --*size;
    *at = newline + 1;
    return 1;
}

/* "HTTP/1.1 200 OK", where the reason may be missing. */
static int parse_status(const char *line, size_t size)
{
    static const char start[] = "HTTP/1.";
    size_t length = sizeof start - 1;
    if (size < length + 5 || memcmp(line, start, length) != 0 ||
        !isdigit((unsigned char)line[length]) || line[length + 1] != ' ')
        return -EBADMSG;
    const char *digits = line + length + 2;
    if (!isdigit((unsigned char)digits[0]) || !isdigit((unsigned char)digits[1]) ||
        !isdigit((unsigned char)digits[2]) || digits[0] == '0')
        return -EBADMSG;
    if (size > length + 5 && digits[3] != ' ')
        return -EBADMSG;
    return (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
}

/* What cannot begin a status line is told without waiting for its end. */
static bool may_be_http(const char *data, size_t size)
{
    static const char start[] = "HTTP/1.";
    return memcmp(data, start, size < sizeof start - 1 ? size : sizeof start - 1) == 0;
}

static void note_location(struct port_head *head, const char *line, size_t size)
{
    static const char name[] = "location:";
    size_t length = sizeof name - 1;
    if (head->location || size < length || strncasecmp(line, name, length) != 0)
        return;
    const char *from = line + length, *end = line + size;
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    head->location = from;
    head->location_size = (size_t)(end - from);
}

/* 1 at the empty line, which is behind *at then. */
static int parse_fields(const char **at, const char *end, struct port_head *head)
{
    const char *line;
    size_t size;
    while (take_line(at, end, &line, &size)) {
        if (size == 0)
            return 1;
        note_location(head, line, size);
    }
    return 0;
}

int port_head_parse(const char *data, size_t size, struct port_head *head)
{
    const char *at = data, *end = data + size, *line;
    size_t line_size;
    for (;;) {
        *head = (struct port_head){.status = 0};
        if (!may_be_http(at, (size_t)(end - at)))
            return -EBADMSG;
        if (!take_line(&at, end, &line, &line_size))
            return 0;
        int status = parse_status(line, line_size);
        if (status < 0)
            return status;
        if (!parse_fields(&at, end, head))
            return 0;
        head->status = status;
        /* After 101 nothing more of HTTP follows. */
        if (status >= 200 || status == 101)
            return 1;
    }
}

/* Targets. */

static bool in_path(unsigned char c)
{
    return c > ' ' && c < 0x7f && !strchr("\"<>^`{}", c);
}

static bool in_query(unsigned char c)
{
    return c > ' ' && c < 0x7f && !strchr("\"<>'", c);
}

static void add_escaped(struct buf *to, const char *from, size_t size,
                        bool (*allowed)(unsigned char c))
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)from[i];
        if (allowed(c))
            buf_addc(to, from[i]);
        else
            buf_addf(to, "%%%02X", c);
    }
}

/* How many dots a segment is: 1, 2, or 0 for any other. A dot may be escaped. */
static int count_dots(const char *segment, size_t size)
{
    int dots = 0;
    while (size) {
        size_t length = *segment == '.'                                    ? 1
                        : size >= 3 && strncasecmp(segment, "%2e", 3) == 0 ? 3
                                                                           : 0;
        if (!length || ++dots > 2)
            return 0;
        segment += length;
        size -= length;
    }
    return dots;
}

/* Takes the last segment away again; the text starts at `start` and begins with a slash. */
static void drop_segment(struct buf *to, size_t start)
{
    while (to->size > start && to->data[to->size - 1] != '/')
        to->size--;
    if (to->size > start)
        to->size--;
    to->data[to->size] = '\0';
}

static void add_path(struct buf *to, const char *path, size_t size)
{
    size_t start = to->size;
    const char *end = path + size;
    if (path < end && (*path == '/' || *path == '\\'))
        path++;
    for (;;) {
        const char *stop = path;
        while (stop < end && *stop != '/' && *stop != '\\')
            stop++;
        int dots = count_dots(path, (size_t)(stop - path));
        if (dots == 2 && to->size > start)
            drop_segment(to, start);
        if (dots == 0 || stop == end) {
            buf_addc(to, '/');
            if (dots == 0)
                add_escaped(to, path, (size_t)(stop - path), in_path);
        }
        if (stop == end)
            return;
        path = stop + 1;
    }
}

static void add_target(struct buf *to, const char *path, size_t size)
{
    const char *hash = memchr(path, '#', size);
    if (hash)
        size = (size_t)(hash - path);
    const char *query = memchr(path, '?', size);
    size_t path_size = query ? (size_t)(query - path) : size;
    add_path(to, path, path_size);
    if (query) {
        buf_addc(to, '?');
        add_escaped(to, query + 1, size - path_size - 1, in_query);
    }
}

int port_target(struct buf *to, const char *path, size_t size)
{
    /* Tabs and ends of lines go first, because a dot before one is a dot. */
    CLEANUP_BUF struct buf kept = BUF_INIT(3 * PORT_TARGET_MAX);
    for (size_t i = 0; i < size; i++) {
        if (path[i] != '\t' && path[i] != '\n' && path[i] != '\r' && buf_addc(&kept, path[i]) < 0)
            return kept.error;
    }
    add_target(to, buf_text(&kept), kept.size);
    return to->error;
}

/* Redirects. */

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

static bool is_local_host(const char *host, size_t size)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "0.0.0.0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == size && strncasecmp(names[i], host, size) == 0)
            return true;
    }
    return false;
}

/* As port_redirect, for what follows "//": host, perhaps a port, and the rest. */
static int redirect_to_host(const char *from, size_t size, uint16_t *port, struct buf *to)
{
    size_t host_size = 0;
    while (host_size < size && !strchr("/\\?#", from[host_size]))
        host_size++;
    size_t name_size = host_size;
    while (name_size > 0 && isdigit((unsigned char)from[name_size - 1]))
        name_size--;
    unsigned long number = 80;
    if (name_size > 0 && from[name_size - 1] == ':') {
        number = name_size < host_size ? 0 : 80;
        for (size_t i = name_size; i < host_size && number <= UINT16_MAX; i++)
            number = number * 10 + (unsigned long)(from[i] - '0');
        name_size--;
    } else {
        name_size = host_size;
    }
    if (!is_local_host(from, name_size))
        return 0;
    if (number == 0 || number > UINT16_MAX)
        return -EINVAL;
    *port = (uint16_t)number;
    int result = port_target(to, from + host_size, size - host_size);
    return result < 0 ? result : 1;
}

static size_t scheme_size(const char *from, size_t size)
{
    size_t i = 0;
    if (!size || !isalpha((unsigned char)*from))
        return 0;
    while (i < size && (isalnum((unsigned char)from[i]) || strchr("+-.", from[i])))
        i++;
    return i < size && from[i] == ':' ? i + 1 : 0;
}

/* A path without a host, which may be relative to that of the target. */
static int redirect_to_path(const char *target, const char *from, size_t size, struct buf *to)
{
    size_t keep = 0;
    if (size && *from == '?')
        keep = strcspn(target, "?");
    else if (!size || *from == '#')
        keep = strlen(target);
    else if (!is_slash(*from))
        for (size_t i = 0; target[i] && target[i] != '?'; i++)
            keep = target[i] == '/' ? i + 1 : keep;
    struct buf whole = BUF_INIT(3 * PORT_TARGET_MAX);
    buf_add(&whole, target, keep);
    int result = buf_add(&whole, from, size);
    if (result == 0)
        result = port_target(to, buf_text(&whole), whole.size);
    buf_free(&whole);
    return result < 0 ? result : 1;
}

int port_redirect(const char *target, const char *location, size_t size, uint16_t *port,
                  struct buf *to)
{
    size_t scheme = scheme_size(location, size);
    if (memchr(location, '\0', size))
        return -EINVAL;
    if (scheme && (scheme != 5 || strncasecmp(location, "http:", 5) != 0))
        return 0;
    location += scheme;
    size -= scheme;
    if (size >= 2 && is_slash(location[0]) && is_slash(location[1]))
        return redirect_to_host(location + 2, size - 2, port, to);
    return redirect_to_path(target, location, size, to);
}
