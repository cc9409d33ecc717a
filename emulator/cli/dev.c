/* sandpit dev: builds the layers from the bottom up, serves until a signal, and takes them down. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/random.h"
#include "cli/classes.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/doctor_project.h"
#include "cli/expose.h"
#include "cli/git.h"
#include "cli/keys.h"
#include "cli/limits.h"
#include "cli/locator.h"
#include "cli/networks.h"
#include "cli/options.h"
#include "cli/platform.h"
#include "cli/reload.h"
#include "cli/state.h"
#include "cli/whole_file.h"
#include "clock/clock.h"
#include "config/wrangler.h"
#include "control/control.h"
#include "drivers/driver.h"
#include "http/http.h"
#include "objects/objects.h"
#include "preview/preview.h"
#include "worker/worker.h"

enum {
    DEFAULT_PORT = 8787,
    PROBES = 10,
    SLEEP_AFTER_MS = 600000,
    STOP_GRACE_MS = 10000,
    LAST_EVENTS_MS = 30,
};

struct settings {
    const char *dir, *ip, *config, *persist_to, *log_level, *log_format, *default_session, *journal;
    const char *events_file;
    const char *stop_grace, *environment, *expose_check;
    const char *seed, *cwd, *protocol, *deadlines, *network, *rules;
    long port, ready_fd;
    bool ephemeral, auth, local, remote, faithful, interactive;
    struct ready_file ready_file;
    struct limits_options limits;
    struct git_options git;
    struct platform_options platform;
};

struct dev {
    struct settings settings;
    struct project project;
    char state_dir[PATH_MAX];
    char run_dir[PATH_MAX];
    char token[33];
    int lock;
    struct git_settings git;
    struct object_class *classes;
    struct loop *loop;
    struct clock *clock;
    struct driver *driver;
    struct store *store;
    struct buckets *buckets;
    struct objects *objects;
    struct worker *worker;
    struct preview *preview;
    struct control *control;
    struct http_server *http;
    struct keys *keys;
    struct reload *reload;
    bool ending;
    struct timer force;
};

static int parse(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.dir = ".", .port = -1, .ready_fd = -1, .interactive = true};
    const struct opt rows[] = {
        OPT_NUMBER("port", 'p', &settings->port, 0, 65535, "N",
                   "listen on port N, 0 = any (default 8787, or the next free one)"),
        OPT_TEXT("ip", 0, &settings->ip, "ADDRESS",
                 "listen on this address (default: loopback only)"),
        OPT_TEXT("config", 'c', &settings->config, "FILE", "read this wrangler.jsonc or wrangler.toml"),
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

/* Preparation. */

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

static int setup_basics(const struct settings *settings, struct error *err)
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
    return settings->journal ? journal_open(settings->journal, err) : 0;
}

static bool is_loopback(const char *ip)
{
    return !ip || strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0 ||
           strcmp(ip, "localhost") == 0;
}

/* Production never asks for EXPOSE. */
static struct class_options class_options(const struct settings *settings)
{
    bool production = settings->rules && strcmp(settings->rules, "production") == 0;
    return (struct class_options){.limits = &settings->limits,
                                  .platform = &settings->platform,
                                  .network = settings->network,
                                  .expose_check = settings->expose_check ? settings->expose_check
                                                  : production           ? "off"
                                                                         : NULL};
}

static int make_classes(struct dev *dev, struct error *err)
{
    const struct class_options options = class_options(&dev->settings);
    return classes_make(&options, &dev->project, &dev->classes, err);
}

/* Whatever is in `dir`; NULL = nothing is kept. */
static int open_stores(struct dev *dev, const char *dir, struct error *err)
{
    char objects[PATH_MAX + 32] = ":memory:", buckets[PATH_MAX + 32] = ":memory:";
    if (dir) {
        snprintf(objects, sizeof objects, "%s/objects.sqlite", dir);
        snprintf(buckets, sizeof buckets, "%s/buckets.sqlite", dir);
    }
    if (!(dev->store = store_open(objects, err)) || !(dev->buckets = buckets_open(buckets, err)))
        return -err->code;
    int result = buckets_bind(dev->buckets, BUCKET_DEFAULT);
    for (size_t i = 0; i < json_array_size(dev->project.buckets) && result == 0; i++)
        result = buckets_bind(dev->buckets,
                              json_string_value(json_array_get(dev->project.buckets, i)));
    return result < 0 ? error_errno(err, -result, "buckets") : 0;
}

