/* The options of `sandpit dev`, and those of them that count for the whole process. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/journal.h"
#include "base/log.h"
#include "base/random.h"
#include "cli/dev_internal.h"
#include "cli/options.h"

int dev_parse(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.dir = ".", .port = -1, .ready_fd = -1, .interactive = true};
    const struct opt rows[] = {
        OPT_NUMBER("port", 'p', &settings->port, 0, 65535, "N",
                   "listen on port N, 0 = any (default 8787, or the next free one)"),
        OPT_TEXT("ip", 0, &settings->ip, "ADDRESS",
                 "listen on this address (default: loopback only)"),
        OPT_TEXT("config", 'c', &settings->config, "FILE",
                 "read this wrangler.jsonc or wrangler.toml"),
        OPT_TEXT("env", 'e', &settings->environment, "NAME",
                 "the environment of the configuration (default $CLOUDFLARE_ENV, or none)"),
        OPT_TEXT("persist-to", 0, &settings->persist_to, "DIR", "keep state below DIR"),
        OPT_FLAG("ephemeral", 0, &settings->ephemeral, "keep no state"),
        OPT_CHOICE("default-session", 0, &settings->default_session, "on|off",
                   "whether calls without a session share one shell (default on)"),
        OPT_CHOICE("network", 0, &settings->network, "auto|none|pasta|slirp4netns",
                   "how sandboxes reach the network (default auto: what is installed)"),
        OPT_CHOICE("expose-check", 0, &settings->expose_check, "strict|warn|off",
                   "ports that no EXPOSE names (default: as the project's wrangler does)"),
        GIT_OPTION_ROWS(&settings->git),
        PLATFORM_OPTION_ROWS(&settings->platform),
        OPT_CHOICE("rules", 0, &settings->rules, "local|production",
                   "previews as on this machine, or only on a domain of yours (default local)"),
        OPT_FLAG("auth", 0, &settings->auth, "demand the bearer token that is printed"),
        OPT_TEXT("memory", 0, &settings->limits.memory, "SIZE",
                 "memory of a container, 512M (default: of its instance type, or 1G)"),
        OPT_NUMBER("pids", 0, &settings->limits.pids, 16, 4194304, "N",
                   "processes of a container (default 1024)"),
        OPT_TEXT("cpus", 0, &settings->limits.cpus, "N",
                 "CPUs of a container, 0.5 (default: of its instance type, or all)"),
        OPT_FLAG("no-limits", 0, &settings->limits.none, "no limits but of disk"),
        OPT_TEXT("stop-grace", 0, &settings->stop_grace, "DURATION",
                 "how long a stopped container may take to end (default 10s)"),
        OPT_CHOICE("log-level", 0, &settings->log_level, "debug|info|log|warn|error|none",
                   "how much to say (default log)"),
        OPT_CHOICE("log-format", 0, &settings->log_format, "text|json", "how to say it"),
        OPT_TEXT("seed", 0, &settings->seed, "N", "repeatable tokens, uuids and ids"),
        OPT_TEXT("journal", 0, &settings->journal, "FILE",
                 "append accepted requests, clock calls and process ends to FILE"),
        OPT_TEXT("events-file", 0, &settings->events_file, "FILE",
                 "append events to FILE as they happen, one JSON object in each line"),
        OPT_FLAG("faithful", 0, &settings->faithful,
                 "answers as the original's, without hints of the emulator"),
        OPT_TEXT("cwd", 0, &settings->cwd, "DIR", "change to DIR first"),
        OPT_CHOICE("local-protocol", 0, &settings->protocol, "http|https", NULL),
        OPT_TEXT("http-deadlines", 0, &settings->deadlines, "HEAD,BODY,IDLE", NULL),
        OPT_FLAG("local", 'l', &settings->local, NULL),
        OPT_FLAG("remote", 'r', &settings->remote, NULL),
        OPT_TEXT("ready-file", 0, &settings->ready_file.path, "FILE",
                 "write {url, port, pid, token} to FILE when ready, remove it at the end"),
        OPT_NUMBER("ready-fd", 0, &settings->ready_fd, 3, 1 << 20, "FD",
                   "write the URL to this descriptor when ready"),
        OPT_FLAG("show-interactive-dev-session", 0, &settings->interactive,
                 "keys on a terminal, --no-… for none (default on)"),
        OPT_END,
    };
    const struct opt_command command = {
        .synopsis = "sandpit dev [options] [DIR]",
        .about = "Serves the sandboxes of the Wrangler project in DIR (default: here) on\n"
                 "http://localhost:8787. Without a project there is one class, Sandbox.",
        .rows = rows,
        .more = opt_wrangler,
        .max = 1,
    };
    struct opt_rest rest;
    int code = opt_parse(&command, argc, argv, &rest);
    if (code == OPT_GO && rest.argument_count)
        settings->dir = rest.arguments[0];
    if (!settings->environment)
        settings->environment = getenv("CLOUDFLARE_ENV");
    return code;
}

/* Flags of wrangler that ask for what an emulator on this machine does not do. */
static int check_wrangler(const struct settings *settings, struct error *err)
{
    if (settings->remote)
        return error_set(err, EINVAL, "--remote: sandboxes run on this machine only");
    if (settings->protocol && strcmp(settings->protocol, "https") == 0)
        return error_set(err, EINVAL, "--local-protocol https is not served; use http");
    if (settings->cwd && chdir(settings->cwd) < 0)
        return error_errno(err, errno, "--cwd %s", settings->cwd);
    return 0;
}

int dev_setup(const struct settings *settings, struct error *err)
{
    const char *level = settings->log_level ? settings->log_level : getenv("WRANGLER_LOG");
    int parsed = level ? log_level_parse(level) : LOG_LOG;
    bool json = settings->log_format && strcmp(settings->log_format, "json") == 0;
    log_setup(parsed < 0 ? LOG_LOG : (enum log_level)parsed, json ? LOG_JSON : LOG_TEXT);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (settings->seed) {
        char *end;
        errno = 0;
        unsigned long long seed = strtoull(settings->seed, &end, 10);
        if (errno || *end || end == settings->seed)
            return error_set(err, EINVAL, "--seed takes a number, not '%s'", settings->seed);
        random_seed(seed);
    }
    int result = settings->journal ? journal_open(settings->journal, err) : 0;
    return result < 0 ? result : check_wrangler(settings, err);
}

bool dev_is_loopback(const char *ip)
{
    return !ip || strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0 ||
           strcmp(ip, "localhost") == 0;
}
