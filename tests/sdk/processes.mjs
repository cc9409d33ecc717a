import assert from "node:assert/strict";
import test from "node:test";
import { client, events, named, text } from "./client.mjs";

const ended = async (id) => (await events(client.processes.streamProcessLogs(id))).at(-1);

test("a process is started, listed, read and told apart from its end", async () => {
  const started = await client.processes.startProcess("echo out; echo err >&2; pwd; echo $P; (exit 4)", "s1", {
    processId: "first", cwd: "/usr", env: { P: "q r" }, encoding: "utf8", autoCleanup: true });
  assert.equal(started.processId, "first");
  assert.ok(started.pid > 1);
  const end = await ended("first");
  assert.equal(end.type, "exit");
  assert.equal(end.exitCode, 4);
  const { process } = await client.processes.getProcess("first");
  assert.equal(process.status, "failed");
  assert.equal(process.exitCode, 4);
  assert.ok(Date.parse(process.endTime) >= Date.parse(process.startTime));
  const logs = await client.processes.getProcessLogs("first");
  assert.equal(logs.stdout, "out\n/usr\nq r\n");
  assert.equal(logs.stderr, "err\n");
  const { processes } = await client.processes.listProcesses();
  assert.equal(processes.find(({ id }) => id === "first").status, "failed");
});

test("a log stream replays what was and goes on", async () => {
  await client.processes.startProcess("echo before; until [ -e /tmp/on ]; do sleep 0.02; done; echo after", "s1", { processId: "live" });
  const stream = events(client.processes.streamProcessLogs("live"));
  await client.commands.execute("touch /tmp/on", "s2b");
  const all = await stream;
  assert.equal(all[0].type, "process_info");
  assert.equal(all[0].command.startsWith("echo before"), true);
  assert.equal(text(all, "stdout"), "before\nafter\n");
  assert.equal(all.at(-1).exitCode, 0);
});

test("a process is killed, once", async () => {
  await client.processes.startProcess("sleep 300 & sleep 301", "s1", { processId: "long" });
  assert.equal((await client.processes.killProcess("long")).success, true);
  assert.equal((await client.processes.getProcess("long")).process.status, "killed");
  assert.equal((await client.commands.execute("pgrep -f 'sleep 30[01]' | wc -l", "s2b")).stdout.trim(), "0");
  await assert.rejects(client.processes.killProcess("long"), named("CommandNotFoundError"));
});

test("all processes are killed at once", async () => {
  for (const id of ["k1", "k2"]) await client.processes.startProcess("sleep 302", "s1", { processId: id });
  const { cleanedCount } = await client.processes.killAllProcesses();
  assert.ok(cleanedCount >= 2);
  assert.equal((await client.processes.getProcess("k2")).process.status, "killed");
});

test("process errors become the SDK's classes", async () => {
  await assert.rejects(client.processes.getProcess("nope"), named("ProcessNotFoundError"));
  await assert.rejects(client.processes.killProcess("nope"), named("ProcessNotFoundError"));
  await assert.rejects(client.processes.getProcessLogs("nope"), named("ProcessNotFoundError"));
  await assert.rejects(client.processes.streamProcessLogs("nope"), named("ProcessNotFoundError"));
  await assert.rejects(client.processes.startProcess(" ", "s1"), named("CommandError"));
});
