#include "config.h"

#include "config/check.h"
#include "config/wrangler.h"
#include "steps.h"

#define FORMS BENCH_SOURCE "/fixtures/projects/forms/"

static int load(struct bench *bench, enum row_id row, const char *dir, struct error *err)
{
    CLEANUP_PROJECT struct project project;
    double start = stats_now_ms();
    int result = project_load(dir, NULL, &project, err);
    return result < 0 ? result : steps_add(bench, row, stats_now_ms() - start, err);
}

/* With its script, as dev does when it starts. */
static int inspect(struct bench *bench, struct error *err)
{
    CLEANUP_FINDINGS struct findings findings;
    double start = stats_now_ms();
    int result = project_inspect(FORMS "sdk-0.7-two-classes", NULL, NULL, &findings);
    return result < 0 ? error_errno(err, -result, "inspect")
                      : steps_add(bench, ROW_CONFIG_CHECKS, stats_now_ms() - start, err);
}

int measure_config(struct bench *bench, struct error *err)
{
    int result = 0;
    for (int i = 0; result == 0 && i < bench->count; i++) {
        result = load(bench, ROW_CONFIG_JSONC, FORMS "sdk-0.7-two-classes", err);
        if (result == 0)
            result = load(bench, ROW_CONFIG_TOML, FORMS "sdk-0.5-toml", err);
        if (result == 0)
            result = inspect(bench, err);
    }
    return result;
}
