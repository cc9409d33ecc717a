/* `sandpit methods`: docs/api.md, made from the tables that route the requests. */
#include <stdio.h>

#include "cli/commands.h"
#include "container/container.h"
#include "control/control.h"
#include "worker/api.h"
#include "worker/methods.h"
#include "worker/worker.h"

enum { PAGE_BYTES_MAX = 4 << 20 };

static const char head[] =
    "# The API\n\n"
    "This page is printed by `sandpit methods` from the tables that route the requests; a test "
    "compares the two.\n\n"
    "Four faces share one port, by default 8787:\n\n"
    "1. the [method route](#method-route) `POST /sandbox/{id}/{method}`: one call of an SDK "
    "method;\n"
    "2. the [`/api` routes](#api-routes), for suites and examples that use them;\n"
    "3. the [container's own API](#container-api), at the `containerUrl` of a sandbox;\n"
    "4. the [control API](#control-api) under `/cdn-cgi/local`.\n\n"
    "What errors look like is in [errors.md](errors.md), what differs from the original in "
    "[parity.md](parity.md).\n\n";

static const char method_route[] =
    "## Method route\n\n"
    "`POST /sandbox/{id}/{method}` with a JSON array of the method's arguments. An empty body is "
    "`[]`. `{id}` is percent-encoded; these may follow it:\n\n"
    "| query | meaning |\n|---|---|\n"
    "| `class=SandboxPython` | a class of the project; the first one is the default |\n"
    "| `normalizeId=1` | the id in lower case |\n"
    "| `keepAlive=1` or `0` | whether the sandbox sleeps when idle; remembered |\n"
    "| `sleepAfter=5m` | idle time until sleep: `30s`, `10m`, `2h`, or seconds; remembered |\n\n";

static const char api_routes[] =
    "## API routes\n\n"
    "A JSON object in the body; the sandbox in headers:\n\n"
    "| header | meaning |\n|---|---|\n"
    "| `X-Sandbox-Id` (or `?sandboxId=`) | the sandbox; without it `default` |\n"
    "| `X-Session-Id` | the session to run in |\n"
    "| `X-Sandbox-Type: python`, `X-Sandbox-Class`, `?class=` | the class: `SandboxPython`, or by "
    "name |\n"
    "| `X-Sandbox-KeepAlive: true` or `false` | absent = unchanged |\n"
    "| `X-Sandbox-Sleep-After: 5m` | absent = unchanged |\n"
    "| `X-Sandbox-Enable-Default-Session: false` | each call on its own |\n"
    "| `X-Sandbox-Transport` | accepted, changes nothing |\n\n";

static const char container_api[] =
    "\n## Container API\n\n"
    "What the SDK calls inside a container on port 3000, at the sandbox's `containerUrl` "
    "(`http://3000-{id}-{secret}.localhost:8787`, shown by `GET /cdn-cgi/local/sandboxes/{id}`). "
    "Clients that cannot resolve names below localhost send the name as their `Host` header.\n\n"
    "| route | operation |\n|---|---|\n";

static int add_container(struct buf *page)
{
    int result = buf_adds(page, container_api);
    for (const struct op *op = container_ops; op->name && result >= 0; op++) {
        if (*op->path == '/') /* others have no route of their own */
            result = buf_addf(page, "| `%s %s` | %s |\n", op->method, op->path, op->name);
    }
    return result;
}

int cmd_methods(int argc, char **argv)
{
    CLEANUP_BUF struct buf page = BUF_INIT(PAGE_BYTES_MAX);
    if (buf_adds(&page, head) < 0 || buf_adds(&page, method_route) < 0 ||
        methods_markdown(&page) < 0 || buf_adds(&page, api_routes) < 0 || api_markdown(&page) < 0 ||
        forward_markdown(&page) < 0 || add_container(&page) < 0 || buf_adds(&page, "\n## Control API\n\n") < 0 ||
        control_markdown(&page) < 0) {
        fprintf(stderr, "sandpit methods: the page does not fit\n");
        return 1;
    }
    return fwrite(buf_text(&page), 1, page.size, stdout) == page.size ? 0 : 1;
}
