import assert from "node:assert/strict";
import test from "node:test";
import { client, named } from "./client.mjs";

test("sessions are made once and deleted", async () => {
  assert.equal((await client.utils.createSession({ id: "made", env: { B: "2" }, cwd: "/usr" })).success, true);
  assert.equal((await client.commands.execute("pwd; echo $B", "made")).stdout, "/usr\n2");
  await assert.rejects(client.utils.createSession({ id: "made" }), named("SessionAlreadyExistsError"));
  assert.equal((await client.utils.deleteSession("made")).sessionId, "made");
  await assert.rejects(client.utils.deleteSession("made"), named("SandboxError", { code: "INTERNAL_ERROR" }));
});

test("the container is alive and of the version that the SDK expects", async () => {
  assert.equal(await client.utils.ping(), undefined); // the original sends no message either
  assert.equal(await client.utils.getVersion(), "0.12.7");
});
