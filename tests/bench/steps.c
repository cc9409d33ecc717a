#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { FULL_COUNT = 400 };

int steps_part(const struct bench *bench, int full)
{
    int count = (int)((long)full * bench->count / FULL_COUNT);
    return count < 1 ? 1 : count;
}

int steps_add(struct bench *bench, enum row_id row, double value, struct error *err)
{
    int result = samples_add(&bench->rows->samples[row], value);
    return result < 0 ? error_errno(err, -result, "samples") : 0;
}

int steps_make_post(struct buf *request, const char *body, const char *format, int id)
{
    char path[96];
    snprintf(path, sizeof path, format, id);
    return client_post(request, path, body, strlen(body));
}

int steps_post(struct client *client, const char *body, const char *expected, const char *format,
               int id, struct error *err)
{
    CLEANUP_BUF struct buf request = BUF_INIT(SMALL_REQUEST);
    int result = steps_make_post(&request, body, format, id);
    if (result < 0)
        return error_errno(err, -result, "request");
    result = client_exchange(client, &request, expected, err);
    return result < 0 ? error_wrap(err, format, id) : 0;
}

int steps_batch(struct bench *bench, enum row_id row, struct client *client,
                const struct buf *request, const char *expected, int count, struct error *err)
{
    for (int i = -WARM_UP; i < count; i++) {
        double start = stats_now_ms();
        int result = client_exchange(client, request, expected, err);
        double ms = stats_now_ms() - start;
        if (result == 0 && i >= 0)
            result = steps_add(bench, row, ms, err);
        if (result < 0)
            return result;
    }
    return 0;
}
