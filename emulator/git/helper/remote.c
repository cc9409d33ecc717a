/* Phase 1: what a server has, fetched into a bare repository of our own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/percent.h"
#include "git/helper/remote.h"

/* --- Callbacks -------------------------------------------------------------------------------- */

/* Nobody can be asked. Those in the URL were tried before this is called. */
static int credentials(git_credential **to, const char *url, const char *user, unsigned kinds,
                       void *arg)
{
    struct talk *talk = arg;
    if (kinds & GIT_CREDENTIAL_USERNAME)
        return git_credential_username_new(to, user ? user : "git");
    if ((kinds & GIT_CREDENTIAL_SSH_KEY) && talk->request->agent && !talk->asked_agent) {
        talk->asked_agent = true;
        return git_credential_ssh_key_from_agent(to, user ? user : "git");
    }
    talk->wants_login = true;
    return GIT_EAUTH;
}

static int progress(const git_indexer_progress *stats, void *arg)
{
    struct talk *talk = arg;
    talk->too_large = stats->received_bytes >> 30 >= GIT_GIBIBYTES;
    bool resolving = stats->received_objects == stats->total_objects;
    say_progress(resolving ? "resolve" : "receive",
                 resolving ? stats->indexed_deltas : stats->received_objects,
                 resolving ? stats->total_deltas : stats->total_objects, stats->received_bytes);
    return talk->too_large ? GIT_EUSER : 0;
}

/* --- Fetching --------------------------------------------------------------------------------- */

/* "Authorization: …" for the user and password of an http URL, or NULL. libgit2 itself would wait
 * to be asked for them, and is confused when the question comes in two pieces. */
static char *login_of(const char *url)
{
    char plain[2100];
    const char *user = strncasecmp(url, "http", 4) == 0 ? strstr(url, "://") : NULL;
    const char *end = user ? memrchr(user + 3, '@', strcspn(user + 3, "/?#")) : NULL;
    const char *colon = end ? memchr(user + 3, ':', (size_t)(end - user - 3)) : NULL;
    CLEANUP_BUF struct buf header = BUF_INIT(4096);
    if (!colon)
        return NULL;
    long name = percent_decode(user + 3, (size_t)(colon - user - 3), plain, sizeof plain);
    if (name < 0)
        return NULL;
    plain[name++] = ':';
    long rest = percent_decode(colon + 1, (size_t)(end - colon - 1), plain + name,
                               sizeof plain - (size_t)name);
    if (rest < 0 || buf_adds(&header, "Authorization: Basic ") < 0 ||
        base64_encode(&header, plain, (size_t)(name + rest)) < 0)
        return NULL;
    return buf_steal(&header);
}

/* A login is only for the server that it was given for. */
static void use_login(struct talk *talk, git_remote_connect_options *how,
                      git_fetch_options *options)
{
    how->callbacks = options->callbacks;
    how->proxy_opts = options->proxy_opts;
    talk->login = login_of(talk->request->url);
    if (!talk->login)
        return;
    how->custom_headers = (git_strarray){&talk->login, 1};
    how->follow_redirects = GIT_REMOTE_REDIRECT_NONE;
    options->custom_headers = how->custom_headers;
    options->follow_redirects = how->follow_redirects;
}

static git_remote *connect_to(struct talk *talk, git_repository *repo, git_fetch_options *options)
{
    git_remote *remote = NULL;
    git_remote_connect_options how;
    struct address address;
    if (strncasecmp(talk->request->url, "https:", 6) == 0)
        setup_certificates();
    git_fetch_options_init(options, GIT_FETCH_OPTIONS_VERSION);
    options->callbacks.credentials = credentials;
    options->callbacks.transfer_progress = progress;
    options->callbacks.payload = talk;
    options->download_tags = GIT_REMOTE_DOWNLOAD_TAGS_NONE;
    options->proxy_opts.type = GIT_PROXY_AUTO;
    git_remote_connect_options_init(&how, GIT_REMOTE_CONNECT_OPTIONS_VERSION);
    use_login(talk, &how, options);
    address_of(talk->request->url, &address);
    if (git_remote_create_anonymous(&remote, repo,
                                    talk->login ? address.text : talk->request->url) < 0 ||
        git_remote_connect_ext(remote, GIT_DIRECTION_FETCH, &how) < 0)
        fatal_remote(talk);
    return remote;
}

/* The line after an annotated tag, "refs/tags/v1^{}", tells where it leads. */
static const git_oid *peeled_of(const git_remote_head *const *heads, size_t count, size_t at)
{
    size_t length = strlen(heads[at]->name);
    if (at + 1 == count || strncmp(heads[at + 1]->name, heads[at]->name, length) != 0)
        return NULL;
    return strcmp(heads[at + 1]->name + length, "^{}") == 0 ? &heads[at + 1]->oid : NULL;
}

