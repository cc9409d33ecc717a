// What the tests share: the SDK's client, bound to the container API of one sandbox.
import assert from "node:assert/strict";
import http from "node:http";
import { Readable } from "node:stream";
import { parseSSEStream, SandboxClient } from "@cloudflare/sandbox";

const origin = new URL(process.env.SANDPIT_URL);
await fetch(`${origin}sandbox/sdk/exec`, { method: "POST", body: '["true"]' });
const { containerUrl } = await fetch(`${origin}cdn-cgi/local/sandboxes/sdk`).then((answer) => answer.json());

// Answers are passed on as they come. The name below localhost goes into the Host header: not every resolver
// knows it.
const containerFetch = (url, init = {}) =>
  new Promise((resolve, reject) => {
    const { pathname, search } = new URL(url);
    const headers = { ...Object.fromEntries(new Headers(init.headers)), host: new URL(containerUrl).host };
    const where = { host: "127.0.0.1", port: origin.port, path: pathname + search, method: init.method ?? "GET" };
    const request = http.request({ ...where, headers, agent: false }, (response) =>
      resolve(new Response(Readable.toWeb(response), { status: response.statusCode, headers: response.headers })));
    request.on("error", reject);
    init.signal?.addEventListener("abort", () => request.destroy(init.signal.reason));
    request.end(init.body);
  });

export const client = new SandboxClient({ stub: { containerFetch }, port: 3000 });

// For assert.rejects: the error is of the SDK's class of this name, and has these fields.
export const named = (name, fields = {}) => (error) => {
  assert.equal(error.constructor.name, name, `${error.constructor.name}: ${error.message}`);
  for (const [key, value] of Object.entries(fields)) assert.deepEqual(error[key], value);
  return true;
};

// All events of a stream, as the SDK's parser gives them.
export const events = async (stream) => {
  const all = [];
  for await (const event of parseSSEStream(await stream)) all.push(event);
  return all;
};

export const text = (list, type) =>
  list.filter((event) => event.type === type).map((event) => event.data).join("");
