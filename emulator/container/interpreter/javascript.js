// Runs JavaScript and TypeScript for one context of the code interpreter. The emulator hands this file
// over in memory and keeps the process for as long as the context lives; `language` and `require` are
// given.
//
// A request is one line on the request pipe, "run SIZE" or "setup SIZE", with SIZE bytes in the shared
// memory. The answer is a line with the size of what then lies there: one JSON event a line, or "!NAME"
// for an error whose text is what the run wrote to standard error. What the code prints never passes
// here: descriptors 1 and 2 are pipes that the emulator reads.
"use strict";
const fs = require("fs");
const Module = require("module");
const net = require("net");
const util = require("util");
const vm = require("vm");

const ANSWERS = 7, REQUESTS = 8, SHARED = 9;

// Node's own parser; it lies behind --expose-internals, which children shall not inherit.
const acorn = load("internal/deps/acorn/acorn/dist/acorn");
process.execArgv = [];

function load(name) {
  try {
    return require(name);
  } catch {
    return null;
  }
}

// From code to a script.
//
// The original runs code in an async function, so that `await` works, and moves what is declared at the
// top level out of it, so that it stays for later runs: const, let, var and class become `let`, functions
// `var`. The last expression, or the value of the last declaration, is the result.

function namesOf(pattern, to) {
  switch (pattern?.type) {
    case "Identifier":
      to.add(pattern.name);
      break;
    case "ObjectPattern":
      for (const property of pattern.properties) namesOf(property.value ?? property.argument, to);
      break;
    case "ArrayPattern":
      for (const element of pattern.elements) namesOf(element, to);
      break;
    case "AssignmentPattern":
      namesOf(pattern.left, to);
      break;
    case "RestElement":
      namesOf(pattern.argument, to);
  }
}

// Each edit replaces [start, end) by text. They keep lines where they are.
function rewrite(code, tree) {
  const edits = [], lets = new Set(), functions = new Set();
  const put = (start, text, end = start) => edits.push({ start, end, text });
  const last = tree.body[tree.body.length - 1];
  let start = 0; // behind "use strict"
  for (const node of tree.body) {
    const give = node === last ? "return " : "";
    if (node.directive && start <= node.start && node !== last) start = node.end;
    switch (node.type) {
      case "VariableDeclaration":
        if (!["const", "let", "var"].includes(node.kind)) break;
        put(node.start, `;${give}(`, node.start + node.kind.length);
        for (const one of node.declarations) {
          namesOf(one.id, lets);
          put(one.start, "(");
          put(one.end, one.init ? ")" : " = undefined)");
        }
        put(node.declarations[node.declarations.length - 1].end, ");");
        break;
      case "ClassDeclaration":
        lets.add(node.id.name);
        put(node.start, `;${give}(${node.id.name} = `);
        put(node.end, ");");
        break;
      case "FunctionDeclaration":
        functions.add(node.id.name);
        if (give) put(node.end, `;return ${node.id.name};`);
        break;
      case "ExpressionStatement":
        if (!give) break;
        put(node.start, "return (");
        put(code[node.end - 1] === ";" ? node.end - 1 : node.end, ")");
    }
  }
  for (const name of lets) functions.delete(name);
  const assign = [...functions].map((name) => `this.${name} = ${name};`).join("");
  if (assign) edits.unshift({ start, end: start, text: `;${assign}` });
  return {
    declare: (lets.size ? `let ${[...lets].join(", ")};` : "") + (functions.size ? `var ${[...functions].join(", ")};` : ""),
    body: applyEdits(code, edits),
  };
}