static int open_state(struct dev *dev, struct error *err)
{
    if (dev->settings.ephemeral)
        return open_stores(dev, NULL, err);
    const char *project = dev->project.found ? dev->project.dir : NULL;
    int result = state_choose(dev->settings.persist_to, project, dev->state_dir, PATH_MAX, err);
    if (result < 0)
        return result;
    dev->lock = state_lock(dev->state_dir, err);
    if (dev->lock < 0)
        return dev->lock;
    return open_stores(dev, dev->state_dir, err);
}

static long long log_now(void *arg)
{
    return clock_now_ms(arg);
}

static int64_t http_now(void *arg)
{
    return clock_now_ms(arg);
}

/* A signal ends it: containers first, then the loop; a second one does not wait. */
static void stop_now(void *arg)
{
    loop_stop(((struct dev *)arg)->loop);
}

/* Those who follow the events see the last ones too. */
static void all_gone(void *arg)
{
    struct dev *dev = arg;
    loop_disarm(dev->loop, &dev->force);
    if (events_let_go(objects_events(dev->objects)) == 0 ||
        loop_arm(dev->loop, &dev->force, MS_NS(LAST_EVENTS_MS)) < 0)
        loop_stop(dev->loop);
}

static void end(void *arg, int signal)
{
    struct dev *dev = arg;
    if (dev->ending) {
        loop_stop(dev->loop);
        return;
    }
    dev->ending = true;
    dev->force = (struct timer){.fire = stop_now, .arg = dev};
    loop_arm(dev->loop, &dev->force, MS_NS(STOP_GRACE_MS));
    objects_shutdown(dev->objects, all_gone, dev);
}

/* In milliseconds of real time, or -EINVAL. */
static int stop_grace(const struct settings *settings, struct error *err)
{
    const int64_t most = 3600000;
    int64_t ms = settings->stop_grace ? clock_parse_duration(settings->stop_grace) : STOP_GRACE_MS;
    if (ms >= 0 && ms <= most)
        return (int)ms;
    return error_set(err, EINVAL, "--stop-grace takes a duration up to 1h (500ms, 10s), not '%s'",
                     settings->stop_grace);
}

