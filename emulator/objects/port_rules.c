#include "objects/port_rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/random.h"

enum { CONTROL_PORT = 3000, WRANGLER_PORT = 8787, LEAST_PORT = 1024, MOST_PORT = 65535 };

static const struct port_rules lines[] = {
    {0, 0, true, false, true, true, RESTART_FORGOTTEN},
    {7, 0, true, true, true, true, RESTART_FORGOTTEN},
    {7, 2, true, true, false, true, RESTART_FORGOTTEN},
    {8, 0, false, true, false, true, RESTART_FORGOTTEN},
    {8, 13, false, true, false, false, RESTART_LIVES},
    {11, 0, false, true, false, false, RESTART_STALE},
};
enum { LINES = sizeof lines / sizeof *lines };

const struct port_rules *port_rules_of(const char *version)
{
    int major = 0, minor = 0, patch = 0;
    int parts = version ? sscanf(version, "%d.%d.%d", &major, &minor, &patch) : 0;
    const struct port_rules *found = &lines[LINES - 1];
    if (parts < 2 || major > 0)
        return found;
    for (size_t i = 0; i < LINES; i++) {
        if (lines[i].minor < minor ||
            (lines[i].minor == minor && (parts < 3 || lines[i].patch <= patch)))
            found = &lines[i];
    }
    return found;
}

/* Ports. */

static bool is_reserved(const struct port_rules *rules, double port)
{
    return port == CONTROL_PORT || (rules->reserves_8787 && port == WRANGLER_PORT);
}

static bool is_port(const struct port_rules *rules, double port)
{
    return port == floor(port) && port >= LEAST_PORT && port <= MOST_PORT &&
           !is_reserved(rules, port);
}

uint16_t port_check(const struct port_rules *rules, const json_t *value, struct error *err)
{
    double port = json_is_number(value) ? json_number_value(value) : 0;
    if (is_port(rules, port))
        return (uint16_t)port;
    CLEANUP_FREE char *shown =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    if (is_reserved(rules, port))
        error_set(err, EINVAL, "Invalid port number: %d. Port %d is reserved", (int)port,
                  (int)port);
    else
        error_set(err, EINVAL, "Invalid port number: %.40s. Must be 1024-65535 and not reserved",
                  shown ? shown : "undefined");
    return 0;
}

/* Tokens. */

static bool is_token_char(const struct port_rules *rules, char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           (c == '-' && rules->hyphens);
}

int token_check(const struct port_rules *rules, const char *token, struct error *err)
{
    size_t size = strlen(token);
    if (size == 0)
        return error_set(err, EINVAL, "Custom token cannot be empty");
    if (size > TOKEN_LENGTH)
        return error_set(err, EINVAL, "Custom token is too long: at most %d characters, not %zu",
                         TOKEN_LENGTH, size);
    for (size_t i = 0; i < size; i++) {
        if (!is_token_char(rules, token[i]))
            return error_set(err, EINVAL,
                             "Custom token has characters that are not allowed: only lowercase "
                             "letters (a-z), numbers (0-9)%s and underscores (_)",
                             rules->hyphens ? ", hyphens (-)" : "");
    }
    return 0;
}

void token_make(const struct port_rules *rules, char to[TOKEN_LENGTH + 1])
{
    unsigned char bytes[TOKEN_LENGTH / 4 * 3];
    CLEANUP_BUF struct buf text = BUF_INIT(64);
    random_bytes(bytes, sizeof bytes);
    base64_encode(&text, bytes, sizeof bytes);
    for (int i = 0; i < TOKEN_LENGTH; i++) {
        char c = i < (int)text.size ? text.data[i] : '_';
        if (c == '+' || c == '/')
            c = c == '+' && rules->hyphens ? '-' : '_';
        to[i] = (char)tolower((unsigned char)c);
    }
    to[TOKEN_LENGTH] = '\0';
}

