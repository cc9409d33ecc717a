#include "support.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_MS = 20000, END_MS = 15000 };

int answer_ms = 60000 * TIME_FACTOR;

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool user_namespaces_work(void)
{
    int status = 1;
    int pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

const char *emulator_missing(void)
{
    if (geteuid() != 0 && !user_namespaces_work())
        return "neither root nor user namespaces: no container can be started";
    if (access("/usr/bin/bwrap", X_OK) < 0)
        return "bubblewrap is not installed";
    return NULL;
}

static void exec_emulator(const struct emulator *emulator, const char *const *extra, int ready)
{
    char ready_text[16];
    const char *argv[32] = {SANDPIT_BINARY, "dev",         "--port",     "0",
                            "--persist-to", emulator->dir, "--ready-fd", ready_text,
                            "--network",    "none"}; /* unless a test asks for one */
    int count = 10;
    for (; extra && *extra && count < 31; extra++)
        argv[count++] = *extra;
    snprintf(ready_text, sizeof ready_text, "%d", ready);
    int log = open(emulator->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 1);
    dup2(log, 2);
    if (emulator->uid &&
        (setgroups(0, NULL) < 0 || setresgid(emulator->uid, emulator->uid, emulator->uid) < 0 ||
         setresuid(emulator->uid, emulator->uid, emulator->uid) < 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("XDG_RUNTIME_DIR", emulator->run_root, 1);
    setenv("HOME", emulator->dir, 1);
    if (chdir(emulator->dir) == 0)
        execv(emulator->binary ? emulator->binary : SANDPIT_BINARY, (char *const *)argv);
    _exit(127);
}

/* The line that dev writes when it is ready: its URL. */
static int await_ready(struct emulator *emulator, int fd)
{
    char line[256] = "";
    size_t used = 0;
    long long end = now_ms() + READY_MS;
    while (!strchr(line, '\n') && used + 1 < sizeof line) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int left = (int)(end - now_ms());
        if (left <= 0 || poll(&poller, 1, left) <= 0)
            return -ETIMEDOUT;
        ssize_t got = read(fd, line + used, sizeof line - used - 1);
        if (got <= 0)
            return -EPIPE;
        used += (size_t)got;
        line[used] = '\0';
    }
    const char *port = strrchr(line, ':');
    emulator->port = port ? (int)strtol(port + 1, NULL, 10) : 0;
    return emulator->port ? 0 : -EPROTO;
}

/* The exit status, or -1 when it had to be killed. */
static int await_end(struct emulator *emulator)
{
    long long end = now_ms() + END_MS;
    int status = 0;
    while (now_ms() < end) {
        if (waitpid(emulator->pid, &status, WNOHANG) == emulator->pid) {
            emulator->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        usleep(1000);
    }
    emulator_kill(emulator);
    return -1;
}

int emulator_restart(struct emulator *emulator, const char *const *extra)
{
    int ready[2];
    if (pipe(ready) < 0)
        return -errno;
    emulator->pid = fork();
    if (emulator->pid == 0) {
        close(ready[0]);
        exec_emulator(emulator, extra, ready[1]);
    }
    close(ready[1]);
    int result = await_ready(emulator, ready[0]);
    close(ready[0]);
    if (result < 0)
        emulator->status = result == -EPIPE ? await_end(emulator) : -1;
    if (result < 0)
        emulator_kill(emulator);
    return result;
}

int emulator_start(struct emulator *emulator, const char *const *extra)
{
    if (!*emulator->dir) {
        snprintf(emulator->dir, sizeof emulator->dir, "/tmp/sandpit-test-XXXXXX");
        if (!mkdtemp(emulator->dir))
            return -errno;
    }
    snprintf(emulator->log, sizeof emulator->log, "%s/log", emulator->dir);
    snprintf(emulator->run_root, sizeof emulator->run_root, "%s/run", emulator->dir);
    mkdir(emulator->run_root, 0700);
    if (emulator->uid && (chown(emulator->dir, emulator->uid, emulator->uid) < 0 ||
                          chown(emulator->run_root, emulator->uid, emulator->uid) < 0))
        return -errno;
    return emulator_restart(emulator, extra);
}

int emulator_stop(struct emulator *emulator)
{
    if (emulator->pid <= 0)
        return -1;
    kill(emulator->pid, SIGTERM);
    return await_end(emulator);
}

void emulator_kill(struct emulator *emulator)
{
    if (emulator->pid <= 0)
        return;
    kill(emulator->pid, SIGKILL);
    waitpid(emulator->pid, NULL, 0);
    emulator->pid = 0;
}

void emulator_clean(struct emulator *emulator)
{
    if (emulator->pid > 0)
        emulator_kill(emulator);
    if (!*emulator->dir)
        return;
    const char *argv[] = {"rm", "-rf", "--one-file-system", emulator->dir, NULL};
    int pid = fork();
    if (pid == 0) {
        execvp("rm", (char *const *)argv);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    emulator->dir[0] = '\0';
}

/* HTTP. */

int dial(const struct emulator *emulator)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)emulator->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int send_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0)
            return -errno;
        bytes += sent;
        size -= (size_t)sent;
    }
    return 0;
}

