/* `sandpit init`: a small project that is right. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/classes.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "config/wrangler.h"

enum { FILE_BYTES_MAX = 1 << 16, NAME_MAX_BYTES = 54 };

/* The text may have one %s, for the project's name. */
static const struct file {
    const char *name, *text;
} files[] = {
    {"wrangler.jsonc",
     "{\n"
     "    \"$schema\": \"node_modules/wrangler/config-schema.json\",\n"
     "    \"name\": \"%s\",\n"
     "    \"main\": \"src/index.ts\",\n"
     "    \"compatibility_date\": \"2026-01-01\",\n"
     "    \"compatibility_flags\": [\"nodejs_compat\"], // the SDK needs it\n"
     "    \"containers\": [\n"
     "        {\n"
     "            \"class_name\": \"Sandbox\",\n"
     "            \"image\": \"./Dockerfile\",\n"
     "            \"instance_type\": \"basic\",\n"
     "            \"max_instances\": 5,\n"
     "        },\n"
     "    ],\n"
     "    \"durable_objects\": {\n"
     "        // proxyToSandbox looks for this name.\n"
     "        \"bindings\": [{ \"name\": \"Sandbox\", \"class_name\": \"Sandbox\" }],\n"
     "    },\n"
     "    \"migrations\": [{ \"tag\": \"v1\", \"new_sqlite_classes\": [\"Sandbox\"] }],\n"
     "}\n"},
    {"Dockerfile", "FROM docker.io/cloudflare/sandbox:" DEFAULT_VERSION "\n"
                   "# wrangler before 4.136 needs this for local development.\n"
                   "EXPOSE 8080\n"},
    {"src/index.ts",
     "import { getSandbox, proxyToSandbox, type Sandbox } from '@cloudflare/sandbox';\n"
     "export { Sandbox } from '@cloudflare/sandbox';\n"
     "\n"
     "interface Env {\n"
     "    Sandbox: DurableObjectNamespace<Sandbox>;\n"
     "}\n"
     "\n"
     "export default {\n"
     "    async fetch(request: Request, env: Env): Promise<Response> {\n"
     "        // Requests for preview URLs go to the sandbox.\n"
     "        const preview = await proxyToSandbox(request, env);\n"
     "        if (preview) return preview;\n"
     "\n"
     "        const sandbox = getSandbox(env.Sandbox, 'my-box');\n"
     "        const result = await sandbox.exec('echo hello');\n"
     "        return Response.json(result, { status: result.success ? 200 : 500 });\n"
     "    },\n"
     "};\n"},
    {"package.json", "{\n"
                     "    \"name\": \"%s\",\n"
                     "    \"private\": true,\n"
                     "    \"scripts\": { \"deploy\": \"wrangler deploy\" },\n"
                     "    \"dependencies\": { \"@cloudflare/sandbox\": \"" DEFAULT_VERSION "\" },\n"
                     "    \"devDependencies\": { \"wrangler\": \"^4.136.0\" }\n"
                     "}\n"},
};
enum { FILES = sizeof files / sizeof *files };

/* A Worker's name has lower-case letters, digits and hyphens. */
static void name_of(const char *dir, char to[NAME_MAX_BYTES + 1])
{
    const char *base = strrchr(dir, '/');
    size_t size = 0;
    for (base = base ? base + 1 : dir; *base && size < NAME_MAX_BYTES; base++) {
        if (isalnum((unsigned char)*base))
            to[size++] = (char)tolower((unsigned char)*base);
        else if (size > 0 && to[size - 1] != '-')
            to[size++] = '-';
    }
    while (size > 0 && to[size - 1] == '-')
        size--;
    to[size] = '\0';
    if (size == 0)
        snprintf(to, NAME_MAX_BYTES + 1, "my-sandbox");
}

/* A directory with those above it. */
static int make_dirs(const char *path, struct error *err)
{
    CLEANUP_FREE char *copy = strdup(path);
    struct stat status;
    if (!copy)
        return error_errno(err, ENOMEM, "make '%s'", path);
    for (char *slash = copy;;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return error_errno(err, errno, "make '%s'", copy);
        if (!slash)
            break;
        *slash = '/';
    }
    if (stat(path, &status) < 0 || !S_ISDIR(status.st_mode))
        return error_set(err, ENOTDIR, "'%s' is not a directory", path);
    return 0;
}

