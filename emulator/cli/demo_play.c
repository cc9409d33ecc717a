/* Playing a demo on a private emulator whose clock stands still unless the demo turns it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/demo.h"
#include "cli/locator.h"
#include "cli/private.h"
#include "cli/text.h"

/* `answer` and `request` bound what is printed of each. */
enum { ANSWER_COLUMNS = 220, REQUEST_COLUMNS = 300, TIMEOUT_MS = 60000, BODY_MAX = 64 << 20 };

struct player {
    const struct demo *demo;
    const struct demo_play *play;
    const struct private_emulator *emulator;
    struct client client;
    struct demo_values values;
    char directory[PATH_MAX]; /* of this process */
    char project[PATH_MAX + 16];
    int64_t started_ms, now_ms; /* virtual */
    int requests, checks;
    const char *bold, *dim, *green, *red, *off;
};

/* Printing. */

static void set_colours(struct player *player)
{
    bool on = log_colours(STDOUT_FILENO);
    player->bold = on ? "\033[1m" : "";
    player->dim = on ? "\033[2m" : "";
    player->green = on ? "\033[32m" : "";
    player->red = on ? "\033[31m" : "";
    player->off = on ? "\033[0m" : "";
}

/* One line of at most `columns` bytes; newlines with what indents the next line become one space.
 * What comes out of a sandbox may hold anything, so control characters are replaced. */
static void print_flat(const char *text, size_t columns)
{
    size_t written = 0;
    for (; *text && written < columns; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n') {
            putchar(' ');
            text += strspn(text + 1, " \t\n");
        } else {
            putchar(c < 0x20 || c == 0x7f ? '?' : c);
        }
        written++;
    }
    while (((unsigned char)*text & 0xc0) == 0x80) /* the rest of a character that was begun */
        putchar(*text++);
    if (*text)
        printf(" …");
}

static void print_time(const struct player *player)
{
    long long seconds = (player->now_ms - player->started_ms) / 1000;
    printf("  %s%02lld:%02lld:%02lld%s  ", player->dim, seconds / 3600, seconds / 60 % 60,
           seconds % 60, player->off);
}

/* What is the same in all answers says nothing here. */
static json_t *without_noise(const json_t *answer)
{
    static const char *const noise[] = {"timestamp", "duration",   "command", "sessionId",
                                        "docs",      "suggestion", "success"};
    json_t *copy = json_copy((json_t *)answer);
    bool failed = json_is_false(json_object_get(answer, "success"));
    for (size_t i = 0; json_is_object(copy) && i < sizeof noise / sizeof *noise; i++) {
        if (!failed || strcmp(noise[i], "success") != 0)
            json_object_del(copy, noise[i]);
    }
    return copy;
}

static void print_json(const json_t *value)
{
    CLEANUP_FREE char *text = json_dumps(value, JSON_ENCODE_ANY);
    print_flat(text ? text : "", ANSWER_COLUMNS);
}

/* The members that the demo asks for, as far as they are there. */
static void print_shown(const struct player *player, const struct demo_step *step,
                        const json_t *answer)
{
    bool first = true;
    for (size_t i = 0; i < step->show_count; i++) {
        const json_t *value = demo_at(answer, step->shows[i]);
        if (!value)
            continue;
        printf("%s%s%s%s ", first ? "" : "  ", player->dim, step->shows[i], player->off);
        print_json(value);
        first = false;
    }
}

static void print_answer(const struct player *player, const struct demo_step *step,
                         const struct client_answer *answer)
{
    printf("       %s%d%s  ", answer->status < 400 ? player->green : player->red, answer->status,
           player->off);
    if (step->show_count) {
        print_shown(player, step, answer->json);
    } else if (answer->json) {
        CLEANUP_JSON json_t *shown = without_noise(answer->json);
        if (json_is_object(shown) && json_object_size(shown) == 0)
            printf("ok");
        else
            print_json(shown);
    } else {
        print_flat(buf_text(&answer->body), ANSWER_COLUMNS);
    }
    putchar('\n');
}

/* Requests. */

static int send_request(struct player *player, const struct demo_step *step,
                        const struct demo_request *request, const char *body,
                        struct client_answer *answer, struct error *err)
{
    struct client_message message = {.method = request->method,
                                     .path = request->path,
                                     .headers = step ? buf_text(&step->headers) : NULL,
                                     .body = body,
                                     .body_size = body ? strlen(body) : 0};
    return client_send(&player->client, &message, TIMEOUT_MS, answer, err);
}

static int read_clock(struct player *player, struct error *err)
{
    struct client_answer answer;
    struct demo_request request = {.method = "GET", .path = "/cdn-cgi/local/clock"};
    int result = send_request(player, NULL, &request, NULL, &answer, err);
    if (result == 0)
        player->now_ms = text_time(json_object_get(answer.json, "now"));
    client_answer_free(&answer);
    return result;
}

