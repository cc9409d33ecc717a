#include "rows.h"

#include <string.h>

enum { MIB = 1024 };

static const struct row table[ROW_COUNT] = {
    [ROW_EXEC] = {"exec",
                  "POST /sandbox/ID/exec [\"true\"], warm, kept connection",
                  "ms",
                  "8-12 ms",
                  0.35,
                  2.5,
                  {ROW_BARE_HTTP, ROW_BARE_SESSION}},
    [ROW_EXEC_API] = {"exec_api",
                      "POST /api/execute {\"command\":\"true\"}, the same",
                      "ms",
                      "8-12 ms",
                      0.35,
                      2.5,
                      {ROW_BARE_HTTP, ROW_BARE_SESSION}},
    [ROW_BARE_HTTP] = {"bare_http", "libmicrohttpd alone: POST, 2 bytes back", "ms", NULL,
                       NO_TARGET},
    [ROW_BARE_SESSION] = {"bare_session", "bash alone: one line, new FIFO pair, status", "ms", NULL,
                          NO_TARGET},
    [ROW_FIRST_EXEC] = {"first_exec",
                        "the first exec of a new sandbox",
                        "ms",
                        "127-166 ms",
                        12,
                        2.5,
                        {ROW_BARE_CHAIN, ROW_BARE_BASH}},
    [ROW_FIRST_START] = {"first_start",
                         "the first exists of a new sandbox: its container, no shell",
                         "ms",
                         "",
                         15,
                         2.5,
                         {ROW_BARE_CHAIN}},
    [ROW_BARE_CHAIN] = {"bare_chain", "namespaces, tmpfs, overlay, bwrap to a static program", "ms",
                        NULL, NO_TARGET},
    [ROW_BARE_BASH] = {"bare_bash", "bash -c true", "ms", NULL, NO_TARGET},
    [ROW_PEER] = {"peer", "the command given with --peer", "ms", NULL, NO_TARGET},
    [ROW_WRITE] = {"write_1m",
                   "writeFile of 1 MiB of text",
                   "ms",
                   "6-9 ms",
                   1.5,
                   0,
                   {ROW_BARE_UPLOAD, ROW_BARE_WRITE}},
    [ROW_READ] = {"read_1m",
                  "readFile of 1 MiB of text",
                  "ms",
                  "3-6 ms",
                  1.5,
                  0,
                  {ROW_BARE_DOWNLOAD, ROW_BARE_READ}},
    [ROW_BARE_UPLOAD] = {"bare_upload", "libmicrohttpd alone: POST of 1 MiB", "ms", NULL,
                         NO_TARGET},
    [ROW_BARE_DOWNLOAD] = {"bare_download", "libmicrohttpd alone: 1 MiB back", "ms", NULL,
                           NO_TARGET},
    [ROW_BARE_WRITE] = {"bare_write", "write(2) of 1 MiB to a new file on tmpfs", "ms", NULL,
                        NO_TARGET},
    [ROW_BARE_READ] = {"bare_read", "read(2) of it", "ms", NULL, NO_TARGET},
    [ROW_RSS_START] = {"rss_start", "VmRSS when ready", "KiB", "50-62 MB", 10 * MIB},
    [ROW_ANON_START] = {"anon_start", "RssAnon when ready", "KiB", "", 3 * MIB},
    [ROW_RSS_IDLE] = {"rss_idle", "VmRSS, idle after 50 execs", "KiB", "50-62 MB", 10 * MIB},
    [ROW_ANON_IDLE] = {"anon_idle", "RssAnon, idle after 50 execs", "KiB", "", 3 * MIB},
    [ROW_ANON_SANDBOX] = {"anon_sandbox", "RssAnon for each of 100 idle sandboxes", "KiB", "", 64},
    [ROW_START_READY] = {"start_ready", "from fork to the URL", "ms", "2-3 min", 30},
    [ROW_START_EXEC] = {"start_exec", "from fork to the answer of the first exec", "ms", "2-3 min",
                        NO_TARGET},
    [ROW_RUN_TRUE] = {"run_true", "sandpit run --ephemeral -- true, from fork to its end", "ms", "", 50},
    [ROW_LOAD_RATE] = {"load_rate", "8 connections, a session each, true", "req/s",
                       "180, then it dies", NO_TARGET},
    [ROW_LOAD_RATE_2CPU] = {"load_rate_2cpu", "the same on two CPUs", "req/s", "180, then it dies",
                            10000},
    [ROW_LOAD_ERRORS] = {"load_errors", "wrong answers among them", "", "", 0},
    [ROW_LIST] = {"list_1000", "listFiles of a directory with 1,000 files", "ms", "", 5},
    [ROW_EXISTS] = {"exists", "exists of one of them", "ms", "", NO_TARGET, 0.6, {ROW_EXEC}},
    [ROW_STREAM_IN] = {"stream_in_1g",
                       "writeFileStream of 1 GiB",
                       "ms",
                       "",
                       NO_TARGET,
                       2,
                       {ROW_BARE_CAT_IN}},
    [ROW_STREAM_OUT] = {"stream_out_1g",
                        "readFile of it with the encoding none",
                        "ms",
                        "",
                        NO_TARGET,
                        2,
                        {ROW_BARE_CAT_OUT}},
    [ROW_BARE_CAT_IN] = {"bare_cat_in", "cat from a TCP socket into a file on tmpfs", "ms", NULL,
                         NO_TARGET},
    [ROW_BARE_CAT_OUT] = {"bare_cat_out", "cat of it into a TCP socket", "ms", NULL, NO_TARGET},
    [ROW_STREAM_MEMORY] = {"stream_memory", "growth of VmHWM meanwhile", "KiB", "", 4 * MIB},
    [ROW_PING] = {"ping", "POST /sandbox/ID/ping", "ms", "", NO_TARGET, 1.25, {ROW_BARE_HTTP}},
    [ROW_STREAM] = {"stream",
                    "execStream [\"echo hi\"] to the end of its events",
                    "ms",
                    "115 ms",
                    1.5,
                    0,
                    {ROW_EXEC}},
    [ROW_CODE_JS] = {"interpreter_js", "runCode 1+1 in a warm JavaScript context", "ms", "", 2},
    [ROW_CODE_PY] = {"interpreter_py", "runCode 1+1 in a warm Python context", "ms", "", 2},
    [ROW_CONTEXT] = {"context", "createCodeContext when a process waits for it", "ms", "", 5},
    [ROW_CLONE] = {"clone_10k",
                   "gitCheckout of a mirror with 10,000 files",
                   "ms",
                   "",
                   NO_TARGET,
                   1.5,
                   {ROW_BARE_CLONE}},
    [ROW_ADVANCE_LIVE] = {"advance_live", "an advance that puts 1,000 live sandboxes to sleep", "ms",
                          "", 3000},
    [ROW_ADVANCE_ALARMS] = {"advance_alarms",
                            "an advance over 1,000 timers without containers, in the clock alone",
                            "ms", "", 50},
    [ROW_ADVANCE_YEAR] = {"advance_year", "an advance by a year without timers", "ms", "", 1},
    [ROW_EXEC_TOLD] = {"exec_events",
                       "exec, with --events-file and a follower",
                       "ms",
                       "",
                       NO_TARGET,
                       1.05,
                       {ROW_EXEC_QUIET}},
    [ROW_EXEC_QUIET] = {"exec_quiet", "exec, without either", "ms", NULL, NO_TARGET},
    [ROW_BARE_CLONE] = {"bare_clone", "git clone of it to a tmpfs", "ms", NULL, NO_TARGET},
    [ROW_PREVIEW_1] = {"preview_1",
                       "a request through a preview to node, one after the other",
                       "ms",
                       "",
                       NO_TARGET,
                       1.25,
                       {ROW_SERVER_1}},
    [ROW_PREVIEW_ADDED] = {"preview_added", "what the preview adds to it", "ms", "", 0.1},
    [ROW_SERVER_1] = {"server_1", "the same from inside the sandbox's network", "ms", NULL,
                      NO_TARGET},
    [ROW_NGINX_1] = {"nginx_1", "the same through nginx there", "ms", NULL, NO_TARGET},
    [ROW_PREVIEW_16] = {"preview_16",
                        "time for each of many, 16 connections",
                        "ms",
                        "",
                        NO_TARGET,
                        1.25,
                        {ROW_SERVER_16}},
    [ROW_SERVER_16] = {"server_16", "without the preview", "ms", NULL, NO_TARGET},
    [ROW_NGINX_16] = {"nginx_16", "with nginx", "ms", NULL, NO_TARGET},
    [ROW_PREVIEW_64] = {"preview_64",
                        "the same, 64 connections",
                        "ms",
                        "",
                        NO_TARGET,
                        1.25,
                        {ROW_SERVER_64}},
    [ROW_SERVER_64] = {"server_64", "without the preview", "ms", NULL, NO_TARGET},
    [ROW_NGINX_64] = {"nginx_64", "with nginx", "ms", NULL, NO_TARGET},
    [ROW_PREVIEW_BODY] = {"preview_1g",
                          "an answer of 1 GiB through a preview",
                          "ms",
                          "",
                          NO_TARGET,
                          1.43,
                          {ROW_SERVER_BODY}},
    [ROW_SERVER_BODY] = {"server_1g", "without the preview", "ms", NULL, NO_TARGET},
    [ROW_NGINX_BODY] = {"nginx_1g", "with nginx", "ms", NULL, NO_TARGET},
    [ROW_PREVIEW_MEMORY] = {"preview_memory", "how much VmRSS grew over these", "KiB", "", MIB},
    [ROW_PREVIEW_SOCKETS] = {"preview_sockets", "RssAnon for 1,000 idle WebSockets", "KiB", "",
                             8 * MIB},
    [ROW_CONFIG_JSONC] = {"config_jsonc", "reading wrangler.jsonc and its Dockerfile", "ms", "", 1},
    [ROW_CONFIG_TOML] = {"config_toml", "reading wrangler.toml and its Dockerfile", "ms", "", 1},
    [ROW_CONFIG_CHECKS] = {"config_checks", "the checks of a project, with reading all of it", "ms",
                           "", 2},
};

