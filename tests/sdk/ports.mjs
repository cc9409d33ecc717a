import assert from "node:assert/strict";
import test from "node:test";
import { client, events } from "./client.mjs";

const listen = (port, status = 200) =>
  `node -e 'require("http").createServer((q, a) => { a.statusCode = ${status}; a.end(); }).listen(${port})'`;

test("a port is watched until it answers", async () => {
  const watching = events(client.ports.watchPort({ port: 8123, mode: "http", path: "/up", interval: 100 }));
  await client.processes.startProcess(listen(8123, 204), "s1", { processId: "web" });
  assert.deepEqual(await watching, [
    { type: "watching", port: 8123 },
    { type: "ready", port: 8123, statusCode: 204 },
  ]);
  const tcp = await events(client.ports.watchPort({ port: 8123, mode: "tcp", processId: "web" }));
  assert.equal(tcp.at(-1).type, "ready");
  await client.processes.killProcess("web");
});

test("a watched port whose process ends or is unknown is told", async () => {
  await client.processes.startProcess("(exit 9)", "s1", { processId: "short" });
  const all = await events(client.ports.watchPort({ port: 8124, mode: "tcp", processId: "short", interval: 100 }));
  assert.deepEqual(all.at(-1), { type: "process_exited", port: 8124, exitCode: 9 });
  const unknown = await events(client.ports.watchPort({ port: 8124, mode: "tcp", processId: "nobody" }));
  assert.deepEqual(unknown.at(-1), { type: "error", port: 8124, error: "Process not found" });
});
