# Runs Python code for one context of the code interpreter. The emulator hands this file over in memory
# and keeps the process for as long as the context lives.
#
# A request is one line on the request pipe, "run SIZE" or "setup SIZE", with SIZE bytes in the shared
# memory. The answer is a line with the size of what then lies there: one JSON event a line. What the
# code prints never passes here: descriptors 1 and 2 are pipes that the emulator reads.
#
# With IPython its shell runs the code, as in the original. Without it, what follows does the same with
# the standard library only; "!command" and "%magic" are then syntax errors.
import ast
import base64
import builtins
import fcntl
import io
import json
import linecache
import os
import sys
import traceback
import types

CELLS_KEPT = 1000  # whose source tracebacks can show

# In the order of their results.
FORMATS = (
    ("image/png", "png", "_repr_png_"),
    ("image/jpeg", "jpeg", "_repr_jpeg_"),
    ("image/svg+xml", "svg", "_repr_svg_"),
    ("text/html", "html", "_repr_html_"),
    ("application/json", "json", "_repr_json_"),
    ("text/latex", "latex", "_repr_latex_"),
    ("text/markdown", "markdown", "_repr_markdown_"),
    ("application/javascript", "javascript", "_repr_javascript_"),
)


def private(fd):
    """Moves a descriptor out of the way of the code and of the processes it starts."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return copy


answers, requests, shared = private(7), private(8), private(9)


def open_stream(fd):
    """A text stream whose lines leave at once, so that they stay in order with those of children."""
    raw = io.BufferedWriter(io.FileIO(fd, "w", closefd=False), 65536)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


# Results.

events = []


def add(form, data):
    events.append({"type": "result", form: data, "metadata": {}})


def plain_data(mime, data):
    if isinstance(data, tuple):
        data = data[0]  # the rest is metadata
    if isinstance(data, (bytes, bytearray)):
        if mime.startswith("image/") and mime != "image/svg+xml":
            return base64.b64encode(data).decode("ascii")
        return bytes(data).decode("utf-8", "replace")
    if mime == "application/json":
        return json.loads(data) if isinstance(data, str) else json.loads(dump(data))
    return data.strip() if mime.startswith("image/") and isinstance(data, str) else data


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def add_formats(bundle):
    """One result for each format; how many there were."""
    before = len(events)
    for mime, form, _ in FORMATS:
        if bundle.get(mime) is None:
            continue
        try:
            data = plain_data(mime, bundle[mime])
            dump(data)
        except (TypeError, ValueError):
            continue
        add(form, data)
    return len(events) - before


def add_displayed(bundle):
    if not add_formats(bundle) and bundle.get("text/plain") is not None:
        add("text", str(bundle["text/plain"]))


def add_value(value, bundle):
    """The value of the last expression. One that JSON cannot hold raises TypeError, as in the original."""
    if isinstance(value, (dict, list)):
        try:
            add("json", json.loads(dump(value)))
            return
        except (ValueError, RecursionError):  # not a number, or a circle
            pass
    elif add_formats(bundle) and "text/html" not in bundle:
        return
    add("text", str(bundle.get("text/plain", "")))


def add_figures():
    """What matplotlib has open, as pictures; then it is closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if not pyplot or not hasattr(pyplot, "get_fignums"):
        return
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", bbox_inches="tight")
        add("png", base64.b64encode(picture.getvalue()).decode("ascii"))
    pyplot.close("all")


