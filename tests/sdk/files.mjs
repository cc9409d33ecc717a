import assert from "node:assert/strict";
import test from "node:test";
import { collectFile, streamFile } from "@cloudflare/sandbox";
import { client, named } from "./client.mjs";

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

test("encodings and hidden names are as asked", async () => {
  await client.files.writeFile("/workspace/enc/.hidden", "h", "s1");
  await client.files.writeFile("/workspace/enc/a.txt", "héllo\n", "s1");
  const read = await client.files.readFile("/workspace/enc/a.txt", "s1", { encoding: "base64" });
  assert.equal(read.content, "aMOpbGxvCg==");
  const names = async (options) =>
    (await client.files.listFiles("/workspace/enc", "s1", options)).files.map(({ name }) => name).sort();
  assert.deepEqual(await names(), ["a.txt"]);
  assert.deepEqual(await names({ includeHidden: true }), [".hidden", "a.txt"]);
});

test("a file stream is decoded by the SDK", async () => {
  await client.commands.execute("seq 99999 | gzip -n > /workspace/r.bin; sha256sum < /workspace/r.bin > /workspace/r.sum", "s1");
  const parts = [];
  for await (const chunk of streamFile(await client.files.readFileStream("/workspace/r.bin", "s1"))) parts.push(chunk);
  const digest = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.concat(parts))).toString("hex");
  assert.ok((await client.files.readFile("/workspace/r.sum", "s1", { encoding: "utf-8" })).content.startsWith(digest));
  await client.files.writeFile("/workspace/long.txt", "ä".repeat(100000), "s1");
  const { content, metadata } = await collectFile(await client.files.readFileStream("/workspace/long.txt", "s1"));
  assert.equal(content, "ä".repeat(100000));
  assert.equal(metadata.size, 200000);
  const missing = streamFile(await client.files.readFileStream("/workspace/missing", "s1"));
  await assert.rejects(missing.next(), /File not found: \/workspace\/missing/);
});

test("file errors become the SDK's classes", async () => {
  await assert.rejects(client.files.readFile("/nope", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.readFile("/tmp", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.deleteFile("/nope", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.renameFile("/nope", "/tmp/n", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.moveFile("/nope", "/tmp/n", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.listFiles("/nope", "s1"), named("FileNotFoundError"));
  await assert.rejects(client.files.mkdir("/workspace", "s1"), named("FileSystemError"));
  await assert.rejects(client.files.deleteFile("/workspace", "s1"), named("FileSystemError"));
  await assert.rejects(client.files.listFiles("/etc/passwd", "s1"), named("FileSystemError"));
  await assert.rejects(client.files.writeFile("", "x", "s1"), named("ValidationFailedError"));
  await client.commands.execute("truncate -s 34000000 /workspace/large", "s1");
  await assert.rejects(client.files.readFile("/workspace/large", "s1"), named("FileTooLargeError"));
});
