// vite's dev server in a sandbox, behind a preview: a page changes by the WebSocket when its files are
// written through the API. Seen by a bare client, and by a browser where there is one.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { browse, call, expect, main, told, upload } from './shared.mjs';

const { BROWSER, PACKAGES } = process.env;
const files = ['index.html', 'main.js', 'text.js', 'style.css', 'vite.config.js', 'package.json'];

async function start(url) {
  for (const file of files)
    await call(url, 'writeFile', `/workspace/${file}`, readFileSync(new URL(`vite/${file}`, import.meta.url), 'utf8'));
  await upload(url, '/tmp/packages.tar', readFileSync(PACKAGES));
  const { exitCode, stderr } = await call(url, 'exec', 'tar -xf /tmp/packages.tar -C /workspace');
  if (exitCode) throw new Error(stderr);
  await call(url, 'startProcess', 'node_modules/.bin/vite --strictPort', { processId: 'vite' });
  await call(url, 'waitForPort', 'vite', 5173, { timeout: 30000, interval: 100, path: '/@vite/client' });
  await told(url, 'watching');
  return call(url, 'exposePort', 5173, { token: 'tok' });
}

// Not every resolver knows names below localhost: connects to the emulator, and names the preview as Host.
function asked(preview, path, headers) {
  const { host, port } = new URL(preview);
  return http.request({ host: '127.0.0.1', port, path, headers: { host, ...headers } });
}

function get(preview, path) {
  return new Promise((done, failed) => {
    const request = asked(preview, path, {});
    request.on('error', failed);
    request.on('response', async (response) => {
      let text = '';
      for await (const piece of response) text += piece;
      done({ status: response.statusCode, text });
    });
    request.end();
  });
}

// The whole frames at the start of the bytes, and what is left. Those of a server are not masked.
function frames(bytes) {
  const found = [];
  for (;;) {
    const wide = bytes.length > 1 && bytes[1] == 126;
    const from = wide ? 4 : 2;
    if (bytes.length < from) return { found, bytes };
    const end = from + (wide ? bytes.readUInt16BE(2) : bytes[1]);
    if (bytes.length < end) return { found, bytes };
    found.push({ isText: (bytes[0] & 15) == 1, data: bytes.subarray(from, end) });
    bytes = bytes.subarray(end);
  }
}

// The JSON of each text frame. The first may have come together with the answer's head.
async function* messages(socket, head) {
  let rest = head;
  async function* pieces() {
    yield Buffer.alloc(0);
    yield* socket;
  }
  for await (const piece of pieces()) {
    const { found, bytes } = frames(Buffer.concat([rest, piece]));
    rest = bytes;
    for (const { isText, data } of found) if (isText) yield JSON.parse(data);
  }
}

// The first message of the type.
async function heard(stream, type) {
  for (;;) {
    const { value, done } = await stream.next();
    if (done) throw new Error(`the WebSocket ended before ${type}`);
    if (value.type == type) return value;
  }
}

// vite's own protocol, without a page.
async function byHand(url, preview) {
  const page = await get(preview, '/');
  expect('the page is served', [200, true], [page.status, page.text.includes('/@vite/client')]);
  const client = await get(preview, '/@vite/client');
  const token = /wsToken = "([^"]+)"/.exec(client.text)[1];
  for (const path of ['/main.js', '/text.js']) await get(preview, path); // vite watches what was asked for
  const request = asked(preview, `/?token=${token}`, {
    connection: 'Upgrade', upgrade: 'websocket', origin: new URL(preview).origin,
    'sec-websocket-version': 13, 'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': 'vite-hmr',
  });
  const { socket, head, answer } = await new Promise((done, failed) => {
    request.on('upgrade', (answer, socket, head) => done({ answer, socket, head }));
    request.on('response', (answer) => failed(new Error(`no upgrade: ${answer.statusCode}`)));
    request.on('error', failed);
    request.end();
  });
  expect('vite speaks its protocol', 'vite-hmr', answer.headers['sec-websocket-protocol']);
  socket.setTimeout(30000, () => socket.destroy(new Error('the WebSocket says nothing')));
  const stream = messages(socket, head);
  await heard(stream, 'connected');
  await call(url, 'writeFile', '/workspace/text.js', "export const text = 'second';\n");
  const { updates } = await heard(stream, 'update');
  expect('a written file is an update', ['/main.js', '/text.js'], [updates[0].path, updates[0].acceptedPath]);
  const { text } = await get(preview, `/text.js?t=${updates[0].timestamp}`);
  expect('which has the new text', true, text.includes('second'));
  socket.destroy();
}

async function inBrowser(url, preview) {
  await browse(preview, async () => {
    const first = await told(url, 0);
    expect('a browser shows the page', ['second', 'rgb(1, 2, 3)'], [first.text, first.colour]);
    await call(url, 'writeFile', '/workspace/text.js', "export const text = 'third';\n");
    const second = await told(url, 1);
    expect('a module is changed under the page', ['third', first.born], [second.text, second.born]);
    await call(url, 'writeFile', '/workspace/style.css', 'p { color: rgb(4, 5, 6) }\n');
    const third = await told(url, 2);
    expect('a style sheet is changed under the page', ['third', 'rgb(4, 5, 6)', first.born], [third.text, third.colour, third.born]);
  });
}

await main(async (url) => {
  const exposed = await start(url);
  await byHand(url, exposed.url);
  if (BROWSER) await inBrowser(url, exposed.url);
});
