// The model of this folder, opened with onnxruntime-web. One thread: several need headers that plain file servers do not send.
import * as ort from "./onnxruntime/ort.wasm.bundle.min.mjs";

const problem = document.getElementById("problem");

export const show = (error) => {
  problem.textContent = `This page cannot go on: ${error.message ?? error}`;
};

export async function opened() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = { wasm: new URL("./onnxruntime/ort-wasm-simd-threaded.wasm", import.meta.url).href };
  const found = await Promise.all(["settings.json", "model.onnx"].map((name) => fetch(new URL(name, import.meta.url))));
  for (const each of found) {
    if (!each.ok) throw new Error(`${each.url} is not there (${each.status}). Copy the whole folder that was exported.`);
  }
  const settings = await found[0].json();
  const bytes = new Uint8Array(await found[1].arrayBuffer());
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const [input] = session.inputNames, [output] = session.outputNames;
  const run = async (type, data, shape) => {
    const began = performance.now();
    const { [output]: { data: values } } = await session.run({ [input]: new ort.Tensor(type, data, shape) });
    return { values, milliseconds: performance.now() - began };
  };
  return { settings, run, size: bytes.length };
}

export const shares = (scores) => {
  const most = Math.max(...scores), powers = Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
};

export const kilobytes = (bytes) => `${bytes < 1e6 ? Math.round(bytes / 1e3) + " kB" : (bytes / 1e6).toFixed(1) + " MB"}`;