static int keep_values(struct player *player, const struct demo_step *step,
                       const struct client_answer *answer, struct error *err)
{
    for (size_t i = 0; i < step->save_count; i++) {
        const struct demo_save *save = &step->saves[i];
        const json_t *value = demo_at(answer->json, save->path);
        if (!value)
            return error_set(err, EINVAL, "the answer has no %s to save", save->path);
        json_object_set(player->values.values, save->name, (json_t *)value);
    }
    return 0;
}

static void print_checks(const struct player *player, const struct demo_step *step)
{
    if (!step->check_count)
        return;
    printf("            %s✔%s ", player->green, player->off);
    for (size_t i = 0; i < step->check_count; i++) {
        const char *text = step->checks[i].text;
        CLEANUP_BUF struct buf expanded = BUF_INIT(BODY_MAX);
        demo_expand(&expanded, text + (strncmp(text, "json ", 5) == 0 ? 5 : 0), &player->values,
                    true, NULL);
        printf("%s", i ? ", " : "");
        print_flat(buf_text(&expanded), ANSWER_COLUMNS);
    }
    putchar('\n');
}

/* Without an expected status a step must succeed. */
static int check_answer(struct player *player, const struct demo_step *step,
                        const struct client_answer *answer, int *line, struct error *err)
{
    bool told = false;
    for (size_t i = 0; i < step->check_count; i++) {
        *line = step->checks[i].line;
        told = told || step->checks[i].relation == DEMO_STATUS;
        int result = demo_check(&step->checks[i], answer, &player->values, err);
        if (result < 0)
            return result;
        player->checks++;
    }
    *line = step->line;
    if (!told && answer->status >= 400)
        return error_set(err, EINVAL, "expected success, but %d came: %.200s", answer->status,
                         buf_text(&answer->body));
    return keep_values(player, step, answer, err);
}

static int expand_step(const struct player *player, const struct demo_step *step,
                       struct demo_request *request, struct buf *body, struct error *err)
{
    if (step->kind == DEMO_CLOCK) {
        demo_clock_request(step->text, request);
        return buf_adds(body, request->body);
    }
    CLEANUP_BUF struct buf path = BUF_INIT(sizeof request->path - 1);
    int result = demo_expand(&path, step->path, &player->values, false, err);
    if (result == 0 && step->body)
        result = demo_expand(body, step->body, &player->values, true, err);
    request->method = step->method;
    snprintf(request->path, sizeof request->path, "%s", buf_text(&path));
    if (strpbrk(request->path, " \r\n"))
        return error_set(err, EINVAL, "a saved value with a space cannot be part of a path");
    return result;
}

static void print_request(const struct player *player, const struct demo_step *step,
                          const struct demo_request *request, const struct buf *body)
{
    print_time(player);
    if (step->kind == DEMO_CLOCK) {
        printf("%sclock ", player->bold);
        print_flat(step->text, REQUEST_COLUMNS);
        printf("%s\n", player->off);
        return;
    }
    printf("%s%s %s%s%s", player->bold, request->method, request->path, player->off,
           body->size ? " " : "");
    print_flat(buf_text(body), REQUEST_COLUMNS);
    putchar('\n');
    const char *headers = buf_text(&step->headers);
    for (size_t size; *headers; headers += size + 2) {
        size = strcspn(headers, "\r");
        printf("            %.*s\n", (int)size, headers);
    }
}

/* A key, the end of the input, or -EINTR for a signal. */
static int read_key(const struct player *player)
{
    char key;
    struct pollfd items[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = player->emulator->signals, .events = POLLIN}};
    if (poll(items, 2, -1) < 0 || items[1].revents)
        return -EINTR;
    return read(STDIN_FILENO, &key, 1) < 0 && errno == EINTR ? -EINTR : 0;
}

/* Signals are read instead of delivered meanwhile, because one that ended this process would leave
 * the terminal without echo. */
