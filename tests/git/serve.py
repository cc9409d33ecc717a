"""Git servers on free ports of loopback, for the tests: serve.py DIR prints three ports on one line.

1. smart HTTP by git http-backend; below /private/ with user:s3cret
2. git:// by git daemon
3. one that accepts and never says a word
"""
import base64
import http.server
import os
import socket
import subprocess
import sys
import threading

ROOT = sys.argv[1]
LOGIN = "Basic " + base64.b64encode(b"user:s3cret").decode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def serve(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        if path.startswith("/private/"):
            if self.headers.get("Authorization") != LOGIN:
                return self.reply(401, [("WWW-Authenticate", 'Basic realm="test"')], b"no")
            path = path[len("/private"):]
        env = dict(os.environ, GIT_PROJECT_ROOT=ROOT, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
                   QUERY_STRING=query, REQUEST_METHOD=self.command, REMOTE_ADDR="127.0.0.1",
                   CONTENT_TYPE=self.headers.get("Content-Type", ""),
                   HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""))
        out = subprocess.run(["git", "http-backend"], input=body, env=env, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value[:3])
            elif name:
                headers.append((name, value))
        self.reply(status, headers, rest)

    do_GET = do_POST = serve


def listen(each):
    door = socket.create_server(("127.0.0.1", 0))

    def run():
        while True:
            each(door.accept()[0])

    threading.Thread(target=run, daemon=True).start()
    return door.getsockname()[1]


def daemon(client):
    subprocess.Popen(["git", "daemon", "--inetd", "--export-all", "--base-path=" + ROOT, ROOT],
                     stdin=client, stdout=client, stderr=subprocess.DEVNULL)
    client.close()


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients that are killed in the middle


kept = []
web = Server(("127.0.0.1", 0), Handler)
print(web.server_address[1], listen(daemon), listen(kept.append), flush=True)
web.serve_forever()
