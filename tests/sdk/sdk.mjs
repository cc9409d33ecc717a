// The real SDK's HTTP client against the container API of a sandbox: what it sends is understood, what it gets
// is what it expects, and errors become its own classes. Run by `run` beside this file.
import "./commands.mjs";
import "./sessions.mjs";
import "./files.mjs";
import "./processes.mjs";
import "./ports.mjs";
import "./git.mjs";
import "./interpreter.mjs";
