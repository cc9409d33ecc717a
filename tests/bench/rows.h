/* The rows of the table: what is measured, what it is compared with, and how it is told. */
#ifndef SANDPIT_BENCH_ROWS_H
#define SANDPIT_BENCH_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "stats.h"

enum row_id {
    ROW_NONE,
    ROW_EXEC,
    ROW_EXEC_API,
    ROW_BARE_HTTP,
    ROW_BARE_SESSION,
    ROW_FIRST_EXEC,
    ROW_FIRST_START,
    ROW_BARE_CHAIN,
    ROW_BARE_BASH,
    ROW_PEER,
    ROW_WRITE,
    ROW_READ,
    ROW_BARE_UPLOAD,
    ROW_BARE_DOWNLOAD,
    ROW_BARE_WRITE,
    ROW_BARE_READ,
    ROW_RSS_START,
    ROW_ANON_START,
    ROW_RSS_IDLE,
    ROW_ANON_IDLE,
    ROW_ANON_SANDBOX,
    ROW_START_READY,
    ROW_START_EXEC,
    ROW_RUN_TRUE,
    ROW_LOAD_RATE,
    ROW_LOAD_RATE_2CPU,
    ROW_LOAD_ERRORS,
    ROW_LIST,
    ROW_EXISTS,
    ROW_STREAM_IN,
    ROW_STREAM_OUT,
    ROW_BARE_CAT_IN,
    ROW_BARE_CAT_OUT,
    ROW_STREAM_MEMORY,
    ROW_PING,
    ROW_STREAM,
    ROW_CODE_JS,
    ROW_CODE_PY,
    ROW_CONTEXT,
    ROW_CLONE,
    ROW_BARE_CLONE,
    ROW_ADVANCE_LIVE,
    ROW_ADVANCE_ALARMS,
    ROW_ADVANCE_YEAR,
    ROW_EXEC_TOLD,
    ROW_EXEC_QUIET,
    ROW_PREVIEW_1,
    ROW_PREVIEW_ADDED,
    ROW_SERVER_1,
    ROW_NGINX_1,
    ROW_PREVIEW_16,
    ROW_SERVER_16,
    ROW_NGINX_16,
    ROW_PREVIEW_64,
    ROW_SERVER_64,
    ROW_NGINX_64,
    ROW_PREVIEW_BODY,
    ROW_SERVER_BODY,
    ROW_NGINX_BODY,
    ROW_PREVIEW_MEMORY,
    ROW_PREVIEW_SOCKETS,
    ROW_CONFIG_JSONC,
    ROW_CONFIG_TOML,
    ROW_CONFIG_CHECKS,
    ROW_COUNT,
};

enum { NO_TARGET = -1 };

struct row {
    const char *name, *what;
    const char *unit;      /* "ms", "KiB", "req/s" or "" */
    const char *original;  /* the figure of the original system; NULL for a limit row */
    double target;         /* the median may not be over it (a rate: under it), or NO_TARGET */
    double factor;         /* the median may not be over factor × the limit; 0 = no limit */
    enum row_id limits[2]; /* rows whose medians add up to the limit */
};

struct rows {
    struct samples samples[ROW_COUNT];
};

/* How the machine and the run were; told above the table. */
struct run_info {
    char kernel[128], cpu[128];
    double load;
    int cores, pinned; /* the CPU, or -1 */
    int rounds, count;
};

void rows_free(struct rows *rows);
/* How many rows with samples miss their target. */
int rows_missed(struct rows *rows);
void rows_print(struct rows *rows, const struct run_info *info, FILE *to);
void rows_markdown(struct rows *rows, const struct run_info *info, FILE *to);
/* A new reference, or NULL without memory. */
json_t *rows_json(struct rows *rows, const struct run_info *info);

#endif
