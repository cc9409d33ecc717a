/* The head of an answer from inside a container, which is not trusted: bounded, and refused when
 * two readers could disagree on where the answer ends. Pure, as http/head. */
#ifndef SANDPIT_PROXY_RESPONSE_H
#define SANDPIT_PROXY_RESPONSE_H

#include "http/head.h"

enum { RESPONSE_HEAD_MAX = 64 * 1024, RESPONSE_FIELDS_MAX = 256 };

struct response {
    int status, minor;
    struct span reason; /* with the status: "404 Not Found" */
    struct span upgrade, content_length, transfer_encoding;
    int64_t length; /* -1 when not said */
    bool chunked;
    bool close;      /* the server ends the connection after this answer */
    bool upgrades;   /* Connection says so */
    bool nominates;  /* Connection names other fields */
    unsigned fields; /* how many */
    size_t size;     /* of the head, with its empty line */
};

/* Looks at the first `size` bytes that came. With HEAD_BAD, *why says what is wrong. */
enum head_state response_check(const char *data, size_t size, struct response *response,
                               const char **why);

/* The fields of a complete head, one after the other. `at` starts at NULL; false at the end. */
bool response_field(const char *data, const struct response *response, const char **at,
                    struct span *name, struct span *value, struct span *line);

#endif