/* One row, computed. */
struct result {
    const struct row *row;
    size_t count;
    double median, p95, min;
    double limit, ratio; /* 0 without a limit */
    bool judged, ok;
};

void rows_free(struct rows *rows)
{
    for (int id = 0; id < ROW_COUNT; id++)
        samples_free(&rows->samples[id]);
}

/* Of times and sizes less is better, of rates more. */
static bool on_target(const struct row *row, double median)
{
    if (row->target == NO_TARGET)
        return true;
    return strcmp(row->unit, "req/s") == 0 ? median >= row->target : median <= row->target;
}

/* False when nothing was measured. */
static bool compute(struct rows *rows, int id, struct result *result)
{
    const struct row *row = &table[id];
    struct samples *samples = &rows->samples[id];
    if (!samples->count)
        return false;
    *result = (struct result){.row = row,
                              .count = samples->count,
                              .median = samples_median(samples),
                              .p95 = samples_percentile(samples, 95),
                              .min = samples_min(samples)};
    for (int i = 0; i < 2; i++)
        result->limit += samples_median(&rows->samples[row->limits[i]]);
    if (result->limit > 0)
        result->ratio = result->median / result->limit;
    result->judged = row->target != NO_TARGET || row->factor > 0;
    result->ok =
        on_target(row, result->median) && (row->factor == 0 || result->ratio <= row->factor);
    return true;
}

