/* Who answers a request: one table of Host and path, with the policy for browsers as a column. */
#ifndef SANDPIT_HTTP_OWNER_H
#define SANDPIT_HTTP_OWNER_H

#include "http/head.h"
#include "http/http.h"

struct owner_rules {
    const char *token; /* NULL: nobody has to bring one */
    char ip[64];       /* the address listened on when it is not a loopback one; else empty */
    bool any_ip;       /* that address is 0.0.0.0 or ::, so every address literal may be ours */
    char hosts[160];   /* the hint that names the allowed hosts */
    bool previews;     /* there are any */
    bool (*has_domain)(void *arg, struct span domain); /* for previews; or NULL */
    void *arg;
};

struct owner_answer {
    enum http_owner owner;
    char label[HTTP_LABEL_MAX + 1]; /* lower case: "3000-my-box-secret", or "localhost" */
    struct span path;               /* of a preview: as its server sees it */
    bool by_path;                   /* the label of the preview is in the path */
};

/* `ip` and `token` as in http_config; both are borrowed only by pointer (token) or copied (ip). */
void owner_rules_init(struct owner_rules *rules, const char *ip, const char *token);

/* True with *answer filled, or false with *why. */
bool owner_find(const struct owner_rules *rules, const struct head *head,
                struct owner_answer *answer, struct refusal *why);

/* A path as logs show it: without what may be the label, and so the token, of a preview. */
struct span owner_shown_path(struct span path);

/* Whether listening on this address keeps the emulator on this machine. */
bool owner_is_loopback(const char *ip);

#endif
