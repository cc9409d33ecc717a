/* Talking to a server, and what it means when that fails. */
#ifndef SANDPIT_GIT_HELPER_REMOTE_H
#define SANDPIT_GIT_HELPER_REMOTE_H

#include "git/helper/helper.h"

struct talk {
    const struct request *request;
    char *login; /* the header of credentials in the URL, or NULL */
    bool asked_agent, too_large, wants_login;
};

struct address {
    char scheme[16], origin[512]; /* "http", "http://host:port" without user */
    char host[256];
    char text[2300]; /* the URL without credentials */
};
void address_of(const char *url, struct address *address);

/* With libgit2's last error, in the words of git. */
void fatal_remote(const struct talk *talk) __attribute__((noreturn));

#endif
