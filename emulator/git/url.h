/* What can be told of a repository's URL from its text alone. */
#ifndef SANDPIT_GIT_URL_H
#define SANDPIT_GIT_URL_H

#include <stdbool.h>
#include <stddef.h>

enum { GIT_URL_MAX = 2048 };

/* git's own rules for what a text names. */
enum git_url_kind {
    GIT_URL_REMOTE, /* scheme://…, or host:path for ssh */
    GIT_URL_FILE,   /* file://PATH, a path inside the sandbox */
    GIT_URL_PATH,   /* a path inside the sandbox */
};
enum git_url_kind git_url_kind(const char *url);
/* The path that a GIT_URL_FILE or GIT_URL_PATH names; points into it. */
const char *git_url_path(const char *url);

/* The directory that a clone gets: the last part of the path without ".git", or "repository". */
void git_url_name(const char *url, char *to, size_t size);

/* "host/path" of a remote one, the same for https, git, ssh and host:path, without user, port
 * and ".git"; false when there is no such thing or it cannot be a relative path of its own. */
bool git_url_place(const char *url, char *to, size_t size);

/* A copy of the text, malloc'd, where credentials of http URLs are ****** and secret parameters of
 * queries REDACTED. */
char *git_redact(const char *text);

#endif
