/* Phase 2: the repository and its files, written inside the container. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "git/helper/helper.h"

enum { PACKED_REFS_MAX = 256 << 20 };

/* --- The directory ---------------------------------------------------------------------------- */

/* 1: there and empty, 0: not there. */
static int is_there(const struct request *request)
{
    CLEANUP_DIR DIR *dir = opendir(request->dir);
    struct stat status;
    struct dirent *entry;
    if (!dir && lstat(request->dir, &status) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            break;
    }
    if (dir && !entry)
        return 1;
    fatal("fatal: destination path '%s' already exists and is not an empty directory.",
          request->shown);
}

void write_check(const struct request *request)
{
    is_there(request);
}

static const char *undo_dir;
static bool undo_keep;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    if (where->level > 0 || !undo_keep)
        remove(path);
    return 0;
}

/* As git does: what it made goes, a directory that was there stays. */
static void undo(void)
{
    say_undo = NULL;
    nftw(undo_dir, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void make_parents(const struct request *request)
{
    CLEANUP_FREE char *path = strdup(request->dir);
    for (char *at = path ? path + 1 : NULL; at && (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            fatal("fatal: could not create leading directories of '%s': %s", request->shown,
                  strerror(errno));
        *at = '/';
    }
}

void write_begin(const struct request *request)
{
    undo_keep = is_there(request) == 1;
    undo_dir = request->dir;
    say(json_pack("{s:s,s:b}", "type", "created", "existed", undo_keep));
    make_parents(request);
    if (!undo_keep && mkdir(request->dir, 0777) < 0)
        fatal("fatal: could not create work tree dir '%s': %s", request->shown, strerror(errno));
    say_undo = undo;
}

/* --- Files of the repository ------------------------------------------------------------------ */

static void copy_file(const char *dir, const char *name, const char *suffix, int from)
{
    char path[4300];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
    CLEANUP_FD int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
    if (to < 0 || fstat(from, &status) < 0)
        fatal("fatal: write '%s%s': %s", name, suffix, strerror(errno));
    for (off_t at = 0; at < status.st_size;) {
        ssize_t size = sendfile(to, from, &at, (size_t)(status.st_size - at));
        if (size <= 0)
            fatal("fatal: write '%s%s': %s", name, suffix,
                  size < 0 ? strerror(errno) : "it became shorter");
        say_progress("write", (uint64_t)at, (uint64_t)status.st_size, (uint64_t)at);
    }
}

/* The index comes last, so that a pack with one is whole. */
static void copy_packs(struct source *source, const char *dir)
{
    for (size_t i = 0; i < source->pack_count; i++) {
        copy_file(dir, source->packs[i].name, ".pack", source->packs[i].pack);
        copy_file(dir, source->packs[i].name, ".idx", source->packs[i].idx);
        close(source->packs[i].pack);
        close(source->packs[i].idx);
    }
    source->pack_count = 0;
}

static void write_text(git_repository *repo, const char *name, const struct buf *text)
{
    char path[4300];
    snprintf(path, sizeof path, "%s%s", git_repository_path(repo), name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    size_t done = 0;
    while (fd >= 0 && done < text->size) {
        ssize_t size = write(fd, text->data + done, text->size - done);
        if (size < 0)
            break;
        done += (size_t)size;
    }
    if (fd < 0 || done < text->size)
        fatal("fatal: write '.git/%s': %s", name, strerror(errno));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All references in one file, as after a clone by git. Names were checked when they came. */
static void write_references(git_repository *repo, const json_t *info)
{
    const json_t *refs = json_object_get(info, "refs");
    size_t count = json_array_size(refs), i;
    CLEANUP_FREE char **lines = calloc(count + 1, sizeof *lines);
    CLEANUP_BUF struct buf text = BUF_INIT(PACKED_REFS_MAX);
    json_t *ref;
    if (!lines)
        fatal("fatal: out of memory");
    json_array_foreach(refs, i, ref)
    {
        const char *name = json_string_value(json_array_get(ref, 0));
        bool branch = strncmp(name, "refs/heads/", 11) == 0;
        if (asprintf(&lines[i], "%s%s %s", branch ? "refs/remotes/origin/" : "",
                     branch ? name + 11 : name, json_string_value(json_array_get(ref, 1))) < 0)
            fatal("fatal: out of memory");
    }
    qsort(lines, count, sizeof *lines, by_name);
    for (i = 0; i < count; i++) {
        char *space = strrchr(lines[i], ' ');
        buf_addf(&text, "%s %.*s\n", space + 1, (int)(space - lines[i]), lines[i]);
        free(lines[i]);
    }
    if (count > 0)
        write_text(repo, "packed-refs", &text);
}

static void write_shallow(git_repository *repo, const json_t *info)
{
    const json_t *commits = json_object_get(info, "shallow");
    CLEANUP_BUF struct buf text = BUF_INIT(PACKED_REFS_MAX);
    size_t i;
    json_t *commit;
    json_array_foreach(commits, i, commit)
    {
        buf_addf(&text, "%s\n", json_string_value(commit));
    }
    if (text.size > 0)
        write_text(repo, "shallow", &text);
}

/* --- Configuration and HEAD ------------------------------------------------------------------- */

static void write_remote(const struct request *request, git_repository *repo, const json_t *info)
{
    git_remote *remote = NULL;
    char spec[2200];
    const char *single = json_string_value(json_object_get(info, "single"));
    snprintf(spec, sizeof spec, "+refs/heads/*:refs/remotes/origin/*");
    if (single && strncmp(single, "refs/heads/", 11) == 0)
        snprintf(spec, sizeof spec, "+%s:refs/remotes/origin/%s", single, single + 11);
    else if (single)
        snprintf(spec, sizeof spec, "+%s:%s", single, single);
    if (git_remote_create_with_fetchspec(&remote, repo, "origin", request->stored, spec) < 0)
        fatal_git("remote");
    git_remote_free(remote);
}

static void write_origin_head(git_repository *repo, const json_t *info)
{
    const char *head = json_string_value(json_object_get(info, "head"));
    char target[1100];
    git_reference *ref = NULL;
    if (!head || strncmp(head, "refs/heads/", 11) != 0 || !info_oid(info, head))
        return;
    snprintf(target, sizeof target, "refs/remotes/origin/%s", head + 11);
    if (git_reference_symbolic_create(&ref, repo, "refs/remotes/origin/HEAD", target, 1, NULL) < 0)
        fatal_git("HEAD of origin");
    git_reference_free(ref);
}

static void track(git_repository *repo, const char *branch)
{
    git_config *config = NULL;
    char key[1100], full[1100];
    snprintf(full, sizeof full, "refs/heads/%s", branch);
    if (git_repository_config(&config, repo) < 0)
        fatal_git("configuration");
    snprintf(key, sizeof key, "branch.%s.remote", branch);
    int error = git_config_set_string(config, key, "origin");
    snprintf(key, sizeof key, "branch.%s.merge", branch);
    if (error < 0 || git_config_set_string(config, key, full) < 0)
        fatal_git("configuration");
    git_config_free(config);
}

/* The branch that is checked out, or NULL when HEAD is a commit of its own. */
static const char *branch_of(const json_t *info)
{
    const json_t *checkout = json_object_get(info, "checkout");
    const char *ref = json_string_value(json_object_get(checkout, "ref"));
    if (!checkout)
        return "master";
    return strncmp(ref, "refs/heads/", 11) == 0 ? ref + 11 : NULL;
}

static void write_head(const struct request *request, git_repository *repo, const json_t *info)
{
    const json_t *checkout = json_object_get(info, "checkout");
    const char *branch = branch_of(info);
    char name[1100], message[2200];
    git_reference *ref = NULL;
    git_object *object = NULL, *commit = NULL;
    git_oid oid;
    if (branch)
        track(repo, branch);
    if (!checkout)
        return;
    if (git_oid_fromstr(&oid, json_string_value(json_object_get(checkout, "oid"))) < 0 ||
        git_object_lookup(&object, repo, &oid, GIT_OBJECT_ANY) < 0 ||
        git_object_peel(&commit, object, GIT_OBJECT_COMMIT) < 0)
        fatal_git("last commit");
    snprintf(name, sizeof name, "refs/heads/%s", branch ? branch : "");
    snprintf(message, sizeof message, "clone: from %s", request->stored);
    int error = branch ? git_reference_create(&ref, repo, name, git_object_id(commit), 1, message)
                       : git_repository_set_head_detached(repo, git_object_id(commit));
    if (error < 0)
        fatal_git("HEAD");
    git_reference_free(ref);
    git_object_free(commit);
    git_object_free(object);
}

/* --- Files of the work tree ------------------------------------------------------------------- */

static void checked_out(const char *path, size_t done, size_t total, void *arg)
{
    say_progress("checkout", done, total, 0);
}

static int is_attributes(const char *root, const git_tree_entry *entry, void *arg)
{
    bool *found = arg;
    *found = *found || strcmp(git_tree_entry_name(entry), ".gitattributes") == 0;
    return *found ? -1 : 0;
}

/* The attributes of a file are looked up with eight calls of readlink. Where no file has any, that
 * would be half of the time. */
static bool has_attributes(git_repository *repo)
{
    git_object *tree = NULL;
    bool found = git_revparse_single(&tree, repo, "HEAD^{tree}") < 0;
    if (!found)
        git_tree_walk((git_tree *)tree, GIT_TREEWALK_PRE, is_attributes, &found);
    git_object_free(tree);
    return found;
}

/* What fails here leaves the repository, as git does. */
static void check_out(git_repository *repo)
{
    git_checkout_options options;
    git_checkout_options_init(&options, GIT_CHECKOUT_OPTIONS_VERSION);
    options.checkout_strategy = GIT_CHECKOUT_FORCE;
    options.progress_cb = checked_out;
    options.disable_filters = !has_attributes(repo);
    say_undo = NULL;
    if (git_checkout_head(repo, &options) == 0)
        return;
    CLEANUP_FREE char *why = strdup(last_error());
    fatal("error: %s\n"
          "fatal: unable to checkout working tree\n"
          "warning: Clone succeeded, but checkout failed.\n"
          "You can inspect what was checked out with 'git status'\n"
          "and retry with 'git restore --source=HEAD :/'\n",
          why ? why : "");
}

static git_repository *make_repository(const struct request *request, const json_t *info)
{
    git_repository_init_options options;
    git_repository *repo = NULL;
    const char *branch = branch_of(info);
    git_repository_init_options_init(&options, GIT_REPOSITORY_INIT_OPTIONS_VERSION);
    options.initial_head = branch ? branch : "master";
    if (git_repository_init_ext(&repo, request->dir, &options) < 0)
        fatal_git("repository");
    return repo;
}

void write_repository(const struct request *request, struct source *source)
{
    char packs[4200];
    git_repository *repo = make_repository(request, source->info);
    snprintf(packs, sizeof packs, "%sobjects/pack", git_repository_path(repo));
    if (request->local) {
        if (json_object_get(source->info, "single"))
            depth_pack(source, request->depth, packs);
        else
            disk_packs(source, packs);
    }
    copy_packs(source, packs);
    write_references(repo, source->info);
    write_shallow(repo, source->info);
    write_remote(request, repo, source->info);
    write_origin_head(repo, source->info);
    write_head(request, repo, source->info);
    if (json_object_get(source->info, "checkout"))
        check_out(repo);
    const char *branch = branch_of(source->info);
    say(json_pack("{s:s,s:s?}", "type", "done", "branch", branch));
}