static json_t *list(struct talk *talk, git_remote *remote)
{
    const git_remote_head **heads = NULL;
    size_t count = 0;
    char hex[GIT_OID_HEXSZ + 1];
    json_t *info = info_new();
    if (git_remote_ls(&heads, &count, remote) < 0)
        fatal_remote(talk);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(heads[i]->name, "HEAD") != 0) {
            info_add(info, heads[i]->name, &heads[i]->oid, peeled_of(heads, count, i));
            continue;
        }
        if (heads[i]->symref_target)
            json_object_set_new(info, "head", json_string(heads[i]->symref_target));
        git_oid_tostr(hex, sizeof hex, &heads[i]->oid);
        json_object_set_new(info, "headOid", json_string(hex));
    }
    return info;
}

static void download(struct talk *talk, git_remote *remote, const git_fetch_options *options,
                     const json_t *info, bool single)
{
    static char *const all[] = {"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"};
    git_strarray specs = {(char **)all, 2};
    const json_t *refs = json_object_get(info, "refs");
    const char *detached =
        json_string_value(json_object_get(json_object_get(info, "checkout"), "ref"));
    CLEANUP_FREE char **own = NULL;
    size_t count = json_array_size(refs);
    if (count == 0 && !detached)
        return;
    if (single || (detached && strcmp(detached, "HEAD") == 0)) {
        own = calloc(count + 3, sizeof *own);
        if (!own)
            fatal("fatal: out of memory");
        specs = (git_strarray){own, 0};
        for (size_t i = 0; single && i < count; i++) {
            const char *name = json_string_value(json_array_get(json_array_get(refs, i), 0));
            if (asprintf(&own[specs.count++], "+%s:%s", name, name) < 0)
                fatal("fatal: out of memory");
        }
        for (size_t i = 0; !single && i < 2; i++)
            own[specs.count++] = strdup(all[i]);
        if (strcmp(detached, "HEAD") == 0)
            own[specs.count++] = strdup("+HEAD:refs/sandpit/HEAD");
    }
    if (git_remote_download(remote, &specs, options) < 0)
        fatal_remote(talk);
    for (size_t i = 0; own && i < specs.count; i++)
        free(own[i]);
}

void remote_source(const struct request *request, struct source *source)
{
    struct talk talk = {.request = request};
    git_fetch_options options;
    char path[4200];
    snprintf(path, sizeof path, "%s/bare", request->scratch);
    if (git_repository_init(&source->repo, path, 1) < 0)
        fatal_git("scratch repository");
    git_remote *remote = connect_to(&talk, source->repo, &options);
    source->info = list(&talk, remote);
    choose_checkout(request, source->info, request->depth);
    download(&talk, remote, &options, source->info, request->depth > 0);
    git_remote_disconnect(remote);
    git_remote_free(remote);
    free(talk.login);
}

/* --- Mirrors ---------------------------------------------------------------------------------- */

static void drop_others(git_repository *repo, const json_t *info)
{
    git_strarray names = {0};
    if (git_reference_list(&names, repo) < 0)
        fatal_git("references");
    for (size_t i = 0; i < names.count; i++) {
        if (!info_oid(info, names.strings[i]) && git_reference_remove(repo, names.strings[i]) < 0)
            fatal_git(names.strings[i]);
    }
    git_strarray_dispose(&names);
}

static void set_references(git_repository *repo, const json_t *info)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(info, "refs"), i, entry)
    {
        git_reference *ref = NULL;
        git_oid oid;
        const char *name = json_string_value(json_array_get(entry, 0));
        if (git_oid_fromstr(&oid, json_string_value(json_array_get(entry, 1))) < 0 ||
            git_reference_create(&ref, repo, name, &oid, 1, NULL) < 0)
            fatal_git(name);
        git_reference_free(ref);
    }
    const char *head = json_string_value(json_object_get(info, "head"));
    if (head && git_repository_set_head(repo, head) < 0)
        fatal_git("HEAD");
}

void remote_update(const struct request *request)
{
    struct talk talk = {.request = request};
    git_fetch_options options;
    git_repository *repo = NULL;
    if (git_repository_open_bare(&repo, request->update) < 0 &&
        git_repository_init(&repo, request->update, 1) < 0)
        fatal_git(request->update);
    git_remote *remote = connect_to(&talk, repo, &options);
    json_t *info = list(&talk, remote);
    choose_checkout(request, info, 0);
    download(&talk, remote, &options, info, false);
    drop_others(repo, info);
    set_references(repo, info);
    say(json_pack("{s:s,s:i}", "type", "done", "refs",
                  (int)json_array_size(json_object_get(info, "refs"))));
    json_decref(info);
    git_remote_free(remote);
    git_repository_free(repo);
    free(talk.login);
}
