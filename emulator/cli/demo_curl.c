/* A demo as a shell script that can be pasted: its prose as comments, its requests as curl lines.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/quote.h"
#include "cli/demo.h"

/* Text in single quotes, with {{name}} as "$name" outside of them. */
static void add_quoted(struct buf *to, const char *text)
{
    buf_addc(to, '\'');
    for (; *text; text++) {
        const char *close = strncmp(text, "{{", 2) == 0 ? strstr(text, "}}") : NULL;
        if (close) {
            buf_addf(to, "'\"$%.*s\"'", (int)(close - text - 2), text + 2);
            text = close + 1;
        } else if (*text == '\'') {
            buf_adds(to, "'\\''");
        } else {
            buf_addc(to, *text);
        }
    }
    buf_addc(to, '\'');
}

/* A path behind $SANDPIT_URL, in double quotes: names are expanded, all else is as it is. */
static void add_url(struct buf *to, const char *path)
{
    buf_adds(to, "\"$SANDPIT_URL");
    for (; *path; path++) {
        const char *close = strncmp(path, "{{", 2) == 0 ? strstr(path, "}}") : NULL;
        if (close) {
            buf_addf(to, "${%.*s}", (int)(close - path - 2), path + 2);
            path = close + 1;
        } else {
            if (strchr("\"$`\\", *path))
                buf_addc(to, '\\');
            buf_addc(to, *path);
        }
    }
    buf_addc(to, '"');
}

static void add_comment(struct buf *to, const char *text)
{
    buf_adds(to, "# ");
    for (; *text; text++) {
        buf_addc(to, *text);
        if (*text == '\n')
            buf_adds(to, "# ");
    }
    buf_addc(to, '\n');
}

static void add_headers(struct buf *to, const char *headers)
{
    for (size_t size; *headers; headers += size + 2) {
        char line[1024];
        size = strcspn(headers, "\r");
        snprintf(line, sizeof line, "%.*s", (int)size, headers);
        buf_adds(to, " -H ");
        quote_word(to, line);
    }
}

static void add_request(struct buf *to, const struct demo_step *step)
{
    struct demo_request clock = {.method = step->method};
    const char *path = step->path, *body = step->body;
    if (step->kind == DEMO_CLOCK) {
        demo_clock_request(step->text, &clock);
        path = clock.path;
        body = *clock.body ? clock.body : NULL;
    }
    if (step->save_count)
        buf_adds(to, "answer=$(curl -s");
    else
        buf_adds(to, "curl -sw '\\n'");
    /* curl says POST by itself when there is a body, and GET when there is none. */
    if (strcmp(clock.method, body ? "POST" : "GET") != 0)
        buf_addf(to, " -X %s", clock.method);
    buf_addc(to, ' ');
    add_url(to, path);
    add_headers(to, buf_text(&step->headers));
    if (body) {
        buf_adds(to, " -d ");
        add_quoted(to, body);
    }
    buf_adds(to, step->save_count ? ")\n" : "\n");
}

/* A saved value is kept as it would stand inside a JSON string, because there it is used. */
static void add_saves(struct buf *to, const struct demo_step *step)
{
    for (size_t i = 0; i < step->save_count; i++)
        buf_addf(to, "%s=$(printf '%%s' \"$answer\" | jq -r '%s | tostring | tojson | .[1:-1]')\n",
                 step->saves[i].name, step->saves[i].path);
    if (step->save_count)
        buf_adds(to, "printf '%s\\n' \"$answer\"\n");
}

static void add_expectations(struct buf *to, const struct demo_step *step)
{
    for (size_t i = 0; i < step->check_count; i++) {
        buf_adds(to, "#   → ");
        for (const char *at = step->checks[i].text; *at; at++)
            buf_addc(to, *at == '\n' ? ' ' : *at);
        buf_addc(to, '\n');
    }
}

static void add_start(struct buf *to, const struct demo *demo, const char *name)
{
    if (demo->file_count) {
        buf_adds(to, "mkdir -p ");
        quote_word(to, name);
        buf_adds(to, " && cd ");
        quote_word(to, name);
        buf_addc(to, '\n');
    }
    for (size_t i = 0; i < demo->file_count; i++) {
        buf_adds(to, "cat > ");
        quote_word(to, demo->files[i].name);
        buf_adds(to, " <<'END'\n");
        demo_file_text(&demo->files[i], to);
        buf_adds(to, "END\n");
    }
    buf_addf(to, "# Start it in another terminal%s: sandpit dev --ephemeral",
             demo->file_count ? ", in this directory" : "");
    for (size_t i = 0; i < demo->option_count; i++) {
        buf_addc(to, ' ');
        quote_word(to, demo->options[i]);
    }
    buf_adds(to, "\n: \"${SANDPIT_URL:=http://localhost:8787}\"\n"
                 "curl -sw '\\n' -X POST \"$SANDPIT_URL/cdn-cgi/local/clock/freeze\"\n");
}

int demo_curl(const struct demo *demo, const char *name, struct buf *to)
{
    add_comment(to, demo->title);
    add_start(to, demo, name);
    for (size_t i = 0; i < demo->step_count; i++) {
        const struct demo_step *step = &demo->steps[i];
        if (step->kind == DEMO_HEADING || step->kind == DEMO_PROSE) {
            bool apart = i == 0 || step[-1].kind != step->kind;
            buf_adds(to, apart ? "\n" : "");
            add_comment(to, step->text);
            continue;
        }
        add_request(to, step);
        add_saves(to, step);
        add_expectations(to, step);
    }
    return to->error;
}
