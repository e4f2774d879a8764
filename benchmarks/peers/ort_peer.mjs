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

async function prepare({ n, causal, variant }) {
  const session = await ort.InferenceSession.create(join(models, graph({ n, causal, variant })), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
  const feeds = { q: tensor(1, n), k: tensor(2, n), v: tensor(3, n) };
  if (causal) {
    feeds.last = new ort.Tensor('int32', Int32Array.of(n - 1), [1]);
    feeds.total = new ort.Tensor('int32', Int32Array.of(n), [1]);
  }
  return { session, run: () => session.run(feeds, ['y']) };
}

function processor() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
const clock = threads === 1 ? processor : () => performance.now() / 1000;

let last = { key: null };
async function answer(job) {
  if (job.kind !== 'forward') return { unsupported: 'ONNX Runtime offers no backward' };
  const { budget, ...what } = job;
  const key = JSON.stringify(what);
  if (last.key !== key) {
    await last.session?.release();
    last = { key, ...(await prepare(job)) };
    await last.run();
  }
  const seconds = [];
  const begin = performance.now();
  let y;
  do {
    const start = clock();
    ({ y } = await last.run());
    seconds.push(clock() - start);
  } while (performance.now() - begin < 1000 * budget);
  return { seconds, probe: probe(y.data, job.n) };
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
