/* `sandpit methods`: the method section of docs/api.md, made from the table itself. */
#include <stdio.h>

#include "worker/methods.h"

#include "cli/commands.h"

enum { PAGE_BYTES_MAX = 4 << 20 };

int cmd_methods(int argc, char **argv)
{
    CLEANUP_BUF struct buf page = BUF_INIT(PAGE_BYTES_MAX);
    if (methods_markdown(&page) < 0) {
        fprintf(stderr, "sandpit methods: the table does not fit\n");
        return 1;
    }
    return fwrite(buf_text(&page), 1, page.size, stdout) == page.size ? 0 : 1;
}
