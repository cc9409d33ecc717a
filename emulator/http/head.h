/* One strict check of a request head, after RFC 9112, used twice: on the bytes that a new
 * connection sent (head_check), and on the parsed values of every later request of a kept-alive one
 * (head_start, head_field, head_finish). Pure: no allocation, no I/O, never reads past the size. */
#ifndef SANDPIT_HTTP_HEAD_H
#define SANDPIT_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_MAX = 16 * 1024, HEAD_TARGET_MAX = 8 * 1024, HEAD_FIELDS_MAX = 100 };

/* Bytes of somebody else's; at == NULL means "not there". */
struct span {
    const char *at;
    size_t size;
};

struct head {
    struct span method;
    struct span target; /* as sent */
    struct span path;   /* "/…", or "*" with OPTIONS */
    struct span query;  /* without the question mark */
    struct span host;   /* the Host field, or the authority of an HTTP/1.0 absolute target */
    struct span origin;
    struct span fetch_site, fetch_mode, fetch_dest; /* Sec-Fetch-… */
    struct span authorization;
    struct span upgrade;
    struct span content_length, transfer_encoding;
    int64_t length; /* of the body; -1 when not said */
    bool chunked;
    bool close, keep_alive, upgrades; /* words of Connection, however often that was sent */
    bool nominates;                   /* it has others, which are names of fields */
    int minor;                        /* HTTP/1.minor */
    unsigned fields;                  /* how many */
    size_t size;                      /* of the head, with its empty line */
    struct span authority;            /* of an absolute target */
};

/* Why something is not served, as the client is told. */
struct refusal {
    int status;
    const char *code;
    const char *error;
    const char *hint; /* or NULL */
};

enum head_state { HEAD_INCOMPLETE, HEAD_BAD, HEAD_COMPLETE };

/* Looks at the first `size` bytes of a connection. With HEAD_BAD, *why says what is wrong. */
enum head_state head_check(const char *data, size_t size, struct head *head,
                           const struct refusal **why);

/* The same rules, part by part. NULL when the part is fine. */
const struct refusal *head_start(struct head *head, struct span method, struct span target,
                                 struct span version);
const struct refusal *head_field(struct head *head, struct span name, struct span value);
const struct refusal *head_finish(struct head *head);

/* The line from *at, without its CR LF; *at moves behind it. What of it is there with
 * HEAD_INCOMPLETE; HEAD_BAD for a CR or LF that stands alone. */
enum head_state head_line(const char **at, const char *end, struct span *line);

/* The refusal of a head whose lines do not add up. */
const struct refusal *head_bad_line(void);

bool span_is(struct span span, const char *text); /* ignoring case */
bool span_same(struct span a, struct span b);     /* ignoring case */
struct span span_of(const char *text);            /* NULL gives a missing span */
struct span span_trim(struct span span);          /* without spaces and tabs around it */
bool span_is_token(struct span span); /* has only characters of names; an empty one too */
bool span_is_value(struct span span); /* likewise of header values */
bool span_number(struct span span, int64_t *value); /* digits only, at most 2^63-1 */

/* The next word of a comma-separated list, which loses it. */
bool list_next(struct span *list, struct span *word);
bool list_has(struct span list, struct span word); /* ignoring case */

#endif
