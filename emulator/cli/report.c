#include "cli/report.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cli/text.h"

enum { REPORT_MS = 5000, LEAKS_SHOWN = 20, LEFT_SHOWN = 3, LEFT_BYTES_MAX = 4096 };

json_t *report_fetch(const struct client *client, struct error *err)
{
    CLEANUP_ANSWER struct client_answer answer = {0};
    if (client_request(client, "GET", "/cdn-cgi/local/report", NULL, REPORT_MS, &answer, err) < 0)
        return NULL;
    if (answer.status != 200 || !json_is_object(answer.json)) {
        error_set(err, EPROTO, "GET /cdn-cgi/local/report: status %d", answer.status);
        return NULL;
    }
    return json_incref(answer.json);
}

bool report_is_clean(const json_t *report)
{
    return json_is_true(json_object_get(report, "clean"));
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static long long number_of(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

static void add_part(struct buf *to, const char *text)
{
    buf_addf(to, "%s%s", to->size ? ", " : "", text);
}

/* "keepAlive, npm run dev, port 8080" */
static void describe_left(const json_t *leak, struct buf *to)
{
    const json_t *processes = json_object_get(leak, "processes");
    const json_t *ports = json_object_get(leak, "ports"), *one;
    size_t index;
    char text[64];
    if (json_is_true(json_object_get(leak, "keepAlive")))
        add_part(to, "keepAlive");
    json_array_foreach(ports, index, one)
    {
        snprintf(text, sizeof text, "port %lld", (long long)json_integer_value(one));
        add_part(to, text);
    }
    json_array_foreach(processes, index, one)
    {
        if (index == LEFT_SHOWN)
            break;
        snprintf(text, sizeof text, "%.40s", text_of(one, "command"));
        add_part(to, text);
    }
    if (json_array_size(processes) > LEFT_SHOWN) {
        snprintf(text, sizeof text, "%zu more processes", json_array_size(processes) - LEFT_SHOWN);
        add_part(to, text);
    }
}

static void print_leaks(const json_t *leaks, FILE *to)
{
    CLEANUP_TABLE struct table table = {.columns = 5};
    const char *const head[] = {"  SANDBOX", "CLASS", "STATE", "WHY", "LEFT"};
    table_add(&table, head);
    const json_t *leak;
    size_t index;
    json_array_foreach(leaks, index, leak)
    {
        if (index == LEAKS_SHOWN)
            break;
        CLEANUP_BUF struct buf left = BUF_INIT(LEFT_BYTES_MAX);
        char id[TABLE_CELL];
        snprintf(id, sizeof id, "  %.70s", text_of(leak, "id"));
        describe_left(leak, &left);
        const char *const cells[] = {id, text_of(leak, "class"), text_of(leak, "state"),
                                     text_of(leak, "why"), left.size ? buf_text(&left) : NULL};
        table_add(&table, cells);
    }
    table_print(&table, to);
    if (json_array_size(leaks) > LEAKS_SHOWN)
        fprintf(to, "  and %zu more\n", json_array_size(leaks) - LEAKS_SHOWN);
}

static void print_usage(const json_t *usage, FILE *to)
{
    char active[32];
    long long containers = number_of(usage, "containers");
    text_duration(number_of(usage, "activeMs"), active);
    const json_t *cost = json_object_get(usage, "costUsd");
    fprintf(to, "  %lld container%s, active for %s of the emulator's time: at most $%.6f",
            containers, containers == 1 ? "" : "s", active,
            json_real_value(json_object_get(cost, "atMost")));
    const json_t *class;
    size_t index, shown = 0;
    json_array_foreach(json_object_get(usage, "classes"), index, class)
    {
        if (number_of(class, "containers") > 0)
            fprintf(to, "%s%s as %s", shown++ ? ", " : " (", text_of(class, "class"),
                    text_of(class, "instanceType"));
    }
    fprintf(to, "%s\n", shown ? ")" : "");
}

void report_print(const json_t *report, FILE *to)
{
    const json_t *leaks = json_object_get(report, "leaks");
    const json_t *usage = json_object_get(report, "usage");
    size_t count = json_array_size(leaks);
    if (number_of(usage, "containers") == 0)
        return;
    if (count == 0)
        fprintf(to, "sandpit run: nothing is left behind\n");
    else
        fprintf(to,
                "sandpit run: %zu sandbox%s never destroyed, %lld process%s left, %lld port%s "
                "exposed\n",
                count, count == 1 ? " was" : "es were", number_of(report, "processes"),
                number_of(report, "processes") == 1 ? "" : "es", number_of(report, "ports"),
                number_of(report, "ports") == 1 ? "" : "s");
    if (count > 0)
        print_leaks(leaks, to);
    print_usage(usage, to);
}
