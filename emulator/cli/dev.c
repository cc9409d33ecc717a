/* sandpit dev: builds the layers from the bottom up, serves until a signal, and takes them down. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/random.h"
#include "cli/classes.h"
#include "cli/commands.h"
#include "cli/dev_internal.h"
#include "cli/doctor.h"
#include "cli/doctor_project.h"
#include "cli/expose.h"
#include "cli/keys.h"
#include "cli/locator.h"
#include "cli/options.h"
#include "cli/reload.h"
#include "cli/state.h"
#include "clock/clock.h"
#include "control/control.h"
#include "preview/preview.h"
#include "worker/worker.h"

enum {
    DEFAULT_PORT = 8787,
    PROBES = 10,
    SLEEP_AFTER_MS = 600000,
    STOP_GRACE_MS = 10000,
    LAST_EVENTS_MS = 30,
};

/* Preparation. */

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
        result =
            buckets_bind(dev->buckets, json_string_value(json_array_get(dev->project.buckets, i)));
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
                  .production =
                      dev->settings.rules && strcmp(dev->settings.rules, "production") == 0},
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
    bool token = settings->auth || !dev_is_loopback(settings->ip);
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
    if (settings->deadlines &&
        sscanf(settings->deadlines, "%d,%d,%d", &http.head_ms, &http.body_ms, &http.idle_ms) != 3)
        return error_set(err, EINVAL, "--http-deadlines takes three numbers of milliseconds");
    dev->http = http_new(dev->loop, &http, err);
    return dev->http ? 0 : -err->code;
}

static int announce(struct dev *dev, struct error *err)
{
    uint16_t port = http_port(dev->http);
    const char *ip = dev->settings.ip;
    char host[128], url[160];
    bool plain = dev_is_loopback(ip);
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
        dev_print_banner(dev);
    doctor_warn();
    expose_warn(dev->classes, dev->project.class_count);
    if (dev->project.found)
        doctor_project_warn(dev->project.dir, dev->project.file, dev->settings.environment);
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
    /* What was found at the start is read again, even when another file would now come first. */
    const char *found = dev->project.found ? dev->project.file : dev->settings.config;
    const struct reload_config config = {.dir = dev->settings.dir,
                                         .file = found,
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
    int result = dev_setup(&dev->settings, err);
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
    int code = dev_parse(&dev.settings, argc, argv);
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
