/* What the system tests share: the real program on a free port, and an HTTP client that says
 * exactly what it is told to. */
#ifndef SANDPIT_TESTS_SUPPORT_H
#define SANDPIT_TESTS_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct emulator {
    int pid;
    int port;
    char dir[64];       /* scratch: state below it, the project when there is one */
    char log[96];       /* its standard error */
    char run_root[96];  /* XDG_RUNTIME_DIR of the emulator */
    const char *binary; /* NULL = the one that was built */
    unsigned uid; /* 0 = ours; else it runs as this user and group, and the directory is theirs */
    int status;   /* of an emulator that ended before it was ready; -1 = it was killed */
};

/* Makes the scratch directory, then starts `sandpit dev --port 0 --persist-to DIR …extra`; extra
 * ends with NULL and may be NULL. Returns 0 when it is ready. */
int emulator_start(struct emulator *emulator, const char *const *extra);
/* Starts it again on the same directory. */
int emulator_restart(struct emulator *emulator, const char *const *extra);
/* SIGTERM and wait; the exit status, or -1 when it had to be killed. */
int emulator_stop(struct emulator *emulator);
/* SIGKILL and wait. */
void emulator_kill(struct emulator *emulator);
/* Removes the scratch directory. */
void emulator_clean(struct emulator *emulator);
/* Whether this machine can run containers as these tests need them; else the reason. */
const char *emulator_missing(void);
/* Whether that user can execute it: the build may be where others cannot go. 0: whoever we are. */
bool emulator_runs_as(unsigned uid);

struct reply {
    int status; /* 0 = no answer */
    char *head; /* status line and headers */
    char *body;
    size_t size;
    json_t *json; /* when the body is JSON */
};

/* How long an answer is waited for. */
extern int answer_ms;

/* One request on its own connection. headers: complete lines with CRLF, or NULL. */
struct reply request(const struct emulator *emulator, const char *method, const char *path,
                     const char *headers, const char *body);
struct reply request_bytes(const struct emulator *emulator, const char *method, const char *path,
                           const char *headers, const char *body, size_t size);
struct reply get(const struct emulator *emulator, const char *path);
struct reply post(const struct emulator *emulator, const char *path, const char *body);
/* Sends bytes as they are and reads until the other side closes or `timeout_ms` passes. */
struct reply raw(const struct emulator *emulator, const char *bytes, size_t size, int timeout_ms);
void reply_free(struct reply *reply);
#define CLEANUP_REPLY __attribute__((cleanup(reply_free)))

/* A connection that is kept. */
int dial(const struct emulator *emulator);
int send_all(int fd, const char *bytes, size_t size);
/* Reads one answer with Content-Length or chunked body. */
struct reply read_reply(int fd);

/* How much more memory and time is fine: a sanitizer keeps what was freed for a while. */
#ifdef __SANITIZE_ADDRESS__
enum { MEMORY_FACTOR = 10, TIME_FACTOR = 10 };
#else
enum { MEMORY_FACTOR = 1, TIME_FACTOR = 1 };
#endif

/* "a.b.0.c" in JSON; NULL when it is not there. */
const json_t *at(const json_t *json, const char *path);
const char *text_at(const json_t *json, const char *path); /* "" when it is no string */
long long number_at(const json_t *json, const char *path); /* -1 when it is no number */
const char *header_of(const struct reply *reply, const char *name, char *to, size_t size);

/* A copy that outlives the test: greatest prints a failure's message after the test returned. */
const char *keep(const char *text);

/* How many processes have this text in their command line. */
int processes_with(const char *text);
/* Waits until there are `count` of them, at most `ms`. */
bool processes_become(const char *text, int count, int ms);
/* Runs argv with the emulator's environment; standard output into *out (malloc'd). Exit status. */
int run_command(const struct emulator *emulator, const char *const *argv, char **out,
                char **errors);
/* Waits until the condition holds, polling, at most `ms`. */
bool eventually(bool (*holds)(void *arg), void *arg, int ms);

/* Open descriptors of the emulator; -1 when it is not there. */
int emulator_files(const struct emulator *emulator);
/* A line of its /proc/PID/status in KiB, such as "VmHWM" or "VmRSS". */
long emulator_memory(const struct emulator *emulator, const char *field);
/* Runs `run` in a child with namespaces of its own (CLONE_NEWNS, CLONE_NEWNET; mounts are private).
 * NULL when it returned NULL, else its text, which is kept. */
const char *in_namespaces(int flags, const char *(*run)(void *arg), void *arg);
/* Milliseconds of the monotonic clock. */
long long test_ms(void);

/* Starts the emulator, runs the suite and checks that it ended cleanly and left nothing behind. */
#define SYSTEM_SUITE(EMULATOR, SUITE_NAME)                                                         \
    do {                                                                                           \
        const char *missing = emulator_missing();                                                  \
        if (missing) {                                                                             \
            printf("SKIP %s: %s\n", #SUITE_NAME, missing);                                         \
            return 77;                                                                             \
        }                                                                                          \
        if (emulator_start(&(EMULATOR), NULL) < 0) {                                               \
            printf("the emulator did not start: see %s\n", (EMULATOR).log);                        \
            return 1;                                                                              \
        }                                                                                          \
        RUN_SUITE(SUITE_NAME);                                                                     \
        if (emulator_stop(&(EMULATOR)) != 0) {                                                     \
            printf("the emulator did not end cleanly: see %s\n", (EMULATOR).log);                  \
            return 1;                                                                              \
        }                                                                                          \
        emulator_clean(&(EMULATOR));                                                               \
    } while (0)

#endif
