/* A repository on this file system: a mirror, what a server sent, or a path inside the sandbox. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

/* --- References ------------------------------------------------------------------------------- */

static void add_reference(json_t *info, git_reference *ref)
{
    git_reference *direct = NULL;
    git_object *target = NULL;
    if (git_reference_resolve(&direct, ref) == 0) {
        bool tag = git_reference_is_tag(direct);
        if (tag && git_reference_peel(&target, direct, GIT_OBJECT_ANY) < 0)
            target = NULL;
        info_add(info, git_reference_name(ref), git_reference_target(direct),
                 target ? git_object_id(target) : NULL);
    }
    git_object_free(target);
    git_reference_free(direct);
}

static void add_head(json_t *info, git_repository *repo)
{
    git_reference *head = NULL;
    char hex[GIT_OID_HEXSZ + 1];
    if (git_reference_lookup(&head, repo, "HEAD") < 0)
        return;
    if (git_reference_type(head) == GIT_REFERENCE_SYMBOLIC) {
        json_object_set_new(info, "head", json_string(git_reference_symbolic_target(head)));
    } else {
        git_oid_tostr(hex, sizeof hex, git_reference_target(head));
        json_object_set_new(info, "headOid", json_string(hex));
    }
    git_reference_free(head);
}

static void open_repository(const struct request *request, const char *path, git_repository **repo)
{
    char other[4200];
    if (git_repository_open_ext(repo, path, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) == 0)
        return;
    snprintf(other, sizeof other, "%s.git", path);
    if (git_repository_open_ext(repo, other, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) == 0)
        return;
    if (request->local && strncmp(request->url, "file://", 7) == 0)
        fatal("fatal: '%s' does not appear to be a git repository\n"
              "fatal: Could not read from remote repository.\n\n"
              "Please make sure you have the correct access rights\n"
              "and the repository exists.",
              request->local);
    if (request->local)
        fatal("fatal: repository '%s' does not exist", request->url);
    fatal("fatal: '%s' is not a git repository that can be read: %s", path, last_error());
}

void disk_source(const struct request *request, const char *path, struct source *source)
{
    git_reference_iterator *all = NULL;
    git_reference *ref = NULL;
    open_repository(request, path, &source->repo);
    source->info = info_new();
    if (git_reference_iterator_new(&all, source->repo) < 0)
        fatal_git("references");
    while (git_reference_next(&ref, all) == 0) {
        add_reference(source->info, ref);
        git_reference_free(ref);
    }
    git_reference_iterator_free(all);
    add_head(source->info, source->repo);
    /* git clones a plain path whole, whatever depth was asked for. */
    bool plain = request->local && strncmp(request->url, "file://", 7) != 0;
    choose_checkout(request, source->info, plain ? 0 : request->depth);
}

/* --- Packs ------------------------------------------------------------------------------------ */

static bool is_pack_name(const char *name, size_t *length)
{
    size_t hex = strncmp(name, "pack-", 5) == 0 ? strspn(name + 5, "0123456789abcdef") : 0;
    *length = 5 + hex;
    return (hex == 40 || hex == 64) && strcmp(name + *length, ".pack") == 0;
}

static int open_file(int dir, const char *name, const char *suffix)
{
    char file[96];
    struct stat status;
    snprintf(file, sizeof file, "%s%s", name, suffix);
    CLEANUP_FD int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? steal_fd(&fd) : -1;
}

void disk_open_packs(struct source *source, const char *path)
{
    CLEANUP_DIR DIR *dir = opendir(path);
    struct dirent *entry;
    size_t length;
    while (dir && (entry = readdir(dir))) {
        if (!is_pack_name(entry->d_name, &length))
            continue;
        if (source->pack_count == PACKS_MAX)
            fatal("fatal: too many packs");
        struct pack *pack = &source->packs[source->pack_count];
        snprintf(pack->name, sizeof pack->name, "%.*s", (int)length, entry->d_name);
        pack->pack = open_file(dirfd(dir), pack->name, ".pack");
        pack->idx = open_file(dirfd(dir), pack->name, ".idx");
        if (pack->pack >= 0 && pack->idx >= 0) {
            source->pack_count++;
            continue;
        }
        cleanup_fd(&pack->pack);
        cleanup_fd(&pack->idx);
    }
}

