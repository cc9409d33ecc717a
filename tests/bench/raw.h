/* The limits: each does with the least code what the emulator cannot do without. */
#ifndef SANDPIT_BENCH_RAW_H
#define SANDPIT_BENCH_RAW_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { RAW_BLOCK = 1024 * 1024 }; /* the size of the large bodies and files */

/* raw_http.c: libmicrohttpd alone, in a process of its own. It answers every POST with two bytes,
 * and one to RAW_HTTP_BIG with RAW_BLOCK bytes. */
#define RAW_HTTP_BIG "/big"
struct raw_http {
    pid_t pid;
    int port;
};
int raw_http_start(struct raw_http *http, struct error *err);
void raw_http_stop(struct raw_http *http);

/* raw_session.c: one bash and the line of a session, without a container and without HTTP. */
struct raw_session {
    pid_t pid;
    int input, status, command;
    char dir[64]; /* of the FIFOs */
};
int raw_session_start(struct raw_session *session, const char *scratch, struct error *err);
/* One command, with a pair of FIFOs of its own; its exit code. */
int raw_session_run(struct raw_session *session, const char *command, struct error *err);
void raw_session_stop(struct raw_session *session);

/* raw_chain.c: from fork to the first instruction of a static program in a container: private mount
 * namespace, tmpfs, one overlay of /usr, bubblewrap with the emulator's namespaces. *ms is that
 * time; the end of the container is waited for, and not measured. */
int raw_chain_run(const char *scratch, double *ms, struct error *err);
/* fork, bash -c COMMAND, wait. */
int raw_bash_run(const char *command, double *ms, struct error *err);

/* RAW_BLOCK bytes into a new file on tmpfs, and out of it again. */
int raw_file_run(char *block, double *write_ms, double *read_ms, struct error *err);

#endif