static int build_layers(struct dev *dev, struct error *err)
{
    struct objects_config objects = {
        .classes = dev->classes,
        .class_count = dev->project.class_count,
        .sleep_after_ms = SLEEP_AFTER_MS,
        .default_session =
            !dev->settings.default_session || strcmp(dev->settings.default_session, "on") == 0,
        .stop_grace_ms = stop_grace(&dev->settings, err),
        .git = &dev->git,
        .start_hint = doctor_hint,
        .faithful = dev->settings.faithful,
        .ports = {.rules = port_rules_of(dev->settings.platform.sdk_version),
                  .production = dev->settings.rules &&
                                strcmp(dev->settings.rules, "production") == 0},
    };
    if (objects.stop_grace_ms < 0)
        return -err->code;
    if (platform_choose(&dev->settings.platform, &dev->project, &objects.platform, err) < 0)
        return -err->code;
    if (!(dev->loop = loop_new(err)) || !(dev->clock = clock_new(dev->loop, err)))
        return -err->code;
    log_set_clock(log_now, dev->clock);
    heap_setup(dev->loop);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int result = loop_signal(dev->loop, signals[i], end, dev);
        if (result < 0)
            return error_errno(err, -result, "signals");
    }
    if (locator_run_dir(dev->run_dir, sizeof dev->run_dir, err) < 0 ||
        git_settings_make(&dev->git, &dev->settings.git, &dev->project, dev->run_dir, err) < 0 ||
        !(dev->driver = driver_bwrap_new(dev->loop, dev->run_dir, err)) ||
        !(dev->objects =
              objects_new(dev->loop, dev->clock, dev->driver, dev->store, &objects, err)))
        return -err->code;
    if (dev->settings.events_file &&
        events_to_file(objects_events(dev->objects), dev->settings.events_file, err) < 0)
        return -err->code;
    struct control_config control = {
        .loop = dev->loop,
        .clock = dev->clock,
        .objects = dev->objects,
        .driver = "bwrap",
        .state_dir = dev->state_dir,
        .buckets = dev->buckets,
        .sdk_version = dev->settings.platform.sdk_version ? dev->settings.platform.sdk_version
                                                          : DEFAULT_VERSION,
    };
    if (!(dev->control = control_new(&control)))
        return error_errno(err, ENOMEM, "control");
    struct worker_config worker = {
        .loop = dev->loop,
        .objects = dev->objects,
        .clock = dev->clock,
        .page = control_page,
        .page_arg = dev->control,
        .buckets = dev->buckets,
        .faithful = dev->settings.faithful,
    };
    if (!(dev->worker = worker_new(&worker, err)))
        return -err->code;
    struct preview_config preview = {
        .loop = dev->loop,
        .clock = dev->clock,
        .objects = dev->objects,
        .proxy = worker_proxy(dev->worker),
        .faithful = dev->settings.faithful,
    };
    dev->preview = preview_new(&preview);
    return dev->preview ? 0 : error_errno(err, ENOMEM, "previews");
}

static bool is_early(void *arg, enum http_owner owner, const struct http_request *request)
{
    return owner == OWNER_PREVIEW || worker_forwards(owner, http_path(request));
}

static void handle_preview(void *arg, struct http_request *request)
{
    preview_handle(((struct dev *)arg)->preview, request);
}

static void handle_raw(void *arg, struct http_raw *raw)
{
    preview_raw(((struct dev *)arg)->preview, raw);
}

static bool has_domain(void *arg, struct span domain)
{
    return preview_has_domain(((struct dev *)arg)->preview, domain);
}

static void handle_worker(void *arg, struct http_request *request)
{
    worker_handle(((struct dev *)arg)->worker, request);
}

static bool worker_body_streams(void *arg, const struct http_request *request)
{
    return worker_streams(request);
}

static void handle_control(void *arg, struct http_request *request)
{
    control_handle(((struct dev *)arg)->control, request);
}

static void handle_container(void *arg, struct http_request *request)
{
    face_handle(((struct dev *)arg)->worker, request);
}

/* wrangler's rule: a port that was asked for must be free; the default one may move, but not in CI.
 */
static int listen_on(struct dev *dev, struct error *err)
{
    const struct settings *settings = &dev->settings;
    const char *ci = getenv("CI");
    bool asked = settings->port >= 0;
    bool token = settings->auth || !is_loopback(settings->ip);
    if (token)
        random_text(dev->token, sizeof dev->token - 1, "abcdefghijklmnopqrstuvwxyz0123456789");
    struct http_config http = {
        .ip = settings->ip && strcmp(settings->ip, "localhost") != 0 ? settings->ip : NULL,
        .port = (uint16_t)(asked ? settings->port : DEFAULT_PORT),
        .probe = asked || (ci && *ci) ? 0 : PROBES,
        .token = token ? dev->token : NULL,
        .now_ms = http_now,
        .now_arg = dev->clock,
        .handle = {[OWNER_WORKER] = handle_worker,
                   [OWNER_CONTROL] = handle_control,
                   [OWNER_CONTAINER] = handle_container,
                   [OWNER_PREVIEW] = handle_preview},
        .raw = handle_raw,
        .has_domain = has_domain,
        .streams = {[OWNER_WORKER] = worker_body_streams},
        .early = is_early,
        .arg = dev,
    };
    if (settings->deadlines && sscanf(settings->deadlines, "%d,%d,%d", &http.head_ms,
                                      &http.body_ms, &http.idle_ms) != 3)
        return error_set(err, EINVAL, "--http-deadlines takes three numbers of milliseconds");
    dev->http = http_new(dev->loop, &http, err);
    return dev->http ? 0 : -err->code;
}

