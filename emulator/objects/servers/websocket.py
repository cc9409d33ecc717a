"""The three WebSocket servers that POST /api/init starts, for images without node:
`python3 websocket.py NAME PORT`, where NAME is echo, code (runs Python and sends its output as it
comes) or terminal (runs a shell command). Standard library only."""
import asyncio
import base64
import codecs
import hashlib
import json
import os
import struct
import sys
import tempfile
import time

MESSAGE_MAX = 16 * 1024 * 1024
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def write(self, opcode, data):
        size = len(data)
        if size < 126:
            head = struct.pack(">BB", 0x80 | opcode, size)
        elif size < 65536:
            head = struct.pack(">BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 127, size)
        self.writer.write(head + data)
        await self.writer.drain()

    async def send(self, **value):
        value["timestamp"] = int(time.time() * 1000)
        await self.write(1, json.dumps(value).encode())

    async def frame(self):
        first, second = await self.reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self.reader.readexactly(8))
        if not second & 0x80 or size > MESSAGE_MAX:
            await self.write(8, struct.pack(">H", 1009 if second & 0x80 else 1002))
            raise EOFError
        mask = await self.reader.readexactly(4)
        data = await self.reader.readexactly(size)
        keys = (mask * (size // 4 + 1))[:size]
        plain = int.from_bytes(data, "big") ^ int.from_bytes(keys, "big")
        return first, plain.to_bytes(size, "big")

    async def messages(self):
        parts, kind, size = [], 1, 0
        while True:
            first, data = await self.frame()
            opcode = first & 0x0F
            if opcode == 8:
                await self.write(8, data[:2])
                return
            if opcode == 9:
                await self.write(10, data)
            elif opcode <= 2:
                kind = opcode or kind
                parts.append(data)
                size += len(data)
                if size > MESSAGE_MAX:
                    await self.write(8, struct.pack(">H", 1009))
                    return
                if first & 0x80:
                    yield kind, b"".join(parts)
                    parts, size = [], 0


async def run(arguments, output):
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE)

    async def pump(name, stream):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await stream.read(65536):
            await output(name, decoder.decode(data))

    await asyncio.gather(pump("stdout", process.stdout), pump("stderr", process.stderr))
    return await process.wait()


async def code(connection, data):
    if data.get("type") != "execute":
        return
    await connection.send(type="executing")
    with tempfile.NamedTemporaryFile("w", prefix="code_", suffix=".py") as file:
        file.write(str(data.get("code", "")))
        file.flush()
        exit_code = await run(
            [sys.executable, file.name],
            lambda name, text: connection.send(type=name, data=text))
    await connection.send(type="completed", exitCode=exit_code)


async def terminal(connection, data):
    if data.get("type") != "command":
        return
    text = {"stdout": "", "stderr": ""}

    async def output(name, piece):
        text[name] += piece

    await connection.send(type="executing", command=data.get("command"))
    exit_code = await run(["sh", "-c", str(data.get("command"))], output)
    await connection.send(type="result", **text, exitCode=exit_code)


async def serve(name, connection):
    if name == "code":
        await connection.send(type="ready", message="Code server ready")
    elif name == "terminal":
        await connection.send(type="ready", message="Terminal ready", cwd=os.getcwd())
    async for kind, message in connection.messages():
        if name == "echo":
            await connection.write(kind, message)
            continue
        try:
            await (code if name == "code" else terminal)(connection, json.loads(message))
        except (ValueError, AttributeError) as error:
            await connection.send(type="error", message=str(error))


async def connected(name, reader, writer):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.split(":", 1) for line in head.split("\r\n")[1:] if ":" in line)
        key = {k.lower(): v.strip() for k, v in fields.items()}.get("sec-websocket-key")
        if not key:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 18\r\n"
                         b"Connection: close\r\n\r\nExpected WebSocket")
            return
        accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        writer.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                      f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").encode())
        await serve(name, Connection(reader, writer))
    except (EOFError, OSError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def main(name, port):
    server = await asyncio.start_server(lambda r, w: connected(name, r, w), "0.0.0.0", int(port))
    print(f"{name} server on port {port}", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main(*sys.argv[1:3]))
