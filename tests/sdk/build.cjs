// build.cjs SOURCES OUTPUT: the tests and the SDK as one file. The SDK imports modules that exist only inside
// the Workers runtime; ours stands in for all of them.
const path = require("node:path");
const { build } = require("esbuild");

const [sources, outfile] = process.argv.slice(2);
const workers = {
  name: "workers",
  setup: (host) =>
    host.onResolve({ filter: /^cloudflare:/ }, () => ({ path: path.join(sources, "workers.mjs") })),
};

build({
  entryPoints: [path.join(sources, "sdk.mjs")],
  outfile,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  logLevel: "warning",
  nodePaths: [process.env.NODE_PATH],
  plugins: [workers],
}).catch(() => process.exit(1));
