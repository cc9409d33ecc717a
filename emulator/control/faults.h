/* The control API's /faults: what a test makes go wrong. */
#ifndef SANDPIT_CONTROL_FAULTS_H
#define SANDPIT_CONTROL_FAULTS_H

#include "http/http.h"
#include "objects/objects.h"

void faults_show(struct http_request *request, struct objects *objects);
void faults_order(struct http_request *request, struct objects *objects);
/* id NULL = all. */
void faults_take_back(struct http_request *request, struct objects *objects, const char *id);

#endif
