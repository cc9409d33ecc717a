/* docs/api.md is made from the tables, so that it cannot say what the code does not do. */
#include <string.h>

#include "worker/api.h"
#include "worker/methods.h"

static void add_signature(struct buf *to, const struct method_row *row)
{
    buf_addf(to, "`%s(", row->name);
    for (size_t i = 0; i < PARAMS_MAX && row->params[i].name; i++)
        buf_addf(to, "%s%s%s", i ? ", " : "", row->params[i].name,
                 row->params[i].required ? "" : "?");
    buf_addf(to, ")` → `%s`\n\n", row->result);
}

static void add_aliases(struct buf *to, const struct method_row *row)
{
    for (size_t i = 0; i < ALIASES_MAX && row->aliases[i]; i++)
        buf_addf(to, " Older name: `%s`.", row->aliases[i]);
}

static void add_params(struct buf *to, const struct method_row *row)
{
    if (!row->params[0].name)
        return;
    buf_adds(to, "| argument | type | | what |\n|---|---|---|---|\n");
    for (size_t i = 0; i < PARAMS_MAX && row->params[i].name; i++) {
        const struct param_row *param = &row->params[i];
        buf_addf(to, "| `%s` | %s | %s| %s |\n", param->name, arg_type_name(param->type),
                 param->required ? "required " : "", param->what);
        for (const struct option_row *option = param->options; option && option->name; option++)
            buf_addf(to, "| `%s.%s` | %s | | %s |\n", param->name, option->name,
                     arg_type_name(option->type), option->what);
    }
    buf_addc(to, '\n');
}

int methods_markdown(struct buf *to)
{
    int result = 0;
    for (const struct method_row *row = method_rows; row->name; row++) {
        buf_addf(to, "### %s\n\n%s", row->name, row->what);
        add_aliases(to, row);
        buf_adds(to, "\n\n");
        add_signature(to, row);
        add_params(to, row);
        /* A full buffer stays full, so the last result speaks for all. */
        if (row->upload)
            result = buf_addf(to,
                              "```sh\ncurl -T big.bin 'http://localhost:8787/sandbox/my-box/%s"
                              "?path=/workspace/big.bin'\n```\n\n",
                              row->name);
        else
            result =
                buf_addf(to, "```sh\ncurl http://localhost:8787/sandbox/my-box/%s -d '%s'\n```\n\n",
                         row->name, row->example);
    }
    return result < 0 ? result : 0;
}

int api_markdown(struct buf *to)
{
    int result = buf_adds(to, "| route | body | answer | method |\n|---|---|---|---|\n");
    for (const struct api_row *row = api_rows; row->method && result >= 0; row++) {
        bool upload = method_find(row->name)->upload;
        const char *body = upload ? "the bytes; the path in `X-File-Path`" : row->example;
        const char *quote = *body && !upload ? "`" : "";
        result = buf_addf(to, "| `%s %s` | %s%s%s | `%s` | %s |\n", row->method, row->path, quote,
                          body, quote, row->result, row->name);
    }
    return result < 0 ? result : 0;
}
