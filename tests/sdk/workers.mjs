// The SDK imports a module that exists only inside the Workers runtime. Its HTTP client needs the names,
// not what they do.
import { register } from "node:module";

const source = `
export class DurableObject {}
export class WorkerEntrypoint {}
export class RpcTarget {}
export const env = {};
export const exports = {};
export const tracing = { enterSpan: (name, fn, ...rest) => fn({ setAttribute() {} }, ...rest) };
`;
const module = "data:text/javascript," + encodeURIComponent(source);
// Bundlers add file endings that Node wants to see.
const hooks = `export async function resolve(specifier, context, next) {
  if (specifier === "cloudflare:workers") return { url: ${JSON.stringify(module)}, shortCircuit: true };
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!specifier.startsWith(".")) throw error;
    return next(specifier + ".js", context);
  }
}`;
register("data:text/javascript," + encodeURIComponent(hooks));
