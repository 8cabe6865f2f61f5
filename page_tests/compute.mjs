// The outputs of a model by WebAssembly under Node: node compute.mjs RUNTIME MODEL INPUT.json prints those of the first output as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [runtime, model, input] = process.argv.slice(2);
const ort = await import(pathToFileURL(`${runtime}/ort.wasm.bundle.min.mjs`).href);
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = readFileSync(`${runtime}/ort-wasm-simd-threaded.wasm`); // Node fetches no files
const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(model)), { executionProviders: ["wasm"] });
const { type, values, shape } = JSON.parse(readFileSync(input));
const data = type === "int64" ? BigInt64Array.from(values, BigInt) : Float32Array.from(values);
const outputs = await session.run({ [session.inputNames[0]]: new ort.Tensor(type, data, shape) });
const first = outputs[session.outputNames[0]];
console.log(JSON.stringify({ shape: first.dims, values: Array.from(first.data) }));