struct bytes {
    char *data;
    size_t size;
};

/* Reads once more; false at the end, on an error or when the time is up. */
static bool read_more(int fd, struct bytes *bytes, long long end)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int left = (int)(end - now_ms());
    if (left <= 0 || poll(&poller, 1, left) <= 0)
        return false;
    bytes->data = realloc(bytes->data, bytes->size + 65536 + 1);
    ssize_t got = recv(fd, bytes->data + bytes->size, 65536, 0);
    if (got <= 0)
        return false;
    bytes->size += (size_t)got;
    bytes->data[bytes->size] = '\0';
    return true;
}

const char *header_of(const struct reply *reply, const char *name, char *to, size_t size)
{
    to[0] = '\0';
    const char *line = reply->head ? strstr(reply->head, "\r\n") : NULL;
    while (line && line[2]) {
        line += 2;
        size_t length = strlen(name);
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " ");
            snprintf(to, size, "%.*s", (int)strcspn(line, "\r"), line);
            break;
        }
        line = strstr(line, "\r\n");
    }
    return to;
}

/* Joins the chunks in place; false while the last one is not there. */
static bool dechunk(const char *from, size_t size, char **body, size_t *body_size)
{
    char *to = malloc(size + 1);
    size_t used = 0, i = 0;
    for (;;) {
        char *end;
        if (i >= size || !memmem(from + i, size - i, "\r\n", 2))
            break;
        unsigned long length = strtoul(from + i, &end, 16);
        size_t start = (size_t)(end - from) + 2;
        if (start + length + 2 > size)
            break;
        if (length == 0) {
            to[used] = '\0';
            *body = to;
            *body_size = used;
            return true;
        }
        memcpy(to + used, from + start, length);
        used += length;
        i = start + length + 2;
    }
    free(to);
    return false;
}

static void finish(struct reply *reply)
{
    if (reply->head && sscanf(reply->head, "HTTP/1.%*d %d", &reply->status) != 1)
        reply->status = 0;
    if (reply->body && (*reply->body == '{' || *reply->body == '['))
        reply->json = json_loadb(reply->body, reply->size, 0, NULL);
}

/* Splits what was read into head and body when it is complete. */
static bool complete(const struct bytes *bytes, bool ended, struct reply *reply)
{
    char *split = bytes->data ? memmem(bytes->data, bytes->size, "\r\n\r\n", 4) : NULL;
    if (!split)
        return false;
    size_t head = (size_t)(split - bytes->data) + 2;
    const char *rest = split + 4;
    size_t rest_size = bytes->size - head - 2;
    free(reply->head);
    reply->head = strndup(bytes->data, head);
    char value[64];
    if (*header_of(reply, "Transfer-Encoding", value, sizeof value)) {
        if (!dechunk(rest, rest_size, &reply->body, &reply->size))
            return false;
    } else {
        size_t length = rest_size;
        if (*header_of(reply, "Content-Length", value, sizeof value))
            length = strtoul(value, NULL, 10);
        else if (!ended && !strstr(reply->head, " 204 ") && !strstr(reply->head, " 304 "))
            return false;
        if (rest_size < length)
            return false;
        reply->body = malloc(length + 1);
        memcpy(reply->body, rest, length);
        reply->body[length] = '\0';
        reply->size = length;
    }
    finish(reply);
    return true;
}

struct reply read_reply(int fd)
{
    struct reply reply = {0};
    struct bytes bytes = {0};
    long long end = now_ms() + answer_ms;
    bool more = true;
    while (more) {
        more = read_more(fd, &bytes, end);
        if (complete(&bytes, !more, &reply))
            break;
    }
    free(bytes.data);
    return reply;
}

struct reply request_bytes(const struct emulator *emulator, const char *method, const char *path,
                           const char *headers, const char *body, size_t size)
{
    struct reply reply = {0};
    char *head = NULL;
    char host[64] = "";
    if (!headers || (strncasecmp(headers, "Host:", 5) != 0 && !strcasestr(headers, "\r\nHost:")))
        snprintf(host, sizeof host, "Host: localhost:%d\r\n", emulator->port);
    int length =
        asprintf(&head, "%s %s HTTP/1.1\r\n%s%sContent-Length: %zu\r\nConnection: close\r\n\r\n",
                 method, path, host, headers ? headers : "", size);
    int fd = dial(emulator);
    if (fd >= 0 && send_all(fd, head, (size_t)length) == 0) {
        send_all(fd, body, size); /* an early refusal may close before all is sent */
        reply = read_reply(fd);
    }
    if (fd >= 0)
        close(fd);
    free(head);
    return reply;
}

struct reply request(const struct emulator *emulator, const char *method, const char *path,
                     const char *headers, const char *body)
{
    return request_bytes(emulator, method, path, headers, body ? body : "",
                         body ? strlen(body) : 0);
}

struct reply get(const struct emulator *emulator, const char *path)
{
    return request(emulator, "GET", path, NULL, NULL);
}

