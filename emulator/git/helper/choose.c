/* Which references a clone has and which of them is checked out, by the rules of git clone. */
#include <stdio.h>
#include <string.h>

#include "git/helper/helper.h"

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

json_t *info_new(void)
{
    return json_pack("{s:[],s:{}}", "refs", "tips");
}

void info_add(json_t *info, const char *name, const git_oid *oid, const git_oid *peeled)
{
    char hex[GIT_OID_HEXSZ + 1];
    int valid = 0;
    bool wanted = has_prefix(name, "refs/heads/") || has_prefix(name, "refs/tags/");
    if (!wanted || git_reference_name_is_valid(&valid, name) < 0 || !valid)
        return;
    json_t *key = json_string(name); /* no name that is not UTF-8 */
    if (!key)
        return;
    git_oid_tostr(hex, sizeof hex, oid);
    json_array_append_new(json_object_get(info, "refs"), json_pack("[o,s]", key, hex));
    /* Where annotated tags lead. */
    git_oid_tostr(hex, sizeof hex, peeled ? peeled : oid);
    json_object_set_new(json_object_get(info, "tips"), name, json_string(hex));
}

static const char *ref_name(const json_t *ref)
{
    return json_string_value(json_array_get(ref, 0));
}

static const char *ref_oid(const json_t *ref)
{
    return json_string_value(json_array_get(ref, 1));
}

const char *info_oid(const json_t *info, const char *name)
{
    size_t i;
    json_t *ref;
    json_array_foreach(json_object_get(info, "refs"), i, ref)
    {
        if (strcmp(ref_name(ref), name) == 0)
            return ref_oid(ref);
    }
    return NULL;
}

static void check_out(json_t *info, const char *name, const char *oid)
{
    json_object_set_new(info, "checkout", json_pack("{s:s,s:s}", "ref", name, "oid", oid));
}

static bool try_name(json_t *info, const char *prefix, const char *name)
{
    char full[1024];
    if (snprintf(full, sizeof full, "%s%s", prefix, name) >= (int)sizeof full)
        return false;
    const char *oid = info_oid(info, full);
    if (oid)
        check_out(info, full, oid);
    return oid != NULL;
}

/* The server says where HEAD leads, or only which commit it is. */
static void choose_head(json_t *info)
{
    const char *head = json_string_value(json_object_get(info, "head"));
    const char *at = json_string_value(json_object_get(info, "headOid"));
    const char *oid = head ? info_oid(info, head) : NULL;
    if (oid) {
        check_out(info, head, oid);
        return;
    }
    json_object_del(info, "head");
    if (!at)
        return; /* HEAD leads to a branch that does not exist: nothing to check out */
    const char *master = info_oid(info, "refs/heads/master");
    if (master && strcmp(master, at) == 0) {
        check_out(info, "refs/heads/master", at);
        return;
    }
    size_t i;
    json_t *ref;
    json_array_foreach(json_object_get(info, "refs"), i, ref)
    {
        if (has_prefix(ref_name(ref), "refs/heads/") && strcmp(ref_oid(ref), at) == 0) {
            check_out(info, ref_name(ref), at);
            return;
        }
    }
    check_out(info, "HEAD", at);
}

/* A cut history has one branch, and the tags of its last commit. */
static void keep_single(json_t *info)
{
    json_t *checkout = json_object_get(info, "checkout"), *kept = json_array(), *ref;
    json_t *tips = json_object_get(info, "tips");
    const char *name = json_string_value(json_object_get(checkout, "ref"));
    const char *tip = json_string_value(json_object_get(tips, name));
    size_t i;
    json_array_foreach(json_object_get(info, "refs"), i, ref)
    {
        const char *leads = json_string_value(json_object_get(tips, ref_name(ref)));
        bool same = has_prefix(ref_name(ref), "refs/tags/") && tip && strcmp(leads, tip) == 0;
        if (same || strcmp(ref_name(ref), name) == 0)
            json_array_append(kept, ref);
    }
    json_object_set_new(info, "refs", kept);
    json_object_set_new(info, "single", json_string(name));
}

void choose_checkout(const struct request *request, json_t *info, int depth)
{
    const char *branch = request->branch;
    if (branch && !try_name(info, "refs/heads/", branch) && !try_name(info, "refs/tags/", branch))
        fatal("warning: Could not find remote branch %s to clone.\n"
              "fatal: Remote branch %s not found in upstream origin",
              branch, branch);
    if (!branch)
        choose_head(info);
    if (depth > 0 && json_object_get(info, "checkout"))
        keep_single(info);
}
