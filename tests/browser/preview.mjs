// A headless browser loads a page through previews and tells the page's server what it saw: assets, a
// module, cookies, server-sent events, a WebSocket; by host name and by path.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

const { SANDPIT, BROWSER, SCRATCH } = process.env;
const here = new URL('.', import.meta.url).pathname;
const children = [];

function start(command, args, options) {
  const child = spawn(command, args, { stdio: 'ignore', ...options });
  children.push(child);
  return child;
}

async function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await new Promise((done) => child.once('exit', done));
}

async function emulator() {
  const child = start(SANDPIT, ['dev', SCRATCH, '--port', '0', '--ephemeral', '--ready-fd', '3', '--log-level', 'warn'], {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    env: { ...process.env, XDG_RUNTIME_DIR: SCRATCH },
  });
  return await new Promise((done, failed) => {
    child.stdio[3].once('data', (data) => done({ child, url: data.toString().trim() }));
    child.once('exit', () => failed(new Error('the emulator did not start')));
  });
}

async function call(url, method, ...args) {
  const response = await fetch(`${url}/sandbox/web/${method}`, {
    method: 'POST',
    body: JSON.stringify(args),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(`${method}: ${JSON.stringify(body)}`);
  return body;
}

// What the page told its server, within 30 s.
async function told(url, which) {
  for (let i = 0; i < 300; i++) {
    const { content } = await call(url, 'readFile', `/tmp/seen-${which}.json`).catch(() => ({}));
    if (content) return JSON.parse(content);
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`the page told nothing (${which})`);
}

async function browse(page, check) {
  const browser = start(BROWSER, [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--no-proxy-server',
    `--user-data-dir=${SCRATCH}/profile`, page,
  ]);
  try {
    await check();
  } finally {
    browser.kill('SIGKILL');
    await ended(browser);
  }
}

let failures = 0;
function expect(what, wanted, got) {
  const same = JSON.stringify(wanted) === JSON.stringify(got);
  if (!same) failures++;
  console.log(`${same ? 'ok' : 'FAILED'} ${what}${same ? '' : `: ${JSON.stringify(got)}`}`);
}

async function main() {
  const { child, url } = await emulator();
  await call(url, 'writeFile', '/workspace/page.cjs', readFileSync(`${here}/page.cjs`, 'utf8'));
  await call(url, 'startProcess', 'node page.cjs', { processId: 'page' });
  await call(url, 'waitForPort', 'page', 8080, { timeout: 20000, interval: 100 });
  const exposed = await call(url, 'exposePort', 8080, { token: 'tok' });
  await browse(`${exposed.url}?as=host`, async () => {
    const seen = await told(url, 'host');
    expect('a style sheet is applied', 'rgb(1, 2, 3)', seen.colour);
    expect('a picture is shown', 2, seen.width);
    expect('a module runs', 'module', seen.module);
    expect('cookies come back', 'a=1; b=2', seen.cookie);
    expect('a redirect is followed', '/landed', seen.landed);
    expect('events arrive', ['one', 'two'], seen.events);
    expect('a WebSocket echoes', 'hello', seen.echo);
    expect('its Host is that of other requests', seen.plainHost, seen.socketHost);
    expect('a large body comes whole', 3000000, seen.large);
    expect('the control API is out of reach', 'refused', seen.control);
  });
  await browse(`${exposed.pathUrl}?as=path`, async () => {
    const seen = await told(url, 'path');
    expect('by path: a style sheet is applied', 'rgb(1, 2, 3)', seen.colour);
    expect('by path: events arrive', ['one', 'two'], seen.events);
    expect('by path: a WebSocket echoes', 'hello', seen.echo);
    expect('by path: the control API is out of reach', 'refused', seen.control);
  });
  child.kill('SIGTERM');
  await ended(child);
  expect('the emulator ends cleanly', 0, child.exitCode);
}

main()
  .catch((error) => {
    console.log(`FAILED ${error.stack}`);
    failures++;
  })
  .finally(() => {
    for (const child of children) child.kill('SIGKILL');
    process.exit(failures ? 1 : 0);
  });
