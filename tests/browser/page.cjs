// The server in the sandbox, and the page that it serves.
const http = require('http');
const crypto = require('crypto');
const fs = require('fs');

const page = `<!doctype html><title>page</title><link rel="stylesheet" href="style.css">
<body><p id="p">text</p><img id="i" src="dot.png"><script type="module">
import { name } from './module.js';
const here = new URL('.', location);
const seen = { module: name };
await new Promise((done) => addEventListener('load', done));
seen.colour = getComputedStyle(document.getElementById('p')).color;
seen.width = document.getElementById('i').naturalWidth;
seen.events = await new Promise((done) => {
  const got = [], source = new EventSource(new URL('events', here));
  source.onmessage = ({ data }) => { got.push(data); if (got.length == 2) { source.close(); done(got); } };
  source.onerror = () => done(got);
});
const socket = new URL('socket', here);
socket.protocol = 'ws:';
[seen.socketHost, seen.echo] = await new Promise((done) => {
  const got = [], ws = new WebSocket(socket);
  ws.onopen = () => ws.send('hello');
  ws.onmessage = ({ data }) => { got.push(data); if (got.length == 2) { ws.close(); done(got); } };
  ws.onerror = () => done(['error', 'error']);
});
const text = async (path) => (await fetch(new URL(path, here))).text();
try { seen.cookie = await text('cookie'); } catch { seen.cookie = 'none'; }
try { seen.plainHost = await text('host'); } catch { seen.plainHost = 'none'; }
try { seen.landed = await text('move'); } catch { seen.landed = 'none'; }
try { seen.large = (await text('large')).length; } catch { seen.large = 0; }
const control = new URL('/cdn-cgi/local/sandboxes', 'http://localhost:' + location.port);
try {
  const answer = await fetch(control);
  seen.control = answer.ok ? 'reached' : 'refused';
} catch { seen.control = 'refused'; }
await fetch(new URL('told' + location.search, here), { method: 'POST', mode: 'no-cors', body: JSON.stringify(seen) });
</script>`;

// A picture of two by two.
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGNgYGD4D8UMUAoAH+4D/c7xV9EAAAAASUVORK5CYII=',
  'base64'
);

const rows = {
  '/': ['text/html', page],
  '/style.css': ['text/css', 'p { color: rgb(1, 2, 3) }'],
  '/module.js': ['text/javascript', "export const name = 'module';"],
  '/dot.png': ['image/png', png],
  '/landed': ['text/plain', '/landed'],
  '/large': ['text/plain', 'x'.repeat(3000000)],
};

function told(request, response) {
  const as = new URL(request.url, 'http://x').searchParams.get('as');
  let body = '';
  request.on('data', (data) => (body += data));
  request.on('end', () => {
    fs.writeFileSync(`/tmp/seen-${as}.new`, body);
    fs.renameSync(`/tmp/seen-${as}.new`, `/tmp/seen-${as}.json`);
    response.end();
  });
}

const server = http.createServer((request, response) => {
  const path = request.url.split('?')[0];
  // By path the page is of no origin, so everything it asks for is another one's.
  response.setHeader('Access-Control-Allow-Origin', request.headers.origin || '*');
  if (path == '/told') return told(request, response);
  if (path == '/host') return response.end(request.headers.host);
  if (path == '/cookie') return response.end(request.headers.cookie || 'none');
  if (path == '/move') return response.writeHead(302, { location: '/landed' }).end();
  if (path == '/events') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: one\n\n');
    return setTimeout(() => response.end('data: two\n\n'), 50);
  }
  if (path == '/') response.setHeader('Set-Cookie', ['a=1', 'b=2; HttpOnly']);
  const row = rows[path];
  if (!row) return response.writeHead(404).end();
  response.writeHead(200, { 'content-type': row[0] }).end(row[1]);
});

const frame = (text) => Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);

// Tells its Host, then echoes short texts.
server.on('upgrade', (request, socket) => {
  const accept = crypto
    .createHash('sha1')
    .update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11')
    .digest('base64');
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`
  );
  socket.write(frame(request.headers.host));
  socket.on('data', (data) => {
    if ((data[0] & 15) != 1) return socket.end();
    const size = data[1] & 127;
    const text = data.subarray(6, 6 + size).map((byte, i) => byte ^ data[2 + (i & 3)]);
    socket.write(frame(Buffer.from(text).toString()));
  });
  socket.on('error', () => {});
});
server.listen(8080);
