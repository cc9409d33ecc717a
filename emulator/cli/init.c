/* `sandpit init`: a small project that is right. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/classes.h"
#include "cli/commands.h"
#include "cli/options.h"

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

static int make_dir(const char *path, struct error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    return error_errno(err, errno, "make '%s'", path);
}

/* Nothing is written when something would be overwritten. */
static int check_free(const char *dir, struct error *err)
{
    static const char *const others[] = {"wrangler.json", "wrangler.toml"};
    char path[PATH_MAX + 64];
    for (size_t i = 0; i < FILES + 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i < FILES ? files[i].name : others[i - FILES]);
        if (access(path, F_OK) == 0)
            return error_set(err, EEXIST, "'%s' is there already; nothing was written", path);
    }
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
    if (write(fd, buf_text(&text), text.size) != (ssize_t)text.size)
        return error_errno(err, errno ? errno : EIO, "write '%s'", path);
    printf("  %s\n", path);
    return 0;
}

static int init(const char *given, struct error *err)
{
    char dir[PATH_MAX], src[PATH_MAX + 8], name[NAME_MAX_BYTES + 1];
    int result = make_dir(given, err);
    if (result < 0)
        return result;
    if (!realpath(given, dir))
        return error_errno(err, errno, "open '%s'", given);
    name_of(dir, name);
    snprintf(src, sizeof src, "%s/src", dir);
    result = check_free(dir, err);
    if (result == 0)
        result = make_dir(src, err);
    for (size_t i = 0; i < FILES && result == 0; i++)
        result = write_file(dir, &files[i], name, err);
    if (result == 0)
        printf("\nNext: sandpit dev %s\n", strcmp(given, ".") == 0 ? "" : given);
    return result;
}

int cmd_init(int argc, char **argv)
{
    const struct opt rows[] = {OPT_END};
    const struct opt_command command = {
        .synopsis = "sandpit init [DIR]",
        .about = "Writes a small project for sandboxes into DIR (default: here): configuration,\n"
                 "Dockerfile, Worker and package.json. Nothing is overwritten.",
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
