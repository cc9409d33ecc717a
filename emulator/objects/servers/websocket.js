// The three WebSocket servers that POST /api/init starts: `node websocket.js NAME PORT`, where NAME is
// echo, code (runs Python and sends its output as it comes) or terminal (runs a shell command). Only
// what node brings along.
'use strict';
const http = require('http');
const crypto = require('crypto');
const fs = require('fs');
const { spawn } = require('child_process');

const MESSAGE_MAX = 16 * 1024 * 1024;
const [name, port] = process.argv.slice(2);

class Connection {
  constructor(socket) {
    this.socket = socket;
    this.input = Buffer.alloc(0);
    this.parts = [];
    this.size = 0;
    socket.on('data', (data) => {
      this.input = this.input.length ? Buffer.concat([this.input, data]) : data;
      while (this.readFrame());
    });
    socket.on('error', () => socket.destroy());
  }

  write(opcode, data) {
    const head = Buffer.alloc(data.length < 126 ? 2 : data.length < 65536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    if (data.length < 126) {
      head[1] = data.length;
    } else if (data.length < 65536) {
      head[1] = 126;
      head.writeUInt16BE(data.length, 2);
    } else {
      head[1] = 127;
      head.writeBigUInt64BE(BigInt(data.length), 2);
    }
    if (!this.socket.writableEnded) this.socket.write(Buffer.concat([head, data]));
  }

  send(value) {
    const text = JSON.stringify({ ...value, timestamp: Date.now() });
    this.write(1, Buffer.from(text));
  }

  close(code) {
    const reason = Buffer.alloc(2);
    reason.writeUInt16BE(code);
    this.write(8, reason);
    this.socket.end();
  }

  // One frame from the input; false when it is not there yet.
  readFrame() {
    const input = this.input;
    if (input.length < 2) return false;
    let length = input[1] & 0x7f;
    let at = 2;
    if (length >= 126) {
      at += length === 126 ? 2 : 8;
      if (input.length < at) return false;
      length = at === 4 ? input.readUInt16BE(2) : Number(input.readBigUInt64BE(2));
    }
    if (!(input[1] & 0x80) || length + this.size > MESSAGE_MAX) {
      this.input = Buffer.alloc(0);
      this.close(input[1] & 0x80 ? 1009 : 1002);
      return false;
    }
    if (input.length < at + 4 + length) return false;
    const mask = input.subarray(at, at + 4);
    const data = Buffer.from(input.subarray(at + 4, at + 4 + length));
    for (let i = 0; i < data.length; i++) data[i] ^= mask[i & 3];
    this.input = input.subarray(at + 4 + length);
    this.take(input[0], data);
    return true;
  }

  take(first, data) {
    const opcode = first & 0x0f;
    if (opcode === 8) {
      this.write(8, data.subarray(0, 2));
      this.socket.end();
    } else if (opcode === 9) {
      this.write(10, data);
    } else if (opcode <= 2) {
      if (opcode) this.opcode = opcode;
      this.parts.push(data);
      this.size += data.length;
      if (!(first & 0x80)) return;
      const message = Buffer.concat(this.parts);
      this.parts = [];
      this.size = 0;
      serve[name].message(this, message, this.opcode);
    }
  }
}

function run(command, args, output, done) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of ['stdout', 'stderr']) {
    child[stream].setEncoding('utf8');
    child[stream].on('data', (text) => output(stream, text));
  }
  child.on('error', (error) => done(error, 127));
  child.on('close', (code) => done(null, code));
}

// What a message says; errors go to the client.
function request(connection, message, handle) {
  try {
    handle(JSON.parse(message.toString()));
  } catch (error) {
    connection.send({ type: 'error', message: error.message });
  }
}

const serve = {
  echo: {
    open() {},
    message: (connection, message, opcode) => connection.write(opcode, message),
  },
  code: {
    open: (connection) => connection.send({ type: 'ready', message: 'Code server ready' }),
    message: (connection, message) =>
      request(connection, message, (data) => {
        if (data.type !== 'execute') return;
        connection.send({ type: 'executing' });
        const file = `/tmp/code_${crypto.randomUUID()}.py`;
        fs.writeFileSync(file, String(data.code));
        let ended = false;
        run('python3', [file],
          (type, text) => connection.send({ type, data: text }),
          (error, exitCode) => {
            if (ended) return;
            ended = true;
            fs.rmSync(file, { force: true });
            if (error) connection.send({ type: 'error', message: error.message });
            else connection.send({ type: 'completed', exitCode });
          });
      }),
  },
  terminal: {
    open: (connection) =>
      connection.send({ type: 'ready', message: 'Terminal ready', cwd: process.cwd() }),
    message: (connection, message) =>
      request(connection, message, (data) => {
        if (data.type !== 'command') return;
        connection.send({ type: 'executing', command: data.command });
        const text = { stdout: '', stderr: '' };
        run('sh', ['-c', String(data.command)],
          (stream, piece) => { text[stream] += piece; },
          (error, exitCode) => connection.send({ type: 'result', ...text, exitCode }));
      }),
  },
};

const server = http.createServer((request, response) => {
  response.writeHead(400, { 'content-type': 'text/plain' });
  response.end('Expected WebSocket');
});
server.on('upgrade', (request, socket, first) => {
  const key = request.headers['sec-websocket-key'] || '';
  const accept = crypto.createHash('sha1')
    .update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.setNoDelay(true);
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n' +
    `Connection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  const connection = new Connection(socket);
  if (first.length) socket.unshift(first);
  serve[name].open(connection);
});
server.listen(Number(port), '0.0.0.0', () => console.log(`${name} server on port ${port}`));