function applyEdits(code, edits) {
  let text = "", at = 0;
  // The sort is stable: edits at one place stay in the order they were made.
  for (const edit of edits.sort((a, b) => a.start - b.start)) {
    text += code.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return text + code.slice(at);
}

function parse(code) {
  try {
    return acorn.parse(code, { ecmaVersion: "latest", sourceType: "script", allowAwaitOutsideFunction: true, allowHashBang: true });
  } catch {
    return null;
  }
}

let cells = 0;
let wrapperFrame; // of the function around the code, on a line that the code does not have

function compile(code, prefix = "", suffix = "") {
  wrapperFrame = `    at cell-${cells}:${code.split("\n").length + 1}:3`;
  return new vm.Script(prefix + code + suffix, {
    filename: `cell-${cells}`,
    columnOffset: -prefix.length,
    importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
}

// Without a tree (a syntax error, or syntax that only V8 knows) the code is its own script: V8 says what
// is wrong with it, or runs it.
function prepare(code) {
  const tree = parse(code);
  if (!tree) return { script: compile(code) };
  const { declare, body } = rewrite(code, tree);
  return { declare, script: compile(body, "(async () => {", "\n})()") };
}

// TypeScript: by node itself where it can, else by a package that is installed.

const PACKAGE_DIRECTORIES = ["/usr/local/lib/node_modules", "/usr/lib/node_modules", "/usr/share/nodejs"];

function find(name) {
  try {
    return require(require.resolve(name, { paths: [process.cwd(), ...PACKAGE_DIRECTORIES] }));
  } catch {
    return null;
  }
}

function findStripper() {
  if (Module.stripTypeScriptTypes) return (code) => Module.stripTypeScriptTypes(code, { mode: "transform" });
  const amaro = load("internal/deps/amaro/dist/index");
  if (amaro) return (code) => amaro.transformSync(code, { mode: "transform" }).code;
  const esbuild = find("esbuild");
  if (esbuild) return (code) => esbuild.transformSync(code, { loader: "ts", target: "esnext", logLevel: "silent" }).code;
  const typescript = find("typescript");
  if (typescript) return (code) => typescript.transpile(code, { target: "esnext", module: "esnext" });
  return null;
}

let stripper;

function strip(code) {
  stripper ??= findStripper();
  if (!stripper)
    throw new Error(
      `TypeScript needs node 22.6 or later (this is ${process.version}), or the npm package esbuild: npm install esbuild`);
  return stripper(code);
}

// The context of the code. `global` is that of this process, as in the original.

const context = vm.createContext({
  console, process, Buffer, global: globalThis,
  setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, queueMicrotask,
});

function enter(directory) {
  try {
    process.chdir(directory);
  } catch {
    return;
  }
  context.__dirname = process.cwd();
  context.__filename = `${process.cwd()}/index.js`;
  context.require = Module.createRequire(context.__filename);
}

// Running.

function stackOf(error) {
  if (typeof error?.stack !== "string") return `Uncaught ${util.inspect(error)}`;
  const lines = error.stack.split("\n").filter((line) => line !== wrapperFrame);
  // What called the code is ours.
  const ours = lines.findIndex((line) => /^ +at .*(node:vm|sandpit):\d/.test(line));
  return (ours < 0 ? lines : lines.slice(0, ours)).join("\n");
}

function resultOf(value) {
  let json;
  if (typeof value === "object" && value !== null) {
    try {
      json = JSON.stringify(value);
    } catch {
      // A circle or a BigInt: its text is better than nothing.
    }
  }
  return json === undefined
    ? `{"type":"result","text":${JSON.stringify(util.inspect(value))},"metadata":{}}`
    : `{"type":"result","json":${json},"metadata":{}}`;
}

function complain(error) {
  process.stderr.write(`${stackOf(error)}\n`);
}

function fail(name, error) {
  complain(error);
  return [`!${name}`];
}

async function runTypeScript(code) {
  try {
    code = strip(code);
  } catch (error) {
    return fail("TranspileError", { stack: error.message });
  }
  return run(code);
}

async function run(code) {
  cells++;
  try {
    const { declare, script } = prepare(code);
    if (declare) vm.runInContext(declare, context, { filename: `cell-${cells}` });
    const value = await script.runInContext(context);
    const lines = value === undefined ? [] : [resultOf(value)];
    return [...lines, '{"type":"execution_complete","execution_count":1}'];
  } catch (error) {
    return fail("ExecutionError", error);
  }
}

// The directory and variables of a context, for a process that may have been started before it.
function setup(text) {
  const { cwd, env } = JSON.parse(text);
  for (const [name, value] of Object.entries(env ?? {})) if (value !== null) process.env[name] = value;
  if (cwd) enter(cwd);
  return [];
}

// Requests.

// A pipe that is full takes the rest later.
function flushed(stream) {
  const waiting = stream.writableLength || stream._handle?.writeQueueSize;
  return waiting && !stream.destroyed ? new Promise((done) => stream.write("", done)) : undefined;
}

async function answer(lines) {
  await flushed(process.stdout);
  await flushed(process.stderr);
  const text = Buffer.from(lines.join("\n"));
  fs.ftruncateSync(SHARED, 0);
  for (let done = 0; done < text.length; ) done += fs.writeSync(SHARED, text, done, text.length - done, done);
  fs.writeSync(ANSWERS, `${text.length}\n`);
}

const kinds = { run: language === "typescript" ? runTypeScript : run, setup };

async function serve(line) {
  const [kind, size] = line.toString("latin1").split(" ");
  const text = Buffer.alloc(Number(size));
  fs.readSync(SHARED, text, 0, text.length, 0);
  await answer(await kinds[kind](text.toString()));
}

// What a timer throws shall not end the context.
process.on("uncaughtException", complain);
process.on("unhandledRejection", complain);

// The first of everything is slow.
enter(process.cwd());
process.stdout.write("");
process.stderr.write("");
run("await 1").then((lines) => {
  cells = 0;
  new net.Socket({ fd: REQUESTS, readable: true, writable: false }).on("data", serve).on("end", () => process.exit());
  answer([]);
});
