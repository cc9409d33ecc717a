/* The bucket methods: as a Worker would use its R2 bindings. No sandbox is asked or woken. */
#ifndef SANDPIT_WORKER_BUCKET_CALL_H
#define SANDPIT_WORKER_BUCKET_CALL_H

#include <stdbool.h>

#include "worker/body.h"
#include "worker/methods.h"
#include "worker/worker.h"

/* Whether a row's target ("put") is one of them. */
bool bucket_call_known(const char *target);
/* Answers the request; takes args. */
void bucket_call(struct http_request *request, const struct worker_config *config,
                 const struct method_row *row, json_t *args, const struct body *body);

#endif
