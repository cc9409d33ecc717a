/* What the file operations share: checked paths, where relative ones start, and their errors. */
#ifndef SANDPIT_CONTAINER_FILES_H
#define SANDPIT_CONTAINER_FILES_H

#include "container/internal.h"

struct file_job {
    struct job job;
    const char *path;
    const char *second; /* of rename and move, else NULL */
    const char *session_id;
};

/* Checks the paths and the session id. NULL when it answered the call with what is wrong. */
void *file_job_new(struct container *container, struct call *call, const struct job_kind *kind,
                   const char *path_field, const char *second_field);
/* Begins: at once when no path is relative to a session, else in the session's turn. */
void file_submit(struct file_job *file);
/* For kind->refuse. */
void file_refuse(struct job *job, const char *why);

/* The process whose directory relative paths start at. */
int file_base(const struct file_job *file);
void file_ask(struct file_job *file, enum rt_op op, struct rt_path how, agent_done *done);

/* FILE_NOT_FOUND with {path, operation}. */
void file_missing(struct file_job *file, const char *operation, const char *what);
/* The code of the errno with {path, operation, stderr}: "<what> '<path>': EISDIR: …, open
 * '<path>'".
 */
void file_failed(struct file_job *file, const char *operation, const char *what,
                 const char *system_call, int number);
/* FILESYSTEM_ERROR with the same context and a text of our own. */
void file_wrong(struct file_job *file, const char *operation, const char *what, const char *why);

/* All of it: 0 or a negative errno. */
int file_write(int fd, const char *bytes, size_t size);

/* NULL, or why this is not a path. */
const char *path_problem(const char *path, size_t size);

#endif
