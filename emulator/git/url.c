#include "git/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

enum { REDACTED_MAX = 1 << 20 };

static bool has_scheme(const char *url)
{
    size_t size = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return size > 0 && strncmp(url + size, "://", 3) == 0;
}

/* host:path, where the colon comes before every slash. */
static const char *scp_colon(const char *url)
{
    size_t size = strcspn(url, ":/");
    return size > 0 && url[size] == ':' ? url + size : NULL;
}

enum git_url_kind git_url_kind(const char *url)
{
    if (strncasecmp(url, "file://", 7) == 0)
        return GIT_URL_FILE;
    return has_scheme(url) || scp_colon(url) ? GIT_URL_REMOTE : GIT_URL_PATH;
}

const char *git_url_path(const char *url)
{
    return git_url_kind(url) == GIT_URL_FILE ? url + 7 : url;
}

/* --- Names ------------------------------------------------------------------------------------ */

/* The end of the part that names the repository: before a query, slashes and ".git". */
static size_t name_end(const char *url, bool remote)
{
    size_t end = remote ? strcspn(url, "?#") : strlen(url);
    while (end > 0 && url[end - 1] == '/')
        end--;
    if (end > 4 && strncmp(url + end - 4, ".git", 4) == 0 && url[end - 5] != '/')
        end -= 4;
    return end;
}

void git_url_name(const char *url, char *to, size_t size)
{
    bool scheme = has_scheme(url);
    const char *from = scheme ? strstr(url, "://") + 3 : url;
    size_t end = name_end(from, scheme), start = end;
    while (start > 0 && from[start - 1] != '/' && (scheme || from[start - 1] != ':'))
        start--;
    size_t length = end - start;
    bool host_only = scheme && start == 0 && git_url_kind(url) == GIT_URL_REMOTE;
    bool dots =
        (length == 1 && from[start] == '.') || (length == 2 && strncmp(from + start, "..", 2) == 0);
    if (length == 0 || length >= size || host_only || dots)
        snprintf(to, size, "repository");
    else
        snprintf(to, size, "%.*s", (int)length, from + start);
}

/* No part that would lead elsewhere or hide itself. */
static bool is_plain_path(const char *path)
{
    while (*path) {
        size_t length = strcspn(path, "/");
        if (length == 0 || length > 255 || path[0] == '.')
            return false;
        path += length + (path[length] == '/');
    }
    return true;
}

bool git_url_place(const char *url, char *to, size_t size)
{
    if (git_url_kind(url) != GIT_URL_REMOTE)
        return false;
    bool scheme = has_scheme(url);
    const char *host = scheme ? strstr(url, "://") + 3 : url;
    size_t authority = strcspn(host, scheme ? "/?#" : ":");
    const char *path = host + authority;
    for (const char *at; (at = memchr(host, '@', (size_t)(path - host)));)
        host = at + 1;
    size_t name = (size_t)(path - host);
    const char *port = scheme ? memrchr(host, ':', name) : NULL;
    if (port && strspn(port + 1, "0123456789") == (size_t)(path - port - 1))
        name = (size_t)(port - host);
    path += strspn(path, scheme ? "/" : ":/");
    size_t length = name_end(path, true);
    if (name == 0 || length == 0 || name + length + 2 > size)
        return false;
    snprintf(to, size, "%.*s/%.*s", (int)name, host, (int)length, path);
    for (size_t i = 0; i < name; i++)
        to[i] = (char)tolower((unsigned char)to[i]);
    return is_plain_path(to);
}

/* --- Secrets ---------------------------------------------------------------------------------- */

static const char *const secret_names[] = {
    "token", "secret", "password", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-Security-Token"};

/* The length of "http://" or "https://" here, or 0. */
static size_t http_scheme(const char *text)
{
    if (strncasecmp(text, "http://", 7) == 0)
        return 7;
    return strncasecmp(text, "https://", 8) == 0 ? 8 : 0;
}

/* The length of "name=" of a secret parameter here, or 0. */
static size_t secret_name(const char *text)
{
    for (size_t i = 0; i < sizeof secret_names / sizeof *secret_names; i++) {
        size_t length = strlen(secret_names[i]);
        if (strncasecmp(text, secret_names[i], length) == 0 && text[length] == '=')
            return length + 1;
    }
    return 0;
}

char *git_redact(const char *text)
{
    struct buf to = BUF_INIT(REDACTED_MAX);
    while (*text) {
        size_t scheme = http_scheme(text), name = 0;
        size_t authority = scheme ? strcspn(text + scheme, "/?#'\" \t\r\n") : 0;
        const char *at = scheme ? memrchr(text + scheme, '@', authority) : NULL;
        if (scheme) {
            buf_add(&to, text, scheme);
            text += scheme;
            if (at) {
                buf_adds(&to, "******");
                text = at;
            }
        } else if ((*text == '?' || *text == '&') && (name = secret_name(text + 1))) {
            buf_add(&to, text, name + 1);
            buf_adds(&to, "REDACTED");
            text += name + 1;
            text += strcspn(text, "&#'\" \t\r\n");
        } else {
            buf_addc(&to, *text++);
        }
    }
    char *result = buf_steal(&to);
    return result ? result : strdup("");
}