static size_t count_packs(const char *path)
{
    CLEANUP_DIR DIR *dir = opendir(path);
    struct dirent *entry;
    size_t count = 0, length;
    while (dir && (entry = readdir(dir)))
        count += is_pack_name(entry->d_name, &length);
    return count;
}

static git_packbuilder *new_pack(git_repository *repo)
{
    git_packbuilder *builder = NULL;
    if (git_packbuilder_new(&builder, repo) < 0)
        fatal_git("pack");
    git_packbuilder_set_threads(builder, 0);
    return builder;
}

static void write_pack(git_packbuilder *builder, const char *to)
{
    if (git_packbuilder_object_count(builder) > 0 &&
        git_packbuilder_write(builder, to, 0444, NULL, NULL) < 0)
        fatal_git("pack");
    git_packbuilder_free(builder);
}

/* Everything that the references lead to. */
static void pack_everything(struct source *source, const char *to)
{
    git_packbuilder *builder = new_pack(source->repo);
    git_revwalk *walk = NULL;
    size_t i;
    json_t *ref;
    if (git_revwalk_new(&walk, source->repo) < 0)
        fatal_git("pack");
    json_array_foreach(json_object_get(source->info, "refs"), i, ref)
    {
        git_oid oid;
        git_object *commit = NULL, *object = NULL;
        const char *name = json_string_value(json_array_get(ref, 0));
        if (git_oid_fromstr(&oid, json_string_value(json_array_get(ref, 1))) < 0 ||
            git_object_lookup(&object, source->repo, &oid, GIT_OBJECT_ANY) < 0 ||
            git_packbuilder_insert_recur(builder, &oid, NULL) < 0)
            fatal_git(name);
        if (git_object_peel(&commit, object, GIT_OBJECT_COMMIT) == 0)
            git_revwalk_push(walk, git_object_id(commit));
        git_object_free(commit);
        git_object_free(object);
    }
    if (git_packbuilder_insert_walk(builder, walk) < 0)
        fatal_git("pack");
    git_revwalk_free(walk);
    write_pack(builder, to);
}

/* Adds the objects of one of the 256 directories of loose ones. */
static void add_loose(git_packbuilder *builder, const char *objects, unsigned first)
{
    char path[4300], hex[GIT_OID_HEXSZ + 2];
    snprintf(path, sizeof path, "%s/%02x", objects, first);
    CLEANUP_DIR DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        git_oid oid;
        if (strlen(entry->d_name) != GIT_OID_HEXSZ - 2)
            continue;
        snprintf(hex, sizeof hex, "%02x%s", first, entry->d_name);
        if (git_oid_fromstr(&oid, hex) == 0 && git_packbuilder_insert(builder, &oid, NULL) < 0)
            fatal_git("loose object");
    }
}

void disk_packs(struct source *source, const char *to)
{
    char objects[4200], file[4300];
    snprintf(objects, sizeof objects, "%sobjects", git_repository_commondir(source->repo));
    snprintf(file, sizeof file, "%s/info/alternates", objects);
    bool elsewhere = access(file, F_OK) == 0;
    snprintf(file, sizeof file, "%s/pack", objects);
    if (elsewhere || count_packs(file) >= PACKS_MAX) {
        pack_everything(source, to);
        return;
    }
    git_packbuilder *builder = new_pack(source->repo);
    for (unsigned first = 0; first < 256; first++)
        add_loose(builder, objects, first);
    write_pack(builder, to);
    disk_open_packs(source, file);
}
