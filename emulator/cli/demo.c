/* `sandpit demo`: lists the demos, plays one, or prints it for a shell. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/options.h"
#include "cli/text.h"
#include "worker/nearest.h"

enum { SCRIPT_BYTES_MAX = 8 << 20 };

static int read_whole(const char *path, struct buf *to, struct error *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "open '%s'", path);
    for (;;) {
        char *room = buf_reserve(to, 65536, NULL);
        if (!room)
            return error_set(err, EFBIG, "'%s' is larger than 1 MiB", path);
        ssize_t got = read(fd, room, 65536);
        if (got < 0)
            return error_errno(err, errno, "read '%s'", path);
        if (got == 0)
            return 0;
        buf_commit(to, (size_t)got);
    }
}

static const struct demo_embedded *find(const char *name)
{
    for (const struct demo_embedded *one = demo_embedded; one->name; one++) {
        if (strcmp(one->name, name) == 0)
            return one;
    }
    return NULL;
}

static int list(void)
{
    size_t width = 0;
    for (const struct demo_embedded *one = demo_embedded; one->name; one++)
        width = strlen(one->name) > width ? strlen(one->name) : width;
    for (const struct demo_embedded *one = demo_embedded; one->name; one++) {
        const char *title = one->start + strspn(one->start, "# ");
        printf("%-*s  %.*s\n", (int)width, one->name, (int)strcspn(title, "\n"), title);
    }
    return 0;
}

static int unknown(const char *name)
{
    struct nearest nearest = nearest_to(name);
    for (const struct demo_embedded *one = demo_embedded; one->name; one++)
        nearest_try(&nearest, one->name);
    fprintf(stderr, "sandpit demo: there is no demo and no file '%s'", name);
    if (nearest.best)
        fprintf(stderr, "; did you mean %s?", nearest.best);
    fprintf(stderr, "\nTry: sandpit demo\n");
    return 2;
}

/* The base name of a file without ".demo". */
static void name_of(const char *path, char *to, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(to, size, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(to, '.');
    if (dot && dot != to)
        *dot = '\0';
}

/* A name of ours, else a file. Exit code, or OPT_GO when it was read. */
static int load(const char *wanted, struct demo *demo, char *source, size_t size)
{
    struct error err = {0};
    CLEANUP_BUF struct buf text = BUF_INIT(DEMO_BYTES_MAX + 65536);
    const struct demo_embedded *own = find(wanted);
    snprintf(source, size, own ? "%s.demo" : "%s", wanted);
    if (own)
        return demo_read(source, own->start, (size_t)(own->end - own->start), demo, &err) < 0
                   ? text_fail("demo", &err, 1)
                   : OPT_GO;
    if (access(wanted, F_OK) < 0)
        return unknown(wanted);
    if (read_whole(wanted, &text, &err) < 0 ||
        demo_read(source, buf_text(&text), text.size, demo, &err) < 0)
        return text_fail("demo", &err, 2);
    return OPT_GO;
}

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    for (const char *at = path ? path : ""; *at; at += strspn(at, ":")) {
        size_t size = strcspn(at, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)size, at, program);
        if (access(file, X_OK) == 0)
            return true;
        at += size;
    }
    return false;
}

/* Sandboxes have the programs of this machine, and no others. */
static const char *missing(const struct demo *demo)
{
    for (size_t i = 0; i < demo->need_count; i++) {
        if (!on_path(demo->needs[i]))
            return demo->needs[i];
    }
    return NULL;
}

int cmd_demo(int argc, char **argv)
{
    bool step = false, curl = false;
    const struct opt rows[] = {
        OPT_FLAG("step", 0, &step, "wait for a key before each request"),
        OPT_FLAG("curl", 0, &curl, "print the story as curl lines instead of playing it"),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit demo [options] [NAME|FILE]",
        .about = "Shows what surprises users of sandboxes: each demo does it the wrong way, then\n"
                 "the right way, on an emulator of its own, and fails when anything comes\n"
                 "otherwise than it says. Without a name it lists them. docs/demos.md tells how\n"
                 "to write your own.",
        .rows = rows,
        .max = 1,
    };
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    if (rest.argument_count == 0)
        return list();
    CLEANUP_DEMO struct demo demo = {0};
    char source[512], name[256];
    code = load(rest.arguments[0], &demo, source, sizeof source);
    if (code != OPT_GO)
        return code;
    name_of(source, name, sizeof name);
    const char *program = curl ? NULL : missing(&demo);
    if (program) {
        fprintf(stderr, "sandpit demo: %s needs %s, which is not on this machine\n", name, program);
        return 2;
    }
    if (!curl)
        return demo_play(&demo, &(struct demo_play){.name = name, .source = source, .step = step});
    CLEANUP_BUF struct buf script = BUF_INIT(SCRIPT_BYTES_MAX);
    if (demo_curl(&demo, name, &script) < 0) {
        struct error err = {0};
        error_set(&err, EMSGSIZE, "the script is too large");
        return text_fail("demo", &err, 1);
    }
    fwrite(buf_text(&script), 1, script.size, stdout);
    return 0;
}