/* Nothing is written when something would be in the way. A link that leads nowhere is there too. */
static int check_free(const char *dir, struct error *err)
{
    static const char *const others[] = {"wrangler.json", "wrangler.toml"};
    char path[PATH_MAX + 64];
    struct stat status;
    for (size_t i = 0; i < FILES + 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i < FILES ? files[i].name : others[i - FILES]);
        if (lstat(path, &status) == 0)
            return error_set(err, EEXIST, "'%s' is there already; nothing was written", path);
    }
    snprintf(path, sizeof path, "%s/src", dir);
    if (lstat(path, &status) == 0 && (stat(path, &status) < 0 || !S_ISDIR(status.st_mode)))
        return error_set(err, ENOTDIR, "'%s' is not a directory; nothing was written", path);
    return 0;
}

static int write_file(const char *dir, const struct file *file, const char *name, struct error *err)
{
    char path[PATH_MAX + 64];
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    const char *hole = strstr(file->text, "%s");
    buf_add(&text, file->text, hole ? (size_t)(hole - file->text) : strlen(file->text));
    if (hole)
        buf_addf(&text, "%s%s", name, hole + 2);
    snprintf(path, sizeof path, "%s/%s", dir, file->name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "make '%s'", path);
    if (write(fd, buf_text(&text), text.size) != (ssize_t)text.size) {
        int error = errno ? errno : EIO;
        unlink(path);
        return error_errno(err, error, "write '%s'", path);
    }
    return 0;
}

/* All files, or none. */
static int write_files(const char *dir, const char *name, struct error *err)
{
    char path[PATH_MAX + 64];
    int result = 0;
    size_t written = 0;
    while (written < FILES && (result = write_file(dir, &files[written], name, err)) == 0)
        written++;
    while (result < 0 && written-- > 0) {
        snprintf(path, sizeof path, "%s/%s", dir, files[written].name);
        unlink(path);
    }
    return result;
}

/* wrangler would take a wrangler.json further up for the one of this directory. */
static void warn_of_shadow(const char *dir)
{
    struct error err = {0};
    char found[PATH_MAX];
    if (project_locate(dir, found, &err) == 0 && strcmp(found, dir) != 0)
        log_warn("a wrangler.json in %s comes before this wrangler.jsonc: name it with --config",
                 found);
}

static int init(const char *given, struct error *err)
{
    char dir[PATH_MAX], src[PATH_MAX + 8], name[NAME_MAX_BYTES + 1];
    int result = make_dirs(given, err);
    if (result < 0)
        return result;
    if (!realpath(given, dir))
        return error_errno(err, errno, "open '%s'", given);
    name_of(dir, name);
    snprintf(src, sizeof src, "%s/src", dir);
    result = check_free(dir, err);
    if (result == 0)
        result = make_dirs(src, err);
    if (result == 0)
        result = write_files(dir, name, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < FILES; i++)
        printf("  %s/%s\n", dir, files[i].name);
    warn_of_shadow(dir);
    bool here = strcmp(given, ".") == 0;
    printf("\nNext: sandpit dev%s%s\n", here ? "" : " ", here ? "" : given);
    return 0;
}

int cmd_init(int argc, char **argv)
{
    const struct opt rows[] = {OPT_END};
    const struct opt_command command = {
        .synopsis = "sandpit init [DIR]",
        .about = "Writes a small project for sandboxes into DIR (default: here): configuration,\n"
                 "Dockerfile, Worker and package.json. Nothing is overwritten: when one of them\n"
                 "is there already, nothing is written.",
        .rows = rows,
        .max = 1,
    };
    struct opt_rest rest;
    struct error err = {0};
    int code = opt_parse(&command, argc, argv, &rest);
    if (code != OPT_GO)
        return code;
    if (init(rest.argument_count ? rest.arguments[0] : ".", &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 1;
}
