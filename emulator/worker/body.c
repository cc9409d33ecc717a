#include "worker/body.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/jsonstr.h"

/* A NUL is legal in JSON; the layer that takes the string says whether it may have one. */
#define LOAD_FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* Shorter strings are not worth a copy of the rest of the body. */
#define CUT_LEAST 4096

static bool is_blank(const struct buf *raw)
{
    for (size_t i = 0; i < raw->size; i++) {
        if (!strchr(" \t\r\n", raw->data[i]) || raw->data[i] == '\0')
            return false;
    }
    return true;
}

/* 1 when the large string was cut out and the rest is JSON, 0 when jansson should see all of it. */
static int read_cut(struct body *body, const char *member, int index, size_t least)
{
    CLEANUP_FREE char *rest = NULL;
    const char *inside = NULL;
    size_t size = 0;
    if (body->raw.size < least)
        return 0;
    int found =
        jsonstr_cut(body->raw.data, body->raw.size, member, index, least, &inside, &size, &rest);
    if (found <= 0)
        return found;
    body->json = heap_load_json(rest, strlen(rest), LOAD_FLAGS, NULL);
    if (!body->json)
        return 0;
    body->content = inside;
    body->content_size = size;
    return 1;
}

int body_read(struct body *body, struct http_request *request, const char *member, int index)
{
    body->raw = http_take_body(request);
    const struct buf *raw = &body->raw;
    if (is_blank(raw))
        return 0;
    if (member || index >= 0) {
        int result = read_cut(body, member, index, CUT_LEAST);
        /* Whoever reads a small string from jansson may take it for a C string, so one that may
         * have a NUL goes the other way at any size. */
        if (result == 0 && memmem(raw->data, raw->size, "\\u0000", 6))
            result = read_cut(body, member, index, 1);
        if (result != 0)
            return result;
    }
    body->json = heap_load_json(raw->data, raw->size, LOAD_FLAGS, &body->error);
    return body->json ? 1 : -EINVAL;
}

void body_free(struct body *body)
{
    json_decref(body->json);
    buf_free(&body->raw);
    *body = BODY_INIT;
}