int rows_missed(struct rows *rows)
{
    int missed = 0;
    struct result result;
    for (int id = ROW_NONE + 1; id < ROW_COUNT; id++)
        missed += compute(rows, id, &result) && result.judged && !result.ok;
    return missed;
}

/* The cells, as text. */

struct cells {
    char median[24], p95[24], min[24], target[24], limit[24], ratio[40];
    const char *verdict, *original;
};

static void number(char *to, size_t size, double value, const char *unit)
{
    bool small = strcmp(unit, "ms") == 0;
    snprintf(to, size, small ? "%.3f" : "%.0f", value);
}

static void fill(struct cells *cells, const struct result *result)
{
    const struct row *row = result->row;
    *cells = (struct cells){.verdict = !result->judged ? ""
                                       : result->ok    ? "ok"
                                                       : "MISS",
                            .original = row->original ? row->original : "(limit)"};
    number(cells->median, sizeof cells->median, result->median, row->unit);
    number(cells->p95, sizeof cells->p95, result->p95, row->unit);
    number(cells->min, sizeof cells->min, result->min, row->unit);
    if (row->target != NO_TARGET)
        snprintf(cells->target, sizeof cells->target, "%g", row->target);
    if (result->limit > 0)
        number(cells->limit, sizeof cells->limit, result->limit, row->unit);
    if (result->limit > 0 && row->factor > 0)
        snprintf(cells->ratio, sizeof cells->ratio, "%.2f of %.3g", result->ratio, row->factor);
    else if (result->limit > 0)
        snprintf(cells->ratio, sizeof cells->ratio, "%.2f", result->ratio);
}

