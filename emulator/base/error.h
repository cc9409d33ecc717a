/* The one error idiom: a function returns 0 (or a useful non-negative value) or a negative errno,
 * and fills a struct error that gains context on the way up: "start sandbox 'a': open '/x': No such
 * file or directory". docs/errors.md describes it. */
#ifndef SANDPIT_BASE_ERROR_H
#define SANDPIT_BASE_ERROR_H

struct error {
    int code; /* a positive errno; 0 while nothing went wrong */
    char text[480];
};

/* Both return -code, so that `return error_set(err, EINVAL, "...")` is the usual last line. A NULL
 * err is allowed: the caller only wants the number. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As error_set, with ": " and the text of the errno appended. */
int error_errno(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "context: " in front of the text. */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
