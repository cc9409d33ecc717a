// The real SDK's HTTP client against the container API of a sandbox: what it sends is understood, what
// it gets is what it expects, and errors become its own classes. Run by `run` beside this file.
import assert from "node:assert/strict";
import http from "node:http";
import test from "node:test";
import { SandboxClient, streamFile } from "@cloudflare/sandbox";

const origin = new URL(process.env.SANDPIT_URL);
const control = (path) => fetch(`${origin}cdn-cgi/local/${path}`).then((r) => r.json());
await fetch(`${origin}sandbox/sdk/exec`, { method: "POST", body: '["true"]' });
const { containerUrl } = await control("sandboxes/sdk");

// The name below localhost goes into the Host header: not every resolver knows it.
const containerFetch = (url, init = {}) =>
  new Promise((resolve, reject) => {
    const { pathname, search } = new URL(url);
    const request = http.request(
      { host: "127.0.0.1", port: origin.port, path: pathname + search, method: init.method ?? "GET",
        headers: { ...Object.fromEntries(new Headers(init.headers)), host: new URL(containerUrl).host } },
      (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () =>
          resolve(new Response(Buffer.concat(chunks), { status: response.statusCode, headers: response.headers })));
      });
    request.on("error", reject);
    request.end(init.body);
  });

const client = new SandboxClient({ stub: { containerFetch }, port: 3000 });
const named = (name) => (error) => {
  assert.equal(error.constructor.name, name, `${error.constructor.name}: ${error.message}`);
  return true;
};

test("a command gives its result", async () => {
  const result = await client.commands.execute("echo hi; echo no >&2; exit_code() { return 3; }; exit_code", "s1");
  assert.equal(result.stdout, "hi");
  assert.equal(result.stderr, "no");
  assert.equal(result.exitCode, 3);
  assert.equal(result.success, false);
});

test("options of a command arrive", async () => {
  const result = await client.commands.execute("pwd; echo $A", "s1", { cwd: "/tmp", env: { A: "it's" } });
  assert.equal(result.stdout, "/tmp\nit's");
  await assert.rejects(client.commands.execute("sleep 2", "s2", { timeoutMs: 100 }), named("CommandError"));
});

test("a shell that exits is the SDK's SessionTerminatedError", async () => {
  await assert.rejects(client.commands.execute("exit 7", "s3"), (error) => {
    named("SessionTerminatedError")(error);
    assert.equal(error.exitCode, 7);
    return true;
  });
  assert.equal((await client.commands.execute("echo back", "s3")).stdout, "back");
});

test("sessions are made once and deleted", async () => {
  assert.equal((await client.utils.createSession({ id: "made", env: { B: "2" }, cwd: "/usr" })).success, true);
  assert.equal((await client.commands.execute("pwd; echo $B", "made")).stdout, "/usr\n2");
  await assert.rejects(client.utils.createSession({ id: "made" }), named("SessionAlreadyExistsError"));
  assert.equal((await client.utils.deleteSession("made")).sessionId, "made");
});

test("files are written, read, listed, moved and deleted", async () => {
  const text = "héllo \"quotes\" \\ and\nlines\u0001\n".repeat(5000);
  await client.files.writeFile("/workspace/sdk/deep/a.txt", text, "s1");
  const read = await client.files.readFile("/workspace/sdk/deep/a.txt", "s1");
  assert.equal(read.content, text);
  assert.equal(read.encoding, "utf-8");
  await client.files.writeFile("/workspace/sdk/b.png", "iVBORw0KGgo=", "s1", { encoding: "base64" });
  assert.equal((await client.files.readFile("/workspace/sdk/b.png", "s1")).isBinary, true);
  await client.files.mkdir("/workspace/sdk/x/y", "s1", { recursive: true });
  const list = await client.files.listFiles("/workspace/sdk", "s1", { recursive: true });
  assert.deepEqual(list.files.map((file) => file.relativePath).sort(), ["b.png", "deep", "deep/a.txt", "x", "x/y"]);
  await client.files.moveFile("/workspace/sdk/b.png", "/workspace/sdk/x", "s1");
  await client.files.renameFile("/workspace/sdk/x/b.png", "/workspace/sdk/c.png", "s1");
  assert.equal((await client.files.exists("/workspace/sdk/c.png", "s1")).exists, true);
  await client.files.deleteFile("/workspace/sdk/c.png", "s1");
  assert.equal((await client.files.exists("/workspace/sdk/c.png", "s1")).exists, false);
});

test("a file stream is decoded by the SDK", async () => {
  await client.commands.execute("head -c 200000 /dev/urandom > /workspace/r.bin", "s1");
  const sizes = [];
  for await (const chunk of streamFile(await client.files.readFileStream("/workspace/r.bin", "s1"))) sizes.push(chunk.length);
  assert.equal(sizes.reduce((a, b) => a + b, 0), 200000);
});

test("file errors become the SDK's classes", async () => {
  await assert.rejects(client.files.readFile("/nope", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.deleteFile("/workspace", "s1"), named("FileSystemError"));
  await assert.rejects(client.files.listFiles("/etc/passwd", "s1"), named("FileSystemError"));
  await assert.rejects(client.files.writeFile("", "x", "s1"), named("ValidationFailedError"));
  await client.commands.execute("truncate -s 34000000 /workspace/large", "s1");
  await assert.rejects(client.files.readFile("/workspace/large", "s1"), named("FileTooLargeError"));
});

test("a clone and its failures are the SDK's", async () => {
  await client.commands.execute(
    "git init -q -b trunk /workspace/origin && cd /workspace/origin && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a", "s1");
  const result = await client.git.checkout("file:///workspace/origin", "s1", { targetDir: "/workspace/cloned" });
  assert.equal(result.branch, "trunk");
  assert.equal(result.targetDir, "/workspace/cloned");
  await assert.rejects(client.git.checkout("/workspace/nothing", "s1"), named("GitError"));
});

test("the container is the version that the SDK line expects", async () => {
  assert.match(await client.utils.getVersion(), /^0\.12\./);
});

test("code runs in contexts, and its events reach the callbacks", async () => {
  const context = await client.interpreter.createCodeContext({ language: "javascript", cwd: "/tmp" });
  assert.equal(context.language, "javascript");
  assert.ok(context.createdAt instanceof Date);
  const seen = { stdout: [], stderr: [], results: [], errors: [] };
  const run = (code) =>
    client.interpreter.runCodeStream(context.id, code, "javascript", {
      onStdout: (output) => seen.stdout.push(output.text),
      onStderr: (output) => seen.stderr.push(output.text),
      onResult: (result) => seen.results.push(result),
      onError: (error) => seen.errors.push(error),
    });
  await run('console.log("hi"); console.error("e"); const x = await Promise.resolve(20); x + 1');
  await run("({ y: x, cwd: process.cwd() })");
  await run('throw new Error("boom")');
  assert.deepEqual(seen.stdout, ["hi\n"]);
  assert.equal(seen.stderr[0], "e\n");
  assert.equal(seen.results[0].text, "21");
  assert.deepEqual(seen.results[1].json, { y: 20, cwd: "/tmp" });
  assert.match(seen.errors[0].message, /^Error: boom/);
  assert.ok((await client.interpreter.listCodeContexts()).some(({ id }) => id === context.id));
  await client.interpreter.deleteCodeContext(context.id);
  await assert.rejects(client.interpreter.deleteCodeContext(context.id), named("ContextNotFoundError"));
  await assert.rejects(run("1"), (error) => named("ContextNotFoundError")(error) && /not found/.test(error.message));
});
