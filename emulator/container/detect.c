#include "container/detect.h"

#include <string.h>

#include "container/mime.h"

enum { DETECT_TIMEOUT_MS = 5000, DETECT_OUTPUT_MAX = 4096 };

static void ended(struct run *run, int error, const struct rt_exit *how)
{
    struct detect *detect = run->arg;
    const struct buf *said = &run->out[0].data;
    bool known = error == 0 && how->code == 0 && !run_timed_out(run) &&
                 mime_parse(buf_text(said), said->size, detect->type, sizeof detect->type);
    const char *type = known ? detect->type : mime_sniff(detect->head, detect->head_size);
    run_close(run);
    detect->done(detect->arg, type);
}

void detect_start(struct detect *detect, const struct file_job *file, const char *head,
                  size_t head_size, void (*done)(void *arg, const char *type), void *arg)
{
    const char *type = mime_by_name(file->path);
    if (strcmp(type, MIME_UNKNOWN) == 0 && head_size == 0)
        type = MIME_EMPTY;
    if (strcmp(type, MIME_UNKNOWN) != 0) {
        done(arg, type);
        return;
    }
    detect->head = head;
    detect->head_size = head_size;
    detect->done = done;
    detect->arg = arg;
    detect->run.arg = detect;
    detect->run.done = ended;
    detect->run.output_max = DETECT_OUTPUT_MAX;
    detect->run.timeout_ms = DETECT_TIMEOUT_MS;
    const char *argv[] = {"file", "--mime-type", "-b", "--", file->path, NULL};
    run_start_beside(&detect->run, file->job.container, argv,
                     file->path[0] == '/' ? 0 : file_base(file));
}

void detect_close(struct detect *detect)
{
    run_close(&detect->run);
}