struct reply post(const struct emulator *emulator, const char *path, const char *body)
{
    return request(emulator, "POST", path, NULL, body);
}

struct reply raw(const struct emulator *emulator, const char *bytes, size_t size, int timeout_ms)
{
    struct reply reply = {0};
    struct bytes got = {0};
    int fd = dial(emulator);
    if (fd < 0)
        return reply;
    send_all(fd, bytes, size);
    long long end = now_ms() + timeout_ms;
    while (read_more(fd, &got, end))
        ;
    close(fd);
    complete(&got, true, &reply);
    free(got.data);
    return reply;
}

void reply_free(struct reply *reply)
{
    free(reply->head);
    free(reply->body);
    json_decref(reply->json);
    *reply = (struct reply){0};
}

/* JSON. */

const json_t *at(const json_t *json, const char *path)
{
    char name[128];
    while (json && *path) {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        json = json_is_array(json) ? json_array_get(json, strtoul(name, NULL, 10))
                                   : json_object_get(json, name);
        path += length + (path[length] == '.');
    }
    return json;
}

const char *text_at(const json_t *json, const char *path)
{
    const char *text = json_string_value(at(json, path));
    return text ? text : "";
}

long long number_at(const json_t *json, const char *path)
{
    const json_t *number = at(json, path);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

const char *keep(const char *text)
{
    static char copy[4096];
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    return copy;
}

/* Processes. */

int processes_with(const char *text)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        char path[300], line[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
        if (fd >= 0)
            close(fd);
        for (ssize_t i = 0; i < size; i++) {
            if (line[i] == '\0')
                line[i] = ' ';
        }
        line[size > 0 ? size : 0] = '\0';
        if (strstr(line, text))
            count++;
    }
    if (proc)
        closedir(proc);
    return count;
}

bool processes_become(const char *text, int count, int ms)
{
    long long end = now_ms() + ms;
    while (processes_with(text) != count) {
        if (now_ms() > end)
            return false;
        usleep(2000);
    }
    return true;
}

static char *slurp(FILE *file)
{
    char *text = calloc(1, 1 << 20);
    rewind(file);
    size_t size = fread(text, 1, (1 << 20) - 1, file);
    text[size] = '\0';
    fclose(file);
    return text;
}

int run_command(const struct emulator *emulator, const char *const *argv, char **out, char **errors)
{
    FILE *output = tmpfile(), *error = tmpfile();
    int pid = fork();
    if (pid == 0) {
        dup2(fileno(output), 1);
        dup2(fileno(error), 2);
        setenv("XDG_RUNTIME_DIR", emulator->run_root, 1);
        if (chdir(emulator->dir) == 0)
            execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    char *text = slurp(output), *wrong = slurp(error);
    if (out)
        *out = text;
    else
        free(text);
    if (errors)
        *errors = wrong;
    else
        free(wrong);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool emulator_runs_as(unsigned uid)
{
    if (!uid)
        return true;
    const char *script = "test -x \"$0\"";
    char number[16];
    snprintf(number, sizeof number, "%u", uid);
    const char *argv[] = {"setpriv", "--reuid", number, "--regid",      number, "--clear-groups",
                          "sh",      "-c",      script, SANDPIT_BINARY, NULL};
    struct emulator here = {.dir = "/", .run_root = "/"};
    return run_command(&here, argv, NULL, NULL) == 0;
}

bool eventually(bool (*holds)(void *arg), void *arg, int ms)
{
    long long end = now_ms() + ms;
    while (!holds(arg)) {
        if (now_ms() > end)
            return false;
        usleep(2000);
    }
    return true;
}

long long test_ms(void)
{
    return now_ms();
}

int emulator_files(const struct emulator *emulator)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", emulator->pid);
    DIR *dir = opendir(path);
    int count = dir ? 0 : -1;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

long emulator_memory(const struct emulator *emulator, const char *field)
{
    char path[64], line[256];
    long value = -1;
    size_t length = strlen(field);
    snprintf(path, sizeof path, "/proc/%d/status", emulator->pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, length) == 0 && line[length] == ':')
            value = strtol(line + length + 1, NULL, 10);
    }
    if (file)
        fclose(file);
    return value;
}

const char *in_namespaces(int flags, const char *(*run)(void *arg), void *arg)
{
    char text[4096] = "";
    int told[2], status = 0;
    fflush(NULL);
    if (pipe(told) < 0)
        return "no pipe";
    int pid = fork();
    if (pid == 0) {
        const char *wrong = NULL;
        close(told[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(flags) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            wrong = "no namespaces";
        else
            wrong = run(arg);
        if (wrong && write(told[1], wrong, strlen(wrong)) < 0)
            _exit(2);
        _exit(wrong ? 1 : 0);
    }
    close(told[1]);
    for (size_t used = 0; used + 1 < sizeof text;) {
        ssize_t got = read(told[0], text + used, sizeof text - used - 1);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(told[0]);
    waitpid(pid, &status, 0);
    if (status == 0)
        return NULL;
    return keep(*text ? text : "it ended without a word");
}
