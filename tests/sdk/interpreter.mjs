import assert from "node:assert/strict";
import test from "node:test";
import { client, events, named } from "./client.mjs";

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
  const streamed = await events(client.interpreter.streamCode(context.id, "x * 2", "javascript"));
  assert.deepEqual(streamed, [
    { type: "result", text: "40", metadata: {} },
    { type: "execution_complete", execution_count: 1 },
  ]);
  assert.ok((await client.interpreter.listCodeContexts()).some(({ id }) => id === context.id));
  await client.interpreter.deleteCodeContext(context.id);
  await assert.rejects(client.interpreter.deleteCodeContext(context.id), named("ContextNotFoundError"));
  await assert.rejects(run("1"), (error) => named("ContextNotFoundError")(error) && /not found/.test(error.message));
});

test("python keeps its state from run to run", async (t) => {
  const { exitCode } = await client.commands.execute("command -v python3", "s1");
  if (exitCode !== 0) return t.skip("python3 is not on this host");
  const context = await client.interpreter.createCodeContext({ language: "python" });
  const results = [];
  const run = (code) =>
    client.interpreter.runCodeStream(context.id, code, "python", { onResult: (result) => results.push(result) });
  await run("n = 20");
  await run("n + 1");
  await run("{'a': [n]}");
  assert.equal(results[0].text, "21");
  assert.deepEqual(results[1].json, { a: [20] });
  await client.interpreter.deleteCodeContext(context.id);
});
