/* What the files of the Dockerfile reader share. */
#ifndef SANDPIT_CONFIG_DOCKERFILE_INTERNAL_H
#define SANDPIT_CONFIG_DOCKERFILE_INTERNAL_H

#include "base/buf.h"
#include "config/dockerfile.h"

struct docker_lines {
    const char *file;
    const char *at, *end;
    int line;                     /* of the text at `at` */
    int first_line, first_column; /* of the instruction last read */
    char escape;
};

/* Starts to read; the directives at the top are obeyed. */
void docker_lines_begin(struct docker_lines *lines, const char *text, size_t size,
                        const char *file);
/* One instruction: physical lines joined at the escape character as they are,
 * comments and empty lines left out also in between. 1, 0 at the end, or an
 * error for a line that is too long. */
int docker_next(struct docker_lines *lines, struct buf *to, struct error *err);
/* Passes over the bodies of here-documents, whose lines may look like
 * instructions. */
int docker_skip_heredocs(struct docker_lines *lines, const char *instruction, struct error *err);
/* The next word of an instruction, which ends at white space outside quotes and
 * the braces of a variable. */
bool docker_word(const char **at, char escape, const char **word, size_t *length);
/* How many bytes of a variable's name stand here. */
size_t docker_name(const char *text);

/* Where variables come from, in the order in which they are looked up; each may
 * be NULL. */
struct docker_scope {
    const json_t *first, *second;
    bool image_path; /* an unknown PATH is the image's */
    char escape;
};

/* Puts variables in and takes quotes off. -EINVAL for a form that is not known.
 */
int docker_expand(const struct docker_scope *scope, const char *text, size_t size, struct buf *to);

#endif