bool token_same(const char *stored, const char *given, size_t size)
{
    char a[TOKEN_MAX + 1] = "", b[TOKEN_MAX + 1] = "";
    volatile unsigned char differs = size > TOKEN_MAX || size == 0;
    memcpy(a, stored, strnlen(stored, TOKEN_MAX));
    memcpy(b, given, size < TOKEN_MAX ? size : TOKEN_MAX);
    for (size_t i = 0; i < sizeof a; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

/* Host names. */

static bool is_address(const char *name)
{
    unsigned char address[16];
    char bare[64];
    size_t size = strlen(name);
    if (size >= 2 && name[0] == '[' && name[size - 1] == ']' && size - 2 < sizeof bare) {
        memcpy(bare, name + 1, size - 2);
        bare[size - 2] = '\0';
        return inet_pton(AF_INET6, bare, address) == 1;
    }
    return inet_pton(AF_INET, name, address) == 1;
}

static bool is_local(const char *name)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* Labels of letters, digits, hyphens and underscores, parted by single dots. */
static bool is_name(const char *name)
{
    size_t label = 0;
    for (const char *at = name; *at; at++) {
        bool dot = *at == '.';
        if (!dot && !isalnum((unsigned char)*at) && *at != '-' && *at != '_')
            return false;
        if ((dot && label == 0) || ++label > PREVIEW_LABEL_MAX + 1)
            return false;
        label = dot ? 0 : label;
    }
    return label > 0;
}

static int bad_host(struct error *err, const char *hostname)
{
    return error_set(err, EINVAL,
                     "Failed to construct preview URL: '%.100s' is not a host name, such as "
                     "localhost:8787 or example.com",
                     hostname);
}

int preview_host_parse(const char *hostname, struct preview_host *to, struct error *err)
{
    const char *close = hostname[0] == '[' ? strchr(hostname, ']') : hostname;
    const char *colon = close ? strchr(close, ':') : NULL;
    if (strcmp(hostname, "::1") == 0)
        colon = NULL;
    size_t size = colon ? (size_t)(colon - hostname) : strlen(hostname);
    *to = (struct preview_host){.form = HOST_FORM_CUSTOM};
    if (!close || size == 0 || size >= sizeof to->name)
        return bad_host(err, hostname);
    for (size_t i = 0; i < size; i++)
        to->name[i] = (char)tolower((unsigned char)hostname[i]);
    if (colon && (strlen(colon + 1) < 1 || strlen(colon + 1) > 5 ||
                  strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
                  strtol(colon + 1, NULL, 10) > MOST_PORT))
        return bad_host(err, hostname);
    if (colon)
        snprintf(to->port, sizeof to->port, "%s", colon);
    if (is_local(to->name))
        to->form = HOST_FORM_LOCAL;
    else if (is_address(to->name))
        to->form = HOST_FORM_ADDRESS;
    else if (!is_name(to->name))
        return bad_host(err, hostname);
    return 0;
}

bool preview_host_is_workers_dev(const struct preview_host *host)
{
    static const char suffix[] = ".workers.dev";
    size_t size = strlen(host->name);
    return size >= sizeof suffix - 1 &&
           strcmp(host->name + size - (sizeof suffix - 1), suffix) == 0;
}

/* "example.co.uk": what is registered below a country often has three labels. */
static bool is_country_zone(const char *name)
{
    static const char *const kinds[] = {"ac", "co", "com", "edu", "gov", "net", "org"};
    const char *kind = strchr(name, '.') + 1;
    size_t size = strcspn(kind, ".");
    if (kind[size] != '.' || strlen(kind + size + 1) != 2)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i]) == size && memcmp(kinds[i], kind, size) == 0)
            return true;
    }
    return false;
}

bool preview_host_is_nested(const struct preview_host *host)
{
    const char *dot = strchr(host->name, '.');
    return host->form == HOST_FORM_CUSTOM && dot && strchr(dot + 1, '.') &&
           !is_country_zone(host->name);
}

/* URLs. */

int preview_label(struct buf *to, uint16_t port, const char *id, const char *token)
{
    for (const char *at = id; *at; at++) {
        if (!(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9') && !strchr("-_.", *at))
            return -EINVAL;
    }
    return buf_addf(to, "%u-%s-%s", port, id, token);
}

int preview_path_url(struct buf *to, const char *origin, const char *label)
{
    return buf_addf(to, "http://%s/cdn-cgi/local/preview/%s/", origin, label);
}

int preview_url(struct buf *to, const struct preview_host *host, const char *label)
{
    char origin[sizeof host->name + sizeof host->port];
    switch (host->form) {
    case HOST_FORM_LOCAL:
        return buf_addf(to, "http://%s.localhost%s/", label, host->port);
    case HOST_FORM_ADDRESS:
        snprintf(origin, sizeof origin, "%s%s", host->name, host->port);
        return preview_path_url(to, origin, label);
    case HOST_FORM_CUSTOM:
        break;
    }
    return buf_addf(to, "https://%s.%s%s/", label, host->name, host->port);
}

/* Labels. */

bool label_begin(const struct port_rules *rules, const char *label, struct label_split *split)
{
    size_t digits = strspn(label, "0123456789");
    *split = (struct label_split){0};
    if (digits < 4 || digits > 5 || label[0] == '0' || label[digits] != '-')
        return false;
    long port = strtol(label, NULL, 10);
    split->rest = label + digits + 1;
    if (!is_port(rules, (double)port))
        return false;
    split->port = (uint16_t)port;
    return true;
}

bool label_next(const struct port_rules *rules, struct label_split *split)
{
    size_t at = split->id_size ? split->id_size : strlen(split->rest);
    while (at-- > 1) {
        size_t size = strlen(split->rest + at + 1);
        if (split->rest[at] != '-') {
            if (split->rest[at] && !is_token_char(rules, split->rest[at]))
                return false;
            continue;
        }
        if (split->id_size && !rules->hyphens)
            return false; /* the token would have one */
        if (size == 0 || size > TOKEN_MAX)
            return false;
        split->id_size = at;
        split->token = split->rest + at + 1;
        split->token_size = size;
        return true;
    }
    return false;
}
