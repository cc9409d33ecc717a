#include "config/image.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char repository[] = "cloudflare/sandbox";

/* The tag of "registry:5000/a/b:tag@sha256:…", and the length of what stands before it. */
static const char *find_tag(const char *reference, size_t *name_length, size_t *tag_length)
{
    size_t length = strcspn(reference, "@");
    size_t colon = length;
    while (colon > 0 && reference[colon - 1] != ':' && reference[colon - 1] != '/')
        colon--;
    if (colon == 0 || reference[colon - 1] == '/') {
        *name_length = length;
        *tag_length = 0;
        return NULL;
    }
    *name_length = colon - 1;
    *tag_length = length - colon;
    return reference + colon;
}

static bool is_sandbox(const char *name, size_t length)
{
    size_t wanted = sizeof repository - 1;
    if (length < wanted || memcmp(name + length - wanted, repository, wanted) != 0)
        return false;
    return length == wanted || name[length - wanted - 1] == '/';
}

/* The length of a leading x.y or x.y.z, 0 when the tag starts with none. */
static size_t version_length(const char *tag, size_t length)
{
    size_t end = 0;
    size_t at = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = at;
        while (digits < length && isdigit((unsigned char)tag[digits]))
            digits++;
        if (digits == at)
            break;
        if (part > 0)
            end = digits;
        if (digits >= length || tag[digits] != '.')
            break;
        at = digits + 1;
    }
    return end;
}

struct image_facts image_facts(const char *reference)
{
    struct image_facts facts = {.version = "", .python = true};
    size_t name_length, tag_length;
    const char *tag = find_tag(reference, &name_length, &tag_length);
    facts.sandbox = is_sandbox(reference, name_length);
    if (!tag || !facts.sandbox)
        return facts;
    facts.opencode = memmem(tag, tag_length, "-opencode", 9) != NULL;
    size_t length = version_length(tag, tag_length);
    if (length == 0 || length >= sizeof facts.version)
        return facts;
    memcpy(facts.version, tag, length);
    int major = 0, minor = 0;
    if (sscanf(facts.version, "%6d.%6d", &major, &minor) == 2 && (major > 0 || minor > 5))
        facts.python = memmem(tag, tag_length, "-python", 7) != NULL;
    return facts;
}

void image_with(const char *reference, const char *version, const char *more, char *to, size_t size)
{
    size_t name_length, tag_length;
    const char *tag = find_tag(reference, &name_length, &tag_length);
    size_t length = tag ? version_length(tag, tag_length) : 0;
    if (length == 0)
        snprintf(to, size, "%s", reference);
    else
        snprintf(to, size, "%.*s%s%s%s", (int)(tag - reference), reference, version, more,
                 tag + length);
}
