// ONNX Runtime's side of the comparison; the protocol is described in compare_peers.py.
//
// usage: node ort_peer.mjs THREADS MODELS
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import ort from 'onnxruntime-node';

const HEADS = 8;
const D = 64;
const [threads, models] = [Number(process.argv[2]), process.argv[3]];

// The same numbers in every peer: see `inputs` in torch_peer.py.
function value(seed, i) {
  let u = (Math.imul(i, 2654435761) + Math.imul(seed, 374761393)) >>> 0;
  u = Math.imul(u ^ (u >>> 15), 2246822519) >>> 0;
  u = (u ^ (u >>> 13)) >>> 0;
  return (u >>> 8) * 2 ** -22 - 2;
}

// Element (h, i, c) of [heads, n, d] stands at [i, h·d + c].
function tensor(seed, n) {
  const data = new Float32Array(HEADS * n * D);
  for (let h = 0; h < HEADS; ++h)
    for (let i = 0; i < n; ++i)
      for (let c = 0; c < D; ++c) data[(i * HEADS + h) * D + c] = value(seed, (h * n + i) * D + c);
  return new ort.Tensor('float32', data, [1, n, HEADS * D]);
}

function probe(y, n) {
  return Array.from({ length: 16 }, (_, j) => {
    const [h, i, c] = [j % HEADS, Math.floor((j * (n - 1)) / 15), (j * 7) % D];
    return y[(i * HEADS + h) * D + c];
  });
}

// A mechanism's graph is made for one length.
function graph({ n, causal, variant }) {
  return variant ? `${variant}-${n}.onnx` : causal ? 'gqa.onnx' : 'mha.onnx';
}

function open(name) {
  return ort.InferenceSession.create(join(models, name), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
}

async function prepareAttention({ n, causal, variant }) {
  const session = await open(graph({ n, causal, variant }));
  const feeds = { q: tensor(1, n), k: tensor(2, n), v: tensor(3, n) };
  if (causal) {
    feeds.last = new ort.Tensor('int32', Int32Array.of(n - 1), [1]);
    feeds.total = new ort.Tensor('int32', Int32Array.of(n), [1]);
  }
  return { session, run: async () => probe((await session.run(feeds, ['y'])).y.data, n) };
}

// As in model_weights.py.
const VOCAB = 1000;
function tokens(count) {
  return BigInt64Array.from({ length: count }, (_, i) => BigInt(Math.trunc(((value(7, i) + 2) / 4) * VOCAB)));
}

// Of [rows, columns].
function probeRows(x, rows, columns) {
  return Array.from({ length: 16 }, (_, j) => x[Math.floor((j * (rows - 1)) / 15) * columns + ((j * 7) % columns)]);
}

async function prepareEncoder({ layers, width, lengths }) {
  const [batch, n] = [lengths.length, Math.max(...lengths)];
  const masked = Math.min(...lengths) < n;
  const session = await open(`encoder-${width}x${layers}${masked ? '-masked' : ''}.onnx`);
  const feeds = { tokens: new ort.Tensor('int64', tokens(batch * n), [batch, n]) };
  if (masked) feeds.count = new ort.Tensor('int32', Int32Array.from(lengths), [batch]);
  const y = session.outputNames[0];
  return { session, run: async () => probeRows((await session.run(feeds))[y].data, lengths[0], width) };
}

async function prepareDecoder({ layers, width, batch, cached }) {
  const session = await open(`decoder-${width}x${layers}.onnx`);
  const all = tokens(batch * (cached + 1));
  const ids = (data, n) => new ort.Tensor('int64', data, [batch, n]);
  const pasts = session.inputNames.filter((name) => name.startsWith('past'));
  let feeds = { tokens: ids(all.slice(batch * cached), 1) };
  for (const name of pasts) feeds[name] = new ort.Tensor('float32', new Float32Array(0), [batch, width / D, 0, D]);
  if (cached > 0) {
    const prompt = await session.run({ ...feeds, tokens: ids(all.slice(0, batch * cached), cached) });
    for (const name of pasts) feeds[name] = prompt[name.replace('past', 'present')];
  }
  return { session, run: async () => probeRows((await session.run(feeds)).logits.data, batch, VOCAB) };
}

const PREPARE = { forward: prepareAttention, encode: prepareEncoder, decode: prepareDecoder };

function processor() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
const clock = threads === 1 ? processor : () => performance.now() / 1000;

let last = { key: null };
async function answer(job) {
  if (!(job.kind in PREPARE)) return { unsupported: 'ONNX Runtime offers no backward' };
  const { budget, ...what } = job;
  const key = JSON.stringify(what);
  if (last.key !== key) {
    await last.session?.release();
    last = { key, ...(await PREPARE[job.kind](job)) };
    await last.run();
  }
  const seconds = [];
  const begin = performance.now();
  let result;
  do {
    const start = clock();
    result = await last.run();
    seconds.push(clock() - start);
  } while (performance.now() - begin < 1000 * budget);
  return { seconds, probe: result };
}

console.log(JSON.stringify({ name: 'ONNX Runtime', version: ort.env.versions.common }));
for await (const line of createInterface({ input: process.stdin })) {
  let reply;
  try {
    reply = await answer(JSON.parse(line));
  } catch (error) {
    reply = { error: String(error) };
  }
  console.log(JSON.stringify(reply));
}
