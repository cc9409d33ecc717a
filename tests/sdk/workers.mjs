// Stands in for `cloudflare:*`. The SDK's HTTP client needs the names, not what they do.
export class DurableObject {}
export class WorkerEntrypoint {}
export class RpcTarget {}
export const env = {};
export const exports = {};
export const tracing = { enterSpan: (name, run, ...rest) => run({ setAttribute() {} }, ...rest) };