static int wait_for_key(const struct player *player, struct error *err)
{
    struct termios old, raw;
    sigprocmask(SIG_BLOCK, &player->emulator->mask, NULL);
    printf("            %spress a key%s", player->dim, player->off);
    fflush(stdout);
    bool terminal = tcgetattr(STDIN_FILENO, &old) == 0;
    if (terminal) {
        raw = old;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    int result = read_key(player);
    if (terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &old);
    printf("%s", terminal && result == 0 ? "\r\033[K" : "\n");
    if (result < 0) /* the signal stays blocked: the emulator is to be stopped first */
        return error_set(err, EINTR, "interrupted");
    sigprocmask(SIG_SETMASK, &player->emulator->old_mask, NULL);
    return 0;
}

static int play_request(struct player *player, const struct demo_step *step, int *line,
                        struct error *err)
{
    struct demo_request request;
    CLEANUP_BUF struct buf body = BUF_INIT(BODY_MAX);
    int result = expand_step(player, step, &request, &body, err);
    if (result == 0)
        result = read_clock(player, err);
    if (result < 0)
        return result;
    print_request(player, step, &request, &body);
    if (player->play->step && (result = wait_for_key(player, err)) < 0)
        return result;
    CLEANUP_ANSWER struct client_answer answer;
    result = send_request(player, step, &request, body.size ? buf_text(&body) : NULL, &answer, err);
    if (result < 0)
        return result;
    player->requests++;
    /* Of a clock line that went well the next line's time says all. */
    if (step->kind == DEMO_REQUEST || answer.status >= 400 || step->show_count)
        print_answer(player, step, &answer);
    result = check_answer(player, step, &answer, line, err);
    if (result == 0)
        print_checks(player, step);
    fflush(stdout);
    return result;
}

static int play_step(struct player *player, const struct demo_step *step, bool same, int *line,
                     struct error *err)
{
    switch (step->kind) {
    case DEMO_HEADING:
        printf("\n%s%s%s\n", player->bold, step->text, player->off);
        return 0;
    case DEMO_PROSE:
        printf("%s", same ? "" : "\n");
        print_flat(step->text, INT_MAX);
        putchar('\n');
        return 0;
    case DEMO_REQUEST:
    case DEMO_CLOCK:
        return play_request(player, step, line, err);
    }
    return 0;
}

static int play_steps(struct player *player, int *line, struct error *err)
{
    CLEANUP_ANSWER struct client_answer answer;
    struct demo_request freeze = {.method = "POST", .path = "/cdn-cgi/local/clock/freeze"};
    int result = send_request(player, NULL, &freeze, NULL, &answer, err);
    if (result == 0)
        result = read_clock(player, err);
    player->started_ms = player->now_ms;
    for (size_t i = 0; i < player->demo->step_count && result == 0; i++) {
        const struct demo_step *step = &player->demo->steps[i];
        *line = step->line;
        bool same = i > 0 && step[-1].kind == step->kind;
        result = play_step(player, step, same, line, err);
    }
    return result == 0 ? read_clock(player, err) : result;
}

/* The emulator. */

static int write_files(struct player *player, struct error *err)
{
    int result = locator_run_dir(player->directory, sizeof player->directory, err);
    if (result < 0)
        return result;
    snprintf(player->project, sizeof player->project, "%s/project", player->directory);
    if (mkdir(player->project, 0700) < 0)
        return error_errno(err, errno, "make '%s'", player->project);
    for (size_t i = 0; i < player->demo->file_count; i++) {
        const struct demo_file *file = &player->demo->files[i];
        char path[sizeof player->project + 128];
        CLEANUP_BUF struct buf text = BUF_INIT(DEMO_BYTES_MAX);
        snprintf(path, sizeof path, "%s/%s", player->project, file->name);
        CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (demo_file_text(file, &text) < 0 || fd < 0 ||
            write(fd, buf_text(&text), text.size) != (ssize_t)text.size)
            return error_errno(err, errno, "write '%s'", file->name);
    }
    return 0;
}

static int start(struct player *player, struct private_emulator *emulator, struct error *err)
{
    /* Stories repeat: no network, the same ids each time. */
    static char *const quiet[] = {"--network=none", "--seed=1", "--log-level=error"};
    int result = write_files(player, err);
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        private_add(emulator, quiet[i]);
    for (size_t i = 0; i < player->demo->option_count; i++)
        private_add(emulator, (char *)player->demo->options[i]);
    private_add(emulator, player->project);
    if (result == 0)
        result = private_start(emulator, err);
    if (result == 0)
        result = client_parse_url(emulator->url, &player->client, err);
    /* From here on Ctrl-C ends this process, and the emulator notices. */
    sigprocmask(SIG_SETMASK, &emulator->old_mask, NULL);
    return result;
}

static double real_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_end(const struct player *player, double seconds)
{
    char passed[32];
    int64_t ms = player->now_ms - player->started_ms;
    text_duration(ms, passed);
    printf("\n%s✔%s %s: %d requests, %d expectations, %s%s%.1f s\n", player->green, player->off,
           player->play->name, player->requests, player->checks, ms ? passed : "",
           ms ? " of virtual time in " : "", seconds);
}

int demo_play(const struct demo *demo, const struct demo_play *play)
{
    struct error err = {0};
    struct private_emulator emulator;
    struct player player = {
        .demo = demo, .play = play, .emulator = &emulator, .values.values = json_object()};
    int line = 1, code = 1;
    double began = real_seconds();
    set_colours(&player);
    private_prepare(&emulator);
    int result = start(&player, &emulator, &err);
    bool started = result == 0;
    if (started) {
        printf("%s%s%s\n", player.bold, demo->title, player.off);
        result = play_steps(&player, &line, &err);
    }
    int status = private_stop(&emulator);
    if (result == 0) {
        print_end(&player, real_seconds() - began);
        code = 0;
    } else if (started) {
        fflush(stdout);
        fprintf(stderr, "%s✘%s %s:%d: %s\n", log_colours(2) ? "\033[31m" : "",
                log_colours(2) ? "\033[0m" : "", play->source, line, err.text);
    } else {
        code = status == 2 ? 2 : text_fail("demo", &err, 1);
    }
    if (*player.directory)
        locator_remove();
    json_decref(player.values.values);
    return code;
}
