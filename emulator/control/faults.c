#include "control/faults.h"

#include <errno.h>

#include "base/cleanup.h"
#include "objects/faults.h"

#define EXAMPLE "{\"on\": \"start\", \"do\": \"no-instance\", \"times\": 2, \"sandbox\": \"box\"}"

void faults_show(struct http_request *request, struct objects *objects)
{
    http_reply_json(request, 200, json_pack("{s:o}", "faults", faults_list(objects)));
}

void faults_order(struct http_request *request, struct objects *objects)
{
    json_error_t where;
    struct error err = {0};
    char id[FAULT_ID_SIZE];
    const struct buf *text = http_body(request);
    CLEANUP_JSON json_t *wanted =
        json_loadb(buf_text(text), text->size, JSON_REJECT_DUPLICATES, &where);
    if (!wanted) {
        http_reply_error(request, 400, "INVALID_JSON", "send " EXAMPLE,
                         "the body is not JSON: %s (line %d, column %d)", where.text, where.line,
                         where.column);
        return;
    }
    int result = faults_add(objects, wanted, id, &err);
    if (result == -EINVAL)
        http_reply_error(request, 400, "INVALID_FAULT", "such as " EXAMPLE "; docs/faults.md", "%s",
                         err.text);
    else if (result == -E2BIG)
        http_reply_error(request, 409, "TOO_MANY_FAULTS", "DELETE /cdn-cgi/local/faults", "%s",
                         err.text);
    else if (result < 0)
        http_reply_error(request, 500, "INTERNAL_ERROR", NULL, "%s", err.text);
    else
        http_reply_json(request, 200, json_pack("{s:s}", "id", id));
}

void faults_take_back(struct http_request *request, struct objects *objects, const char *id)
{
    int removed = 1;
    if (!id)
        removed = (int)faults_clear(objects);
    else if (faults_remove(objects, id) < 0)
        removed = 0;
    if (removed || !id)
        http_reply_json(request, 200, json_pack("{s:i}", "removed", removed));
    else
        http_reply_error(request, 404, "FAULT_NOT_FOUND",
                         "`sandpit fault` lists those that there are; one that was used up is gone",
                         "there is no fault '%.40s'", id);
}
