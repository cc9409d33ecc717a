// What the tests with a browser share: an emulator of their own, calls of a sandbox's methods, pages.
import { spawn } from 'node:child_process';

const { SANDPIT, BROWSER, SCRATCH } = process.env;
const children = [];
let failures = 0;

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

async function answered(method, response) {
  const body = await response.json();
  if (!response.ok) throw new Error(`${method}: ${JSON.stringify(body)}`);
  return body;
}

export async function call(url, method, ...args) {
  const options = { method: 'POST', body: JSON.stringify(args) };
  return answered(method, await fetch(`${url}/sandbox/web/${method}`, options));
}

// A file of any size.
export async function upload(url, path, bytes) {
  const options = { method: 'PUT', body: bytes };
  return answered('writeFileStream', await fetch(`${url}/sandbox/web/writeFileStream?path=${path}`, options));
}

// What the page told its server under this name, within 30 s.
export async function told(url, name) {
  for (let i = 0; i < 300; i++) {
    const { content } = await call(url, 'readFile', `/tmp/seen-${name}.json`).catch(() => ({}));
    if (content) return JSON.parse(content);
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`the page told nothing (${name})`);
}

// Shows the page to a browser while check() runs.
export async function browse(page, check) {
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

export function expect(what, wanted, got) {
  const same = JSON.stringify(wanted) === JSON.stringify(got);
  if (!same) failures++;
  console.log(`${same ? 'ok' : 'FAILED'} ${what}${same ? '' : `: ${JSON.stringify(got)}`}`);
}

// Runs check(url) with an emulator, which must end cleanly, and ends this process.
export async function main(check) {
  try {
    const { child, url } = await emulator();
    await check(url);
    child.kill('SIGTERM');
    await ended(child);
    expect('the emulator ends cleanly', 0, child.exitCode);
  } catch (error) {
    console.log(`FAILED ${error.stack}`);
    failures++;
  }
  for (const child of children) child.kill('SIGKILL');
  process.exit(failures ? 1 : 0);
}