/* What is said at the start. */

static void print_limits(const struct dev *dev)
{
    char text[256];
    for (size_t i = 0; i < dev->project.class_count; i++) {
        limits_text(&dev->classes[i], text, sizeof text);
        printf(" limits of %s: %s\n", dev->classes[i].name, text);
    }
    const char *note = driver_limits_note(dev->driver);
    if (note && !dev->settings.limits.none)
        log_warn("%s", note);
}

/* What of the boundary around sandboxes is not as it should be. */
static void print_boundary(const struct dev *dev)
{
    const char *warning = driver_warning(dev->driver), *limited = driver_limited(dev->driver);
    bool colours = log_colours(STDOUT_FILENO);
    if (warning)
        printf(" %s✘ %s%s\n", colours ? "\x1b[31m" : "", warning, colours ? "\x1b[0m" : "");
    if (limited)
        printf(" %s\n", limited);
}

static void print_banner(const struct dev *dev)
{
    const struct project *project = &dev->project;
    printf("\n sandpit %s\n ──────────────\n", SANDPIT_VERSION);
    if (!project->found)
        printf(" no wrangler.jsonc here: one built-in class, Sandbox (with Python)\n");
    for (size_t i = 0; project->found && i < project->class_count; i++)
        printf(" class %s: %s, version %s, %s\n", dev->classes[i].name,
               *project->classes[i].from ? project->classes[i].from : "built in",
               dev->classes[i].version,
               dev->classes[i].python ? "with Python" : "lean: no Python in the image");
    if (*project->main)
        printf(" the built-in Worker serves; your script %s is not run\n", project->main);
    const char *missing = driver_missing_tools(dev->driver);
    if (missing)
        printf(" %s\n", missing);
    print_boundary(dev);
    print_limits(dev);
    char network[512];
    networks_text(dev->classes, project->class_count, network, sizeof network);
    printf(" %s\n", network);
    printf(" previews: http://{port}-{id}-{token}.localhost:%u; where such names do not resolve "
           "(Safari, many CI machines), use pathUrl or a Host header\n",
           http_port(dev->http));
    printf(" state: %s\n", *dev->state_dir ? dev->state_dir : "none (--ephemeral)");
    if (!is_loopback(dev->settings.ip))
        log_warn("listening on %s: others on the network reach this emulator with the token",
                 dev->settings.ip);
    if (*dev->token)
        printf(" send the header: Authorization: Bearer %s\n", dev->token);
}

static int announce(struct dev *dev, struct error *err)
{
    uint16_t port = http_port(dev->http);
    const char *ip = dev->settings.ip;
    char host[128], url[160];
    bool plain = is_loopback(ip);
    snprintf(host, sizeof host, "%s:%u", plain ? "localhost" : ip, port);
    snprintf(url, sizeof url, "http://%s", host);
    char origin[32];
    snprintf(origin, sizeof origin, "localhost:%u", port);
    objects_set_origin(dev->objects, origin);
    control_set_port(dev->control, port);
    struct locator_entry entry = {.port = port};
    snprintf(entry.url, sizeof entry.url, "%s", url);
    snprintf(entry.state_dir, sizeof entry.state_dir, "%s", dev->state_dir);
    snprintf(entry.token, sizeof entry.token, "%s", dev->token);
    if (dev->project.found)
        snprintf(entry.project, sizeof entry.project, "%s", dev->project.dir);
    int result = locator_write(&entry, err);
    if (result == 0 && dev->lock >= 0)
        result = state_publish(dev->lock, port, err);
    if (result < 0)
        return result;
    if (log_enabled(LOG_LOG) && !getenv("WRANGLER_HIDE_BANNER"))
        print_banner(dev);
    doctor_warn();
    expose_warn(dev->classes, dev->project.class_count);
    if (dev->project.found)
        doctor_project_warn(dev->settings.dir, dev->settings.config, dev->settings.environment);
    printf("[sandpit:info] Ready on %s\n", url);
    fflush(stdout);
    result = ready_file_write(&dev->settings.ready_file, url, port, dev->token, err);
    if (result < 0)
        return result;
    if (dev->settings.ready_fd >= 0) {
        dprintf((int)dev->settings.ready_fd, "%s\n", url);
        close((int)dev->settings.ready_fd);
    }
    return 0;
}

