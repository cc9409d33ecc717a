/* Who owns a request, and what the label of a preview may mean. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/owner.h"
#include "objects/port_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_domain(void *arg, struct span domain)
{
    return domain.size == 1;
}

static void split(const char *version, const char *label)
{
    const struct port_rules *rules = port_rules_of(version);
    struct label_split at;
    size_t last = SIZE_MAX;
    if (!label_begin(rules, label, &at))
        return;
    while (label_next(rules, &at)) {
        if (at.id_size == 0 || at.id_size >= last || at.token_size == 0 ||
            at.token + at.token_size != label + strlen(label))
            abort();
        last = at.id_size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;
    const struct refusal *fault;
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    struct preview_host host;
    struct error err = {0};
    char text[512];
    owner_rules_init(&rules, NULL, NULL);
    rules.previews = true;
    rules.has_domain = has_domain;
    if (head_check((const char *)data, size, &head, &fault) == HEAD_COMPLETE &&
        owner_find(&rules, &head, &answer, &why) && answer.owner == OWNER_PREVIEW) {
        if (strlen(answer.label) > HTTP_LABEL_MAX || !answer.path.at)
            abort();
        split(NULL, answer.label);
        split("0.7", answer.label);
    }
    size = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    split("0.7", text);
    if (preview_host_parse(text, &host, &err) == 0 && strlen(host.name) == 0)
        abort();
    return 0;
}
