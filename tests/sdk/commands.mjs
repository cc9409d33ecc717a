import assert from "node:assert/strict";
import test from "node:test";
import { client, events, named, text } from "./client.mjs";

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
  await assert.rejects(client.commands.execute("exit 7", "s3"), named("SessionTerminatedError", { exitCode: 7 }));
  assert.equal((await client.commands.execute("echo back", "s3")).stdout, "back");
});

test("a streamed command tells its lines and its end", async () => {
  const command = "echo one; echo two >&2; pwd; echo $A; printf end; (exit 5)";
  const all = await events(client.commands.executeStream(command, "s1", { cwd: "/tmp", env: { A: "a b" } }));
  assert.equal(all[0].type, "start");
  assert.equal(all[0].command, command);
  assert.equal(text(all, "stdout"), "one\n/tmp\na b\nend\n");
  assert.equal(text(all, "stderr"), "two\n");
  assert.equal(all.at(-1).type, "complete");
  assert.equal(all.at(-1).exitCode, 5);
});

test("a streamed command that is blank is refused", async () => {
  await assert.rejects(client.commands.executeStream("  ", "s1"), named("CommandError"));
});

test("lines of a streamed command come while it runs", async () => {
  const stream = await client.commands.executeStream("echo first; until [ -e /tmp/go ]; do sleep 0.02; done; echo last", "s1");
  const reader = stream.getReader();
  let seen = "";
  while (!seen.includes("first")) seen += new TextDecoder().decode((await reader.read()).value);
  assert.ok(!seen.includes("last\\n"));
  await client.commands.execute("touch /tmp/go", "s2b");
  for (let part; !(part = await reader.read()).done;) seen += new TextDecoder().decode(part.value);
  assert.ok(seen.includes("last\\n") && seen.includes('"complete"'));
});
