/* Calls whose body is the bytes of a file. What else there is to say stands in headers and query.
 */
#ifndef SANDPIT_WORKER_UPLOAD_H
#define SANDPIT_WORKER_UPLOAD_H

#include <jansson.h>

#include "http/http.h"

/* {path, sessionId?}, a new reference; NULL after an error was answered. */
json_t *upload_arguments(struct http_request *request);

#endif
