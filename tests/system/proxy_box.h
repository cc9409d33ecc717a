/* What the tests of forwarding share: a server in a sandbox that tells what it got, and raw
 * connections to the emulator. */
#ifndef SANDPIT_TESTS_PROXY_BOX_H
#define SANDPIT_TESTS_PROXY_BOX_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "counts.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static bool skipped __attribute__((unused));
static const char *token_line
    __attribute__((unused)); /* that start_server() and ask() send, or NULL */

/* What runs in the sandbox: tells what it got, and does what the path says. On 8090 it answers with
 * whatever bytes the request's query holds. */
static const char server_js[] =
    "const http=require('http'),net=require('net');let kept=0;"
    "const s=http.createServer((q,r)=>{const u=new URL(q.url,'http://x');"
    "if(u.pathname=='/echo'){r.writeHead(200,{'x-got':q.method});q.pipe(r);}"
    "else if(u.pathname=='/all'){let t='';q.on('data',d=>t+=d);q.on('end',()=>r.end(t));}"
    "else if(u.pathname=='/hang'){require('fs').writeFileSync('/tmp/hung','');}"
    "else if(u.pathname=='/events'){r.writeHead(200,{'content-type':'text/event-stream'});"
    "r.write('data: 1\\n\\n');setTimeout(()=>r.end('data: 2\\n\\n'),+u.searchParams.get('ms'));}"
    "else if(u.pathname=='/to'){r.writeHead(307,{location:'/seen?by=redirect'});r.end();}"
    "else if(u.pathname=='/hints'){r.writeEarlyHints({link:'</a.css>; rel=preload'});r.end('ok');}"
    "else if(u.pathname=='/trailers'){r.writeHead(200,{trailer:'X-Sum'});r.write('body');"
    "r.addTrailers({'X-Sum':'4'});r.end();}"
    "else if(u.pathname=='/bytes'){r.writeHead(200,{'content-type':'image/png','set-cookie':"
    "['a=1','b=2']});r.end(Buffer.from([0x89,0x50,0xff,0]));}"
    "else if(u.pathname=='/big'){const "
    "n=+u.searchParams.get('n');r.writeHead(200,{'content-length':"
    "n});let i=0;const b=Buffer.alloc(65536,'x');const w=()=>{while(i<n){const "
    "k=Math.min(65536,n-i);"
    "i+=k;if(!r.write(b.subarray(0,k)))return r.once('drain',w);}r.end();};w();}"
    "else{r.setHeader('content-type','application/json');r.end(JSON.stringify({method:q.method,"
    "url:q.url,headers:q.headers,sockets:kept}));}});"
    "s.on('connection',()=>kept++);"
    "s.on('upgrade',(q,c)=>{c.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: '+"
    "q.headers.upgrade+'\\r\\nConnection: Upgrade\\r\\nX-Url: '+q.url+'\\r\\nX-Host: "
    "'+q.headers.host+"
    "'\\r\\n\\r\\n');c.on('data',d=>c.write(d));c.on('end',()=>c.end());c.on('error',()=>0);});"
    "s.listen(8080);"
    "net.createServer(c=>{c.once('data',d=>{const m=/\\?(\\S*)/.exec(d.toString());"
    "c.end(Buffer.from(m?m[1]:'','hex'));});c.on('error',()=>0);}).listen(8090,()=>"
    "console.log('up'));";

/* Starts the server in a sandbox and waits until it answers; NULL, or what went wrong. */
static inline const char *start_server(const char *id)
{
    char path[128];
    CLEANUP_JSON json_t *write = json_pack("[s, s]", "/workspace/server.js", server_js);
    CLEANUP_FREE char *text = json_dumps(write, 0);
    snprintf(path, sizeof path, "/sandbox/%s/writeFile", id);
    CLEANUP_REPLY struct reply written = request(&emulator, "POST", path, token_line, text);
    if (written.status != 200)
        return keep(written.body);
    snprintf(path, sizeof path, "/sandbox/%s/exec", id);
    CLEANUP_REPLY struct reply run = request(
        &emulator, "POST", path, token_line,
        "[\"node server.js >log 2>&1 & for i in $(seq 200); do grep -q up log && exit 0; sleep "
        "0.05; done; cat log; exit 1\", {\"enableDefaultSession\": false}]");
    return number_at(run.json, "exitCode") == 0 ? NULL : keep(run.body);
}

static inline struct reply ask(const char *method, const char *id, const char *rest,
                               const char *body)
{
    char path[256];
    snprintf(path, sizeof path, "/sandbox/%s/proxy/%s", id, rest);
    return request(&emulator, method, path, token_line, body);
}

static inline long long inflight(const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", id);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return number_at(shown.json, "inflight");
}

static inline bool nothing_in_flight(void *id)
{
    return inflight(id) == 0;
}

static inline const char *state_of(const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", id);
    CLEANUP_REPLY struct reply shown = get(&emulator, path);
    return keep(text_at(shown.json, "state"));
}

/* Reads until the text is there, the other side closes, or 5 s pass. */
static inline bool reads(int fd, const char *text, char *to, size_t size)
{
    size_t got = 0;
    long long until = test_ms() + 5000;
    while (got + 1 < size && test_ms() < until) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 100) <= 0)
            continue;
        ssize_t n = recv(fd, to + got, size - 1 - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
        to[got] = '\0';
        if (strstr(to, text))
            return true;
    }
    return false;
}

/* Whether the other side has closed, within 5 s. */
static inline bool is_closed(int fd)
{
    char data[4096];
    long long until = test_ms() + 5000;
    while (test_ms() < until) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 100) > 0 && recv(fd, data, sizeof data, 0) <= 0)
            return true;
    }
    return false;
}

/* A connection that was upgraded; -1 when it was not. `head` gets the answer. */
static inline int upgrade(const char *path, const char *headers, char *head, size_t size)
{
    char text[1024];
    int fd = dial(&emulator);
    int length =
        snprintf(text, sizeof text,
                 "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: Upgrade\r\nUpgrade: "
                 "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                 "AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n",
                 path, emulator.port, headers ? headers : "");
    head[0] = '\0';
    if (fd >= 0 && send_all(fd, text, (size_t)length) == 0 && reads(fd, "\r\n\r\n", head, size) &&
        strncmp(head, "HTTP/1.1 101 ", 13) == 0)
        return fd;
    cleanup_fd(&fd);
    return -1;
}

static inline void advance(const char *by)
{
    char body[64];
    snprintf(body, sizeof body, "{\"by\": \"%s\"}", by);
    CLEANUP_REPLY struct reply r = post(&emulator, "/cdn-cgi/local/clock/advance", body);
}

#endif
