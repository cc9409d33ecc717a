#include "base/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/log.h"

/* A request line is bounded by the front door, so no honest line comes near this. */
#define LINE_MAX_BYTES (1024 * 1024)

static int journal_fd = -1;

static const char *const KINDS[] = {
    [JOURNAL_REQUEST] = "request",
    [JOURNAL_CLOCK] = "clock",
    [JOURNAL_FAULT] = "fault",
    [JOURNAL_EXIT] = "exit",
};

int journal_open(const char *path, struct error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "open journal '%s'", path);
    journal_close();
    journal_fd = fd;
    return 0;
}

void journal_close(void)
{
    if (journal_fd >= 0)
        close(steal_fd(&journal_fd));
}

bool journal_is_open(void)
{
    return journal_fd >= 0;
}

static int make_line(struct buf *line, enum journal_kind kind, long long at_ms, const char *subject,
                     const char *what)
{
    int error = buf_addf(line, "{\"kind\":\"%s\",\"at\":%lld,\"subject\":\"", KINDS[kind], at_ms);
    if (!error)
        error = jsonstr_escape(line, subject, strlen(subject));
    if (!error)
        error = buf_adds(line, "\",\"what\":\"");
    if (!error)
        error = jsonstr_escape(line, what, strlen(what));
    return error ? error : buf_adds(line, "\"}\n");
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, data, size);
        if (wrote < 0 && errno != EINTR)
            return -errno;
        if (wrote > 0) {
            data += wrote;
            size -= (size_t)wrote;
        }
    }
    return 0;
}

void journal_note(enum journal_kind kind, long long at_ms, const char *subject, const char *what)
{
    if (journal_fd < 0)
        return;
    CLEANUP_BUF struct buf line = BUF_INIT(LINE_MAX_BYTES);
    int error = make_line(&line, kind, at_ms, subject, what);
    if (!error)
        error = write_all(journal_fd, line.data, line.size);
    if (!error)
        return;
    /* A journal with a hole would replay something that never happened: better a short one. */
    log_error("The journal ends here: %s", strerror(-error));
    journal_close();
}