def error_event(error, names):
    """The frames above the code itself are ours and left out."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_globals is not names:
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace)).rstrip("\n").split("\n")
    return {"type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}


# The two ways to run code. run() gives (value, what describes it, error).


class Plain:
    def __init__(self):
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self.names = module.__dict__
        self.names.update(__builtins__=builtins, display=self.display)
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.cells = 0
        self.loop = None

    def run(self, code):
        try:
            body, last = self.compile(code)
        except (SyntaxError, ValueError, OverflowError) as error:
            # Not an error for the original either: the text is all that is told.
            print("".join(traceback.format_exception_only(type(error), error)), end="")
            return None, {}, None
        try:
            self.execute(body)
            value = self.execute(last) if last else None
            if value is None:
                return None, {}, None
            self.names["_"] = value
            bundle = self.bundle(value)
            text = bundle["text/plain"]
            print("Out[1]: " + ("\n" if "\n" in text else "") + text)
            return value, bundle, None
        except BaseException as error:
            print("\n".join(error_event(error, self.names)["traceback"]))
            return None, {}, error

    def compile(self, code):
        """What to execute, and the last expression by itself."""
        self.cells += 1
        name = f"<cell {self.cells}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        linecache.cache.pop(f"<cell {self.cells - CELLS_KEPT}>", None)
        tree = compile(code, name, "exec", self.flags | ast.PyCF_ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = compile(ast.Expression(tree.body.pop().value), name, "eval", self.flags, True)
        return compile(tree, name, "exec", self.flags, True), last

    def execute(self, code):
        value = eval(code, self.names)
        if not code.co_flags & 0x80:  # it has no await
            return value
        import asyncio

        if not self.loop or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(value)

    @staticmethod
    def bundle(value):
        """What the value says about itself. Methods are looked up in its class: an object that has
        every attribute means none of them."""
        kind = type(value)
        bundle = {}
        try:
            if hasattr(kind, "_repr_mimebundle_"):
                data = value._repr_mimebundle_(include=None, exclude=None)
                bundle.update(data[0] if isinstance(data, tuple) else data or {})
        except Exception:
            pass
        for mime, _, method in FORMATS:
            try:
                if mime not in bundle and hasattr(kind, method):
                    bundle[mime] = getattr(value, method)()
            except Exception:
                pass
        bundle.setdefault("text/plain", repr(value))
        return bundle

    def display(self, *values, raw=False, **_):
        for value in values:
            add_displayed(value if raw else self.bundle(value))


class Shell:
    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell.instance(config=config)
        self.shell.system = self.shell.system_raw  # the other way wants a terminal
        self.shell.display_pub.publish = lambda data, *_, **__: add_displayed(data)
        self.names = self.shell.user_module.__dict__
        self.shell.run_cell("None", silent=True)  # the first one is slow

    def run(self, code):
        outcome = self.shell.run_cell(code, store_history=False, silent=False)
        value = outcome.result
        if outcome.error_before_exec or outcome.error_in_exec or value is None:
            return None, {}, outcome.error_in_exec
        if isinstance(value, (dict, list)):
            return value, {"text/plain": repr(value)}, None
        return value, self.shell.display_formatter.format(value)[0], None


def choose():
    try:
        return Shell()
    except Exception:
        return Plain()


# Requests.


def run(code):
    value, bundle, error = engine.run(code)
    try:
        add_figures()
        if error is None and value is not None:
            add_value(value, bundle)
    except Exception as failure:
        error = failure
    if error is None:
        events.append({"type": "execution_complete", "execution_count": 1})
    else:
        events.append(error_event(error, engine.names))


def setup(text):
    """The directory and variables of a context, for a process that may have been started before it."""
    wanted = json.loads(text)
    for name, value in wanted.get("env", {}).items():
        if value is not None:
            os.environ[name] = value
    try:
        os.chdir(wanted.get("cwd", "."))
    except OSError:
        pass


def flush():
    for stream in {sys.stdout, sys.stderr, standard_output, standard_error}:
        try:
            stream.flush()
        except Exception:
            pass


def answer():
    text = "\n".join(map(dump, events)).encode("utf-8", "replace")
    events.clear()
    flush()
    os.ftruncate(shared, 0)
    done = 0
    while done < len(text):
        done += os.pwrite(shared, text[done:], done)
    os.write(answers, b"%d\n" % len(text))


def next_request():
    while True:
        try:
            return os.read(requests, 64)
        except Exception:
            pass  # a signal handler of the code raised it


def serve():
    pid = os.getpid()
    kinds = {b"run": run, b"setup": setup}
    answer()
    while True:
        line = next_request()
        if not line:
            return
        kind, size = line.split()
        kinds[kind](os.pread(shared, int(size), 0).decode("utf-8", "replace"))
        if os.getpid() != pid:  # the code forked, and this is the child
            flush()
            os._exit(0)
        answer()


os.environ.setdefault("MPLBACKEND", "Agg")
sys.argv = [""]
sys.stdout = sys.__stdout__ = standard_output = open_stream(1)
sys.stderr = sys.__stderr__ = standard_error = open_stream(2)
engine = choose()
sys.path.insert(0, "")  # taken away for our own imports; the directory of the code may hold a json.py
serve()
