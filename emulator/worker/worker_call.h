/* One call on behalf of one request. When the client leaves, the operation goes on and its answer
 * is dropped. */
#ifndef SANDPIT_WORKER_WORKER_CALL_H
#define SANDPIT_WORKER_WORKER_CALL_H

#include "worker/body.h"
#include "worker/methods.h"
#include "worker/problem.h"
#include "worker/target.h"
#include "worker/worker.h"

struct worker_call {
    struct call call;
    struct http_request *request; /* NULL once the client has gone */
    const struct clock *clock;
    enum face face;
    shape_function *shape; /* or NULL */
    json_t *args;
    struct buf raw; /* the bytes that call.content points into */
    int64_t started_ns;
};

/* Takes args and the content of the body; both live until the operation is done. The request is
 * answered from then on by the call. NULL after an error was answered. */
struct worker_call *worker_call_new(struct http_request *request, const struct clock *clock,
                                    enum face face, json_t *args, struct body *body);
/* Each ends with one answer, perhaps before it returns; the call frees itself. */
void worker_call_op(struct worker_call *call, struct object *object, const struct op *op);
void worker_call_method(struct worker_call *call, struct object *object,
                        const struct object_method *method);
/* An SDK method by its row, on the object that the target names; takes args and the body's content.
 * `shape` replaces the row's when not NULL. */
void worker_call_row(struct http_request *request, const struct worker_config *config,
                     enum face face, const struct method_row *row, const struct target *target,
                     json_t *args, struct body *body, shape_function *shape);

#endif
