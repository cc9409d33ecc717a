/* What the measurements have in common. */
#ifndef SANDPIT_BENCH_STEPS_H
#define SANDPIT_BENCH_STEPS_H

#include "http_client.h"
#include "measure.h"
#include "program.h"
#include "raw.h"

enum { WARM_UP = 5, SMALL_REQUEST = 4096 };

#define EXIT_ZERO "\"exitCode\":0"
#define CLEANUP_PROGRAM __attribute__((cleanup(program_stop)))
#define CLEANUP_RAW_HTTP __attribute__((cleanup(raw_http_stop)))

/* How often something is done that is done `full` times when --count has its default. */
int steps_part(const struct bench *bench, int full);
int steps_add(struct bench *bench, enum row_id row, double value, struct error *err);
/* POST to a path made of `format` and `id`. */
int steps_make_post(struct buf *request, const char *body, const char *format, int id);
int steps_post(struct client *client, const char *body, const char *expected, const char *format,
               int id, struct error *err);
/* The same request `count` times; what was used last is warm again when the clock starts. */
int steps_batch(struct bench *bench, enum row_id row, struct client *client,
                const struct buf *request, const char *expected, int count, struct error *err);

#endif