static void print_info(const struct run_info *info, FILE *to)
{
    fprintf(to, "%d cores (%s), Linux %s, load %.2f; ", info->cores, info->cpu, info->kernel,
            info->load);
    if (info->pinned >= 0)
        fprintf(to, "pinned to one CPU; ");
    else
        fprintf(to, "not pinned; ");
    fprintf(to, "%d rounds, count %d\n\n", info->rounds, info->count);
}

void rows_print(struct rows *rows, const struct run_info *info, FILE *to)
{
    static const char layout[] = "%-14s %-6s %6s %10s %10s %10s %8s %8s %12s %-5s %s\n";
    print_info(info, to);
    fprintf(to, layout, "row", "unit", "n", "median", "p95", "min", "target", "limit", "ratio", "",
            "original");
    for (int id = ROW_NONE + 1; id < ROW_COUNT; id++) {
        struct result result;
        struct cells cells;
        if (!compute(rows, id, &result))
            continue;
        char count[24];
        snprintf(count, sizeof count, "%zu", result.count);
        fill(&cells, &result);
        fprintf(to, layout, result.row->name, result.row->unit, count, cells.median, cells.p95,
                cells.min, cells.target, cells.limit, cells.ratio, cells.verdict, cells.original);
    }
}

void rows_markdown(struct rows *rows, const struct run_info *info, FILE *to)
{
    print_info(info, to);
    fputs("| row | what | unit | n | median | p95 | min | target | limit | ratio | | original |\n"
          "|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n",
          to);
    for (int id = ROW_NONE + 1; id < ROW_COUNT; id++) {
        struct result result;
        struct cells cells;
        if (!compute(rows, id, &result))
            continue;
        fill(&cells, &result);
        fprintf(to, "| %s | %s | %s | %zu | %s | %s | %s | %s | %s | %s | %s | %s |\n",
                result.row->name, result.row->what, result.row->unit, result.count, cells.median,
                cells.p95, cells.min, cells.target, cells.limit, cells.ratio, cells.verdict,
                cells.original);
    }
}

static json_t *real_or_null(bool is, double value)
{
    return is ? json_real(value) : json_null();
}

static json_t *row_json(const struct result *result)
{
    const struct row *row = result->row;
    return json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:s?}", "name",
                     row->name, "what", row->what, "unit", row->unit, "n", (int)result->count,
                     "median", result->median, "p95", result->p95, "min", result->min, "target",
                     real_or_null(row->target != NO_TARGET, row->target), "limit",
                     real_or_null(result->limit > 0, result->limit), "ratio",
                     real_or_null(result->limit > 0, result->ratio), "maxRatio",
                     real_or_null(row->factor > 0, row->factor), "ok",
                     result->judged ? json_boolean(result->ok) : json_null(), "original",
                     row->original);
}

json_t *rows_json(struct rows *rows, const struct run_info *info)
{
    json_t *array = json_array();
    for (int id = ROW_NONE + 1; id < ROW_COUNT; id++) {
        struct result result;
        if (compute(rows, id, &result))
            json_array_append_new(array, row_json(&result));
    }
    return json_pack("{s:i, s:{s:s, s:s, s:i, s:f, s:b}, s:i, s:i, s:o}", "v", 1, "machine",
                     "kernel", info->kernel, "cpu", info->cpu, "cores", info->cores, "load",
                     info->load, "pinned", info->pinned >= 0, "rounds", info->rounds, "count",
                     info->count, "rows", array);
}
