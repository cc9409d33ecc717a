import assert from "node:assert/strict";
import test from "node:test";
import { client, named } from "./client.mjs";

test("a clone and its failures are the SDK's", async () => {
  const commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m";
  await client.commands.execute(
    `git init -q -b trunk /workspace/origin && (cd /workspace/origin && ${commit} a && ${commit} b && git branch other)`, "s1");
  const checkout = (url, options) => client.git.checkout(url, "s1", options);
  const result = await checkout("file:///workspace/origin", { targetDir: "/workspace/cloned" });
  assert.equal(result.branch, "trunk");
  assert.equal(result.targetDir, "/workspace/cloned");
  const shallow = await checkout("file:///workspace/origin", { targetDir: "/workspace/shallow", branch: "other", depth: 1 });
  assert.equal(shallow.branch, "other");
  assert.equal((await client.commands.execute("git -C /workspace/shallow rev-list --count HEAD", "s1")).stdout, "1");
  await assert.rejects(checkout("/workspace/nothing"), named("GitError"));
  await assert.rejects(checkout("file:///workspace/origin", { targetDir: "/workspace/cloned" }), named("GitError"));
  await assert.rejects(checkout(""), named("InvalidGitUrlError"));
  await assert.rejects(checkout("/workspace/origin", { targetDir: "/workspace/t", timeoutMs: -1 }), /timeout/i);
});
