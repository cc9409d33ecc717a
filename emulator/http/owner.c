#include "http/owner.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What a Host header names. */
enum host_kind {
    HOST_OURS,      /* localhost, 127.0.0.1, [::1], or the address given with --ip */
    HOST_CONTAINER, /* 3000-….localhost */
    HOST_PREVIEW,   /* any other name below localhost, or below a domain of previews */
    HOST_FOREIGN,
};

/* Which browsers may come in. Clients that are no browsers send neither Origin nor Sec-Fetch-Site.
 */
enum origin_policy {
    ORIGIN_SAME,        /* pages of ours */
    ORIGIN_SAME_OR_TOP, /* also a link on any page that leads to our start page */
    ORIGIN_ANY,         /* all: the server behind it decides */
    ORIGIN_NEVER,       /* no page at all: what runs in a sandbox is not trusted with this face */
};

#define PREVIEW_PATH "/cdn-cgi/local/preview"

static const struct row {
    enum host_kind host;
    const char *path; /* this path and all below it; "" = every path */
    enum http_owner owner;
    enum origin_policy origin;
    bool token; /* asked for when one is set; the container's host name is a secret itself */
} rows[] = {
    {HOST_OURS, PREVIEW_PATH, OWNER_PREVIEW, ORIGIN_ANY, false},
    {HOST_PREVIEW, "", OWNER_PREVIEW, ORIGIN_ANY, false},
    {HOST_OURS, "/cdn-cgi/local", OWNER_CONTROL, ORIGIN_SAME, true},
    {HOST_OURS, "", OWNER_WORKER, ORIGIN_SAME_OR_TOP, true},
    {HOST_CONTAINER, "", OWNER_CONTAINER, ORIGIN_NEVER, false},
};

static const struct refusal no_preview = {404, "INVALID_TOKEN",
                                          "no exposed port has this preview URL", NULL};
static const struct refusal bad_origin = {
    403, "ORIGIN_NOT_ALLOWED", "a web page of another origin may not call this server",
    "call it from a page of the same origin, or from a program that is not a browser"};
static const struct refusal no_token = {
    401, "UNAUTHORIZED", "this server asks for a token",
    "send \"Authorization: Bearer TOKEN\"; the locator file of the instance has the token"};

static struct span unbracket(struct span name)
{
    if (name.size >= 2 && name.at[0] == '[' && name.at[name.size - 1] == ']')
        return (struct span){name.at + 1, name.size - 2};
    return name;
}

/* An address literal, as text without brackets; false when the span is not one. */
static bool parse_address(struct span name, struct in6_addr *to)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct span bare = unbracket(name);
    struct in_addr v4;
    if (bare.size == 0 || bare.size >= sizeof text)
        return false;
    memcpy(text, bare.at, bare.size);
    if (bare.size != name.size)
        return inet_pton(AF_INET6, text, to) == 1;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    *to = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&to->s6_addr[12], &v4, sizeof v4);
    return true;
}

