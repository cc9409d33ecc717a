#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "git/helper/remote.h"

void address_of(const char *url, struct address *address)
{
    const char *host = strstr(url, "://");
    size_t scheme = host ? (size_t)(host - url) : 0;
    host = host ? host + 3 : url;
    size_t authority = strcspn(host, scheme ? "/?#" : ":");
    const char *rest = host + authority;
    for (const char *at; (at = memchr(host, '@', (size_t)(rest - host)));)
        host = at + 1;
    size_t size = (size_t)(rest - host);
    snprintf(address->scheme, sizeof address->scheme, "%.*s", scheme ? (int)scheme : 3,
             scheme ? url : "ssh");
    snprintf(address->origin, sizeof address->origin, "%s://%.*s", address->scheme, (int)size,
             host);
    snprintf(address->host, sizeof address->host, "%.*s", (int)strcspn(host, ":/?#"), host);
    snprintf(address->text, sizeof address->text, "%.*s%.*s%s", scheme ? (int)scheme + 3 : 0, url,
             (int)size, host, rest);
}

static const char access_rights[] = "fatal: Could not read from remote repository.\n\n"
                                    "Please make sure you have the correct access rights\n"
                                    "and the repository exists.";

static void fatal_http(const struct talk *talk, const struct address *address, const char *why)
{
    const char *status = strstr(why, "status code: ");
    bool has_user = strstr(talk->request->url, "@") != NULL;
    if (status && strtol(status + 13, NULL, 10) == 404)
        fatal("fatal: repository '%s/' not found", address->text);
    if (talk->wants_login || strstr(why, "authentication") || strstr(why, "redirects or")) {
        if (has_user)
            fatal("fatal: Authentication failed for '%s/'", address->text);
        fatal("fatal: could not read Username for '%s': No such device or address",
              address->origin);
    }
    if (status)
        fatal("fatal: unable to access '%s/': The requested URL returned error: %ld", address->text,
              strtol(status + 13, NULL, 10));
    if (strstr(why, "failed to resolve address"))
        fatal("fatal: unable to access '%s/': Could not resolve host: %s", address->text,
              address->host);
    if (strstr(why, "certificate"))
        fatal("fatal: unable to access '%s/': SSL certificate problem: %s", address->text, why);
    fatal("fatal: unable to access '%s/': %s", address->text, why);
}

static void fatal_ssh(const struct talk *talk, const struct address *address, const char *why)
{
    if (talk->wants_login || strstr(why, "authenticat"))
        fatal("%s: Permission denied (publickey).\n%s", address->host, access_rights);
    if (strstr(why, "hostkey") || strstr(why, "host key"))
        fatal("Host key verification failed.\n%s", access_rights);
    if (strstr(why, "failed to resolve address"))
        fatal("ssh: Could not resolve hostname %s: Name or service not known\n%s", address->host,
              access_rights);
    fatal("ssh: %s: %s\n%s", address->host, why, access_rights);
}

void fatal_remote(const struct talk *talk)
{
    struct address address;
    CLEANUP_FREE char *why = strdup(last_error());
    address_of(talk->request->url, &address);
    if (!why)
        fatal("fatal: out of memory");
    if (talk->too_large)
        fatal("fatal: the repository is larger than %d GiB", GIT_GIBIBYTES);
    if (strstr(why, "No space left"))
        fatal("fatal: write error: No space left on device");
    if (strncasecmp(address.scheme, "http", 4) == 0)
        fatal_http(talk, &address, why);
    if (strcasestr(address.scheme, "ssh"))
        fatal_ssh(talk, &address, why);
    if (strcasecmp(address.scheme, "git") != 0)
        fatal("fatal: Unable to find remote helper for '%s'", address.scheme);
    if (strncmp(why, "remote error: ", 14) == 0)
        fatal("fatal: %s", why);
    if (strstr(why, "failed to resolve address"))
        fatal("fatal: Unable to look up %s (Name or service not known)", address.host);
    fatal("fatal: unable to connect to %s:\n%s", address.host, why);
}
