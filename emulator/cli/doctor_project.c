#include "cli/doctor_project.h"

#include <string.h>

#include "base/log.h"
#include "cli/doctor.h"

enum { SHOWN_MAX = 4 };

int doctor_project_status(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].severity >= MACHINE_WARNING)
            return 1;
    }
    return 0;
}

/* "src/index.ts:7:5: " as compilers say it. */
static void add_place(struct buf *to, const struct finding *finding)
{
    if (!*finding->file)
        return;
    buf_adds(to, finding->file);
    if (finding->place.line)
        buf_addf(to, ":%d", finding->place.line);
    if (finding->place.line && finding->place.column)
        buf_addf(to, ":%d", finding->place.column);
    buf_adds(to, ": ");
}

/* Every line of the diff behind some space. */
static void add_diff(struct buf *to, const char *diff, bool colours)
{
    while (*diff) {
        size_t size = strcspn(diff, "\n");
        bool head = strncmp(diff, "---", 3) == 0 || strncmp(diff, "+++", 3) == 0;
        const char *on = head || !colours ? ""
                         : *diff == '+'   ? "\033[32m"
                         : *diff == '-'   ? "\033[31m"
                                          : "";
        buf_addf(to, "    %s%.*s%s\n", on, (int)size, diff, *on ? "\033[0m" : "");
        diff += size + (diff[size] == '\n');
    }
}

int doctor_project_text(struct buf *to, const struct findings *findings, bool colours)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        buf_addf(to, "%s%s%s ", colours ? doctor_marks[finding->severity].colour : "",
                 doctor_marks[finding->severity].mark, colours ? "\033[0m" : "");
        add_place(to, finding);
        buf_addf(to, "%s\n", finding->reason);
        if (finding->fix)
            add_diff(to, finding->fix, colours);
        buf_addf(to, "    " DOCTOR_DOCS "%s\n", finding->check->id);
    }
    if (doctor_project_status(findings) == 0)
        buf_adds(to, "Nothing is wrong with this project.\n");
    return to->error;
}

json_t *doctor_project_json(const struct findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        const struct place place = finding->place;
        CLEANUP_BUF struct buf docs = BUF_INIT(128);
        buf_addf(&docs, DOCTOR_DOCS "%s", finding->check->id);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s?, s:o, s:o, s:s, s:s?, s:s}", "id", finding->check->id,
                            "severity", doctor_marks[finding->severity].word, "file",
                            *finding->file ? finding->file : NULL, "line",
                            place.line ? json_integer(place.line) : json_null(), "column",
                            place.column ? json_integer(place.column) : json_null(), "reason",
                            finding->reason, "fix", finding->fix, "docs", buf_text(&docs)));
    }
    return list;
}

/* The start tells these by itself. */
static bool is_told(const struct finding *finding)
{
    return strcmp(finding->check->id, "version") == 0 || strcmp(finding->check->id, "expose") == 0;
}

void doctor_project_warn(const char *dir, const char *config_file, const char *environment)
{
    CLEANUP_FINDINGS struct findings findings = {0};
    size_t shown = 0, more = 0;
    if (project_inspect(dir, config_file, environment, &findings) < 0)
        return;
    for (size_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];
        CLEANUP_BUF struct buf line = BUF_INIT(1024);
        if (finding->severity < MACHINE_WARNING || is_told(finding))
            continue;
        if (shown++ >= SHOWN_MAX) {
            more++;
            continue;
        }
        add_place(&line, finding);
        log_warn("%s%s", buf_text(&line), finding->reason);
    }
    if (more)
        log_warn("and %zu more", more);
    if (shown)
        log_warn("`sandpit doctor` shows how to repair %s", shown == 1 ? "this" : "these");
}
