import { kilobytes, opened, shares, show } from "./runtime.js";

const at = (id) => document.getElementById(id);
let model = null, stopped = false;

for (const name of ["length", "temperature"]) {
  at(name).addEventListener("input", () => { at(`${name}-shown`).textContent = at(name).value; });
}

// The numbers of the bytes that the network knows, and how many bytes it does not.
function encoded(text, symbols) {
  const found = [...new TextEncoder().encode(text)].map((byte) => symbols.indexOf(byte));
  return { numbers: found.filter((number) => number >= 0), unknown: found.filter((number) => number < 0).length };
}

function drawn(scores, temperature) {
  if (temperature === 0) return scores.indexOf(Math.max(...scores));
  const parts = shares(scores.map((score) => score / temperature));
  let left = Math.random();
  const place = parts.findIndex((part) => (left -= part) < 0);
  return place < 0 ? parts.length - 1 : place;
}

async function complete() {
  const { symbols, context } = model.settings, { numbers, unknown } = encoded(at("prompt").value, symbols);
  at("dropped").textContent = unknown ? `${unknown} of the bytes are not among the ${symbols.length} that the network knows, and were left out.` : "";
  const before = numbers.length, length = Number(at("length").value), temperature = Number(at("temperature").value);
  if (!before) numbers.push(Math.max(symbols.indexOf(10), 0)); // something to continue: a new line
  const text = at("text"), made = document.createElement("mark"), decoder = new TextDecoder();
  text.className = "";
  text.replaceChildren(decoder.decode(Uint8Array.from(numbers, (number) => symbols[number])), made);
  const began = performance.now();
  let count = 0;
  for (; count < length && !stopped; count++) {
    const window = numbers.slice(-context), input = new BigInt64Array(context); // what follows the text does not count: attention is causal
    window.forEach((number, place) => { input[place] = BigInt(number); });
    const { values } = await model.run("int64", input, [1, context]);
    const width = symbols.length, end = window.length * width;
    numbers.push(drawn(Array.from(values.slice(end - width, end)), temperature));
    made.textContent = decoder.decode(Uint8Array.from(numbers.slice(Math.max(before, 1)), (number) => symbols[number]));
    if (count % 4 === 3) await new Promise((resume) => setTimeout(resume)); // the page stays alive
  }
  const rate = count / ((performance.now() - began) / 1000);
  at("about").textContent = `${count} characters, ${rate.toFixed(0)} a second on this device; ${kilobytes(model.size)} of weights.`;
}

at("complete").addEventListener("click", async () => {
  stopped = false;
  at("complete").disabled = true;
  at("stop").disabled = false;
  try {
    await complete();
  } catch (error) {
    show(error);
  }
  at("complete").disabled = false;
  at("stop").disabled = true;
});
at("stop").addEventListener("click", () => { stopped = true; });

opened().then((loaded) => {
  model = loaded;
  at("complete").disabled = false;
  at("about").textContent = `${kilobytes(model.size)} of weights, ready.`;
  document.body.dataset.ready = "yes";
}).catch(show);
