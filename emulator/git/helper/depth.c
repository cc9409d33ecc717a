/* The last commits of a branch. This libgit2 cannot ask a server for them, so that everything was
 * fetched; here they are packed alone, and the rest is left behind. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "git/helper/helper.h"

/* Objects that were met: open addressing over the first bytes of their ids. */
struct met {
    git_oid *slots;
    bool *used;
    size_t room, count;
};

/* What there still is to pack, level by level. */
struct level {
    git_oid *commits;
    size_t count, room;
};

static size_t slot_of(const struct met *met, const git_oid *oid)
{
    uint64_t hash;
    memcpy(&hash, oid->id, sizeof hash);
    size_t at = hash & (met->room - 1);
    while (met->used[at] && git_oid_cmp(&met->slots[at], oid) != 0)
        at = (at + 1) & (met->room - 1);
    return at;
}

static void met_grow(struct met *met)
{
    struct met larger = {.room = met->room ? met->room * 2 : 1024, .count = met->count};
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    larger.used = calloc(larger.room, sizeof *larger.used);
    if (!larger.slots || !larger.used)
        fatal("fatal: out of memory");
    for (size_t i = 0; i < met->room; i++) {
        if (met->used[i]) {
            size_t at = slot_of(&larger, &met->slots[i]);
            larger.used[at] = true;
            larger.slots[at] = met->slots[i];
        }
    }
    free(met->slots);
    free(met->used);
    *met = larger;
}

/* Whether this is the first time. */
static bool meet(struct met *met, const git_oid *oid)
{
    if (met->count * 2 >= met->room)
        met_grow(met);
    size_t at = slot_of(met, oid);
    if (met->used[at])
        return false;
    met->used[at] = true;
    met->slots[at] = *oid;
    met->count++;
    return true;
}

static void level_add(struct level *level, const git_oid *oid)
{
    if (level->count == level->room) {
        level->room = level->room ? level->room * 2 : 64;
        git_oid *commits = reallocarray(level->commits, level->room, sizeof *commits);
        if (!commits)
            fatal("fatal: out of memory");
        level->commits = commits;
    }
    level->commits[level->count++] = *oid;
}

struct cut {
    git_repository *repo;
    git_packbuilder *builder;
    struct met met;
    json_t *shallow;
};

/* Trees are met once, however many commits share them. A tree cannot be deeper than a path is
 * long. */
static void add_tree(struct cut *cut, const git_oid *oid, int deep)
{
    git_tree *tree = NULL;
    if (!meet(&cut->met, oid))
        return;
    if (deep > 2048 || git_tree_lookup(&tree, cut->repo, oid) < 0 ||
        git_packbuilder_insert(cut->builder, oid, NULL) < 0)
        fatal_git("tree");
    for (size_t i = 0; i < git_tree_entrycount(tree); i++) {
        const git_tree_entry *entry = git_tree_entry_byindex(tree, i);
        const git_oid *id = git_tree_entry_id(entry);
        git_object_t type = git_tree_entry_type(entry);
        if (type == GIT_OBJECT_TREE)
            add_tree(cut, id, deep + 1);
        else if (type == GIT_OBJECT_BLOB && meet(&cut->met, id) &&
                 git_packbuilder_insert(cut->builder, id, git_tree_entry_name(entry)) < 0)
            fatal_git("file");
    }
    git_tree_free(tree);
}

/* One commit; its parents belong to the next level, or are cut off. */
static void add_commit(struct cut *cut, const git_oid *oid, bool last, struct level *next)
{
    git_commit *commit = NULL;
    char hex[GIT_OID_HEXSZ + 1];
    if (git_commit_lookup(&commit, cut->repo, oid) < 0 ||
        git_packbuilder_insert(cut->builder, oid, NULL) < 0)
        fatal_git("commit");
    unsigned parents = git_commit_parentcount(commit);
    add_tree(cut, git_commit_tree_id(commit), 0);
    for (unsigned i = 0; i < parents && !last; i++) {
        const git_oid *parent = git_commit_parent_id(commit, i);
        if (meet(&cut->met, parent))
            level_add(next, parent);
    }
    if (last && parents > 0)
        json_array_append_new(cut->shallow, json_string(git_oid_tostr(hex, sizeof hex, oid)));
    git_commit_free(commit);
}

/* Tag objects lead to the tip and have to be there, too. */
static void add_tags(struct cut *cut, const json_t *refs)
{
    size_t i;
    json_t *ref;
    json_array_foreach(refs, i, ref)
    {
        git_object *object = NULL, *next = NULL;
        git_oid oid;
        if (git_oid_fromstr(&oid, json_string_value(json_array_get(ref, 1))) < 0 ||
            git_object_lookup(&object, cut->repo, &oid, GIT_OBJECT_ANY) < 0)
            fatal_git("tag");
        while (git_object_type(object) == GIT_OBJECT_TAG) {
            if (git_packbuilder_insert(cut->builder, git_object_id(object), NULL) < 0 ||
                git_tag_target(&next, (git_tag *)object) < 0)
                fatal_git("tag");
            git_object_free(object);
            object = next;
        }
        git_object_free(object);
    }
}

static void tip_of(const struct source *source, git_oid *oid)
{
    const json_t *checkout = json_object_get(source->info, "checkout");
    git_object *object = NULL, *commit = NULL;
    if (git_oid_fromstr(oid, json_string_value(json_object_get(checkout, "oid"))) < 0 ||
        git_object_lookup(&object, source->repo, oid, GIT_OBJECT_ANY) < 0 ||
        git_object_peel(&commit, object, GIT_OBJECT_COMMIT) < 0)
        fatal_git("last commit");
    *oid = *git_object_id(commit);
    git_object_free(commit);
    git_object_free(object);
}

void depth_pack(struct source *source, int depth, const char *to)
{
    struct cut cut = {.repo = source->repo, .shallow = json_array()};
    struct level level = {0};
    git_oid tip;
    if (git_packbuilder_new(&cut.builder, source->repo) < 0)
        fatal_git("pack");
    git_packbuilder_set_threads(cut.builder, 0);
    tip_of(source, &tip);
    meet(&cut.met, &tip);
    level_add(&level, &tip);
    for (int i = 1; i <= depth && level.count > 0; i++) {
        struct level next = {0};
        for (size_t j = 0; j < level.count; j++)
            add_commit(&cut, &level.commits[j], i == depth, &next);
        free(level.commits);
        level = next;
    }
    free(level.commits);
    add_tags(&cut, json_object_get(source->info, "refs"));
    if (git_packbuilder_write(cut.builder, to, 0444, NULL, NULL) < 0)
        fatal_git("pack");
    git_packbuilder_free(cut.builder);
    free(cut.met.slots);
    free(cut.met.used);
    json_object_set_new(source->info, "shallow", cut.shallow);
}