static void quit(void *arg)
{
    end(arg, SIGINT);
}

static void read_again(void *arg)
{
    struct dev *dev = arg;
    const struct reload_config config = {.dir = dev->settings.dir,
                                         .file = dev->settings.config,
                                         .environment = dev->settings.environment,
                                         .classes = class_options(&dev->settings),
                                         .objects = dev->objects,
                                         .buckets = dev->buckets};
    if (!dev->reload)
        dev->reload = reload_new(&config);
    if (dev->reload)
        reload_run(dev->reload);
}

/* A terminal without keys is no reason to end. */
static void listen_to_keys(struct dev *dev)
{
    char url[64];
    struct error err = {0};
    snprintf(url, sizeof url, "http://localhost:%u", http_port(dev->http));
    struct keys_config keys = {.loop = dev->loop,
                               .clock = dev->clock,
                               .objects = dev->objects,
                               .url = url,
                               .reload = read_again,
                               .quit = quit,
                               .arg = dev};
    if (dev->settings.interactive && log_enabled(LOG_INFO))
        dev->keys = keys_new(&keys, &err);
    if (err.code)
        log_warn("no keys: %s", err.text);
}

static void take_down(struct dev *dev)
{
    keys_free(dev->keys);
    ready_file_remove(&dev->settings.ready_file);
    preview_close(dev->preview);
    worker_disconnect(dev->worker);
    http_free(dev->http);
    preview_free(dev->preview);
    worker_free(dev->worker);
    control_free(dev->control);
    objects_free(dev->objects);
    driver_free(dev->driver);
    store_close(dev->store);
    buckets_close(dev->buckets);
    if (dev->clock)
        log_set_clock(NULL, NULL);
    clock_free(dev->clock);
    loop_free(dev->loop);
    if (*dev->run_dir)
        locator_remove();
    cleanup_fd(&dev->lock);
    journal_close();
    reload_free(dev->reload);
    free(dev->classes);
    git_settings_free(&dev->git);
    project_free(&dev->project);
}

static int serve(struct dev *dev, struct error *err)
{
    int result = setup_basics(&dev->settings, err);
    if (result == 0)
        result = check_wrangler(&dev->settings, err);
    if (result == 0)
        result = ready_file_prepare(&dev->settings.ready_file, err);
    if (result == 0)
        result = project_load_environment(dev->settings.dir, dev->settings.config,
                                          dev->settings.environment, &dev->project, err);
    if (result == 0)
        result = make_classes(dev, err);
    if (result == 0)
        result = open_state(dev, err);
    if (result == 0)
        result = build_layers(dev, err);
    if (result == 0)
        result = listen_on(dev, err);
    if (result == 0)
        result = announce(dev, err);
    if (result == 0)
        listen_to_keys(dev);
    return result == 0 ? loop_run(dev->loop, err) : result;
}

int cmd_dev(int argc, char **argv)
{
    struct dev dev = {.lock = -1};
    int code = parse(&dev.settings, argc, argv);
    if (code != OPT_GO)
        return code;
    struct error err = {0};
    int result = serve(&dev, &err);
    if (result < 0)
        log_error("%s", err.text);
    if (result < 0 && *dev.run_dir && !dev.driver) {
        CLEANUP_FREE char *hint = doctor_hint(NULL, err.text);
        if (hint)
            log_error("%s", hint);
    }
    take_down(&dev);
    return result < 0 ? 1 : 0;
}