bool owner_is_loopback(const char *ip)
{
    struct in6_addr v6;
    struct in_addr v4;
    if (inet_pton(AF_INET, ip, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, ip, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void owner_rules_init(struct owner_rules *rules, const char *ip, const char *token)
{
    *rules = (struct owner_rules){.token = token};
    if (ip && !owner_is_loopback(ip)) {
        rules->any_ip = strcmp(ip, "0.0.0.0") == 0 || strcmp(ip, "::") == 0;
        snprintf(rules->ip, sizeof rules->ip, strchr(ip, ':') ? "[%s]" : "%s", ip);
    }
    snprintf(rules->hosts, sizeof rules->hosts, "allowed hosts: localhost, 127.0.0.1, [::1]%s%s",
             rules->ip[0] ? ", " : "", rules->any_ip ? "any IP address" : rules->ip);
}

/* "name:port" into its parts; a port that is not a number is no host of ours. */
static bool split_host(struct span host, struct span *name, int64_t *port, int64_t otherwise)
{
    size_t size = host.size;
    *port = otherwise;
    *name = host;
    if (host.size && host.at[0] == '[') {
        const char *close = memchr(host.at, ']', host.size);
        if (!close)
            return false;
        size = (size_t)(close - host.at) + 1;
    } else {
        const char *colon = host.size ? memchr(host.at, ':', host.size) : NULL;
        if (colon)
            size = (size_t)(colon - host.at);
    }
    name->size = size;
    if (size == host.size)
        return true;
    struct span digits = {host.at + size + 1, host.size - size - 1};
    return host.at[size] == ':' && digits.size <= 5 && span_number(digits, port) && *port <= 65535;
}

static bool is_loopback_name(struct span name)
{
    return span_is(name, "localhost") || span_is(name, "localhost.") ||
           span_is(name, "127.0.0.1") || span_is(name, "[::1]");
}

static bool is_ours(const struct owner_rules *rules, struct span name)
{
    struct in6_addr address;
    if (is_loopback_name(name))
        return true;
    if (rules->any_ip) /* a literal needs no name server, so it cannot be a rebound name */
        return parse_address(name, &address);
    return rules->ip[0] && span_is(name, rules->ip);
}

/* The text before ".localhost", or an empty span. */
static struct span below_localhost(struct span name)
{
    static const char suffix[] = ".localhost";
    size_t size = sizeof suffix - 1;
    if (name.size && name.at[name.size - 1] == '.')
        name.size--;
    if (name.size <= size || strncasecmp(name.at + name.size - size, suffix, size) != 0)
        return (struct span){0};
    return (struct span){name.at, name.size - size};
}

/* The first label, lower case; left empty when it cannot be one of a preview. */
static void copy_label(struct span from, char label[static HTTP_LABEL_MAX + 1])
{
    label[0] = '\0';
    if (from.size > HTTP_LABEL_MAX)
        return;
    for (size_t i = 0; i < from.size; i++)
        label[i] = (char)tolower((unsigned char)from.at[i]);
    label[from.size] = '\0';
}

/* A name below a domain that previews were exposed with. */
static bool is_below_domain(const struct owner_rules *rules, struct span name)
{
    const char *dot = name.size ? memchr(name.at, '.', name.size) : NULL;
    if (!dot || !rules->has_domain)
        return false;
    struct span domain = {dot + 1, name.size - (size_t)(dot + 1 - name.at)};
    if (domain.size && domain.at[domain.size - 1] == '.')
        domain.size--;
    return rules->has_domain(rules->arg, domain);
}

static enum host_kind preview_kind(struct span name, char label[static HTTP_LABEL_MAX + 1])
{
    const char *dot = memchr(name.at, '.', name.size);
    copy_label((struct span){name.at, dot ? (size_t)(dot - name.at) : name.size}, label);
    return HOST_PREVIEW;
}

static enum host_kind host_kind(const struct owner_rules *rules, struct span name,
                                char label[static HTTP_LABEL_MAX + 1])
{
    memcpy(label, "localhost", sizeof "localhost");
    if (is_ours(rules, name))
        return HOST_OURS;
    struct span below = below_localhost(name);
    if (below.size == 0)
        return is_below_domain(rules, name) ? preview_kind(name, label) : HOST_FOREIGN;
    if (below.size > 63 || below.size <= 5 || memcmp(below.at, "3000-", 5) != 0)
        return preview_kind(below, label);
    for (size_t i = 0; i < below.size; i++) {
        char c = (char)tolower((unsigned char)below.at[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return preview_kind(below, label);
        label[i] = c;
    }
    label[below.size] = '\0';
    return HOST_CONTAINER;
}

static const struct row *find_row(enum host_kind host, struct span path)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = strlen(rows[i].path);
        if (rows[i].host == host && path.size >= size && memcmp(path.at, rows[i].path, size) == 0 &&
            (size == 0 || path.size == size || path.at[size] == '/'))
            return &rows[i];
    }
    return NULL;
}

/* An origin of ours: http or https, a loopback name or the very host that is asked, and its port.
 */
static bool origin_is_ours(struct span origin, struct span name, int64_t port)
{
    bool secure = origin.size > 8 && strncasecmp(origin.at, "https://", 8) == 0;
    size_t scheme = secure ? 8 : 7;
    struct span from;
    int64_t from_port;
    if (!secure && (origin.size <= 7 || strncasecmp(origin.at, "http://", 7) != 0))
        return false;
    struct span authority = {origin.at + scheme, origin.size - scheme};
    if (!split_host(authority, &from, &from_port, secure ? 443 : 80))
        return false;
    return from_port == port && (is_loopback_name(from) || span_same(from, name));
}

/* A click on a link that leads to GET /, which changes nothing and shows nothing to the other page.
 */
static bool is_link_to_start(const struct head *head)
{
    return span_is(head->method, "GET") && span_is(head->path, "/") &&
           span_is(head->fetch_mode, "navigate") && span_is(head->fetch_dest, "document");
}

static bool browser_may(enum origin_policy policy, const struct head *head, struct span name,
                        int64_t port)
{
    if (policy == ORIGIN_ANY)
        return true;
    if (head->origin.at && (policy == ORIGIN_NEVER || !origin_is_ours(head->origin, name, port)))
        return false;
    if (!head->fetch_site.at || span_is(head->fetch_site, "none") ||
        span_is(head->fetch_site, "same-origin"))
        return true;
    return policy == ORIGIN_SAME_OR_TOP && is_link_to_start(head);
}

/* Compares all of the expected text whatever was sent, so that time tells nothing but the length.
 */
static bool token_fits(const char *token, struct span authorization)
{
    size_t size = strlen(token);
    if (authorization.size < 7 || strncasecmp(authorization.at, "Bearer ", 7) != 0)
        return false;
    struct span sent = {authorization.at + 7, authorization.size - 7};
    volatile unsigned char differs = sent.size != size;
    for (size_t i = 0; i < size; i++)
        differs |= (unsigned char)token[i] ^ (unsigned char)(i < sent.size ? sent.at[i] : 0);
    return !differs;
}

/* Where the path of a preview's request begins for its server. */
static void find_preview(const struct row *row, const struct head *head,
                         struct owner_answer *answer)
{
    size_t prefix = strlen(row->path);
    answer->path = head->path;
    answer->by_path = prefix > 0;
    if (!answer->by_path)
        return;
    struct span rest = {head->path.at + prefix, head->path.size - prefix};
    if (rest.size) {
        rest.at++;
        rest.size--;
    }
    const char *slash = rest.size ? memchr(rest.at, '/', rest.size) : NULL;
    size_t size = slash ? (size_t)(slash - rest.at) : rest.size;
    answer->label[0] = '\0';
    if (size <= HTTP_LABEL_MAX) {
        memcpy(answer->label, rest.at, size);
        answer->label[size] = '\0';
    }
    answer->path = slash ? (struct span){slash, rest.size - size} : span_of("/");
}

struct span owner_shown_path(struct span path)
{
    size_t size = strlen(PREVIEW_PATH);
    const char *at = path.size ? memmem(path.at, path.size, PREVIEW_PATH, size) : NULL;
    return at ? (struct span){path.at, (size_t)(at - path.at) + size} : path;
}

bool owner_find(const struct owner_rules *rules, const struct head *head,
                struct owner_answer *answer, struct refusal *why)
{
    /* Only HTTP/1.0 may come without a Host; no browser does. */
    struct span host = head->host.at ? head->host : span_of("localhost"), name;
    int64_t port;
    enum host_kind kind = HOST_FOREIGN;
    if (split_host(host, &name, &port, 80))
        kind = host_kind(rules, name, answer->label);
    const struct row *row = find_row(kind, head->path);
    if (row && row->owner == OWNER_PREVIEW) {
        if (rules->previews)
            find_preview(row, head, answer);
        else
            row = NULL;
    }
    if (!row && kind != HOST_FOREIGN)
        *why = no_preview;
    else if (!row)
        *why =
            (struct refusal){403, "HOST_NOT_ALLOWED", "this Host is not served here", rules->hosts};
    else if (!browser_may(row->origin, head, name, port))
        *why = bad_origin;
    else if (row->token && rules->token && !token_fits(rules->token, head->authorization))
        *why = no_token;
    else {
        answer->owner = row->owner;
        return true;
    }
    return false;
}
