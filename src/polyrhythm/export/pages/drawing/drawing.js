import { kilobytes, opened, shares, show } from "./runtime.js";
import { draw, pixels } from "./strokes.js";

const at = (id) => document.getElementById(id);
const paper = at("paper"), seen = at("seen"), bars = at("bars");
const PEN = 0.06; // of the paper's width
const HINT = at("certainty").textContent; // until something is drawn
const STEP = 0.05; // of the paper, for a press of an arrow

let strokes = [], drawing = false, model = null, pen = [0.5, 0.15], lowered = false;

function paint() {
  const size = Math.round(paper.clientWidth * devicePixelRatio);
  if (paper.width !== size) paper.width = paper.height = size;
  const context = paper.getContext("2d"), color = getComputedStyle(paper).color;
  context.clearRect(0, 0, size, size);
  const large = strokes.map((stroke) => stroke.map(([x, y]) => [x * size, y * size]));
  draw(context, large, PEN * size, color);
  if (document.activeElement === paper && paper.matches(":focus-visible")) {
    context.beginPath();
    context.arc(pen[0] * size, pen[1] * size, (PEN * size) / 2, 0, 7);
    context.strokeStyle = context.fillStyle = getComputedStyle(at("digit")).color;
    context.lineWidth = 2 * devicePixelRatio;
    lowered ? context.fill() : context.stroke();
  }
}

function preview(covered, height, width) {
  seen.width = width;
  seen.height = height;
  const context = seen.getContext("2d");
  context.fillStyle = getComputedStyle(seen).color;
  covered.forEach((share, place) => {
    context.globalAlpha = share;
    context.fillRect(place % width, Math.floor(place / width), 1, 1);
  });
}

function list(labels) {
  bars.replaceChildren(...labels.map((label) => {
    const item = document.createElement("li");
    item.innerHTML = '<span class="label"></span><span class="track"><span class="fill" style="display:block"></span></span><span class="share"></span>';
    item.querySelector(".label").textContent = label;
    return item;
  }));
}

function answer(parts, labels) {
  const best = parts ? parts.indexOf(Math.max(...parts)) : -1;
  at("digit").textContent = parts ? labels[best] : "";
  at("certainty").textContent = parts ? `${Math.round(parts[best] * 100)} % sure` : HINT;
  at("certainty").classList.toggle("quiet", !parts);
  [...bars.children].forEach((item, k) => {
    item.classList.toggle("best", k === best);
    item.querySelector(".fill").style.width = `${parts ? parts[k] * 100 : 0}%`;
    item.querySelector(".share").textContent = parts ? `${(parts[k] * 100).toFixed(0)} %` : "";
  });
}

async function read() {
  paint();
  const { labels, height, width, mean, deviation, most } = model.settings;
  paper.setAttribute("aria-label", `Drawing area, ${strokes.length === 1 ? "1 stroke" : `${strokes.length || "no"} strokes`}`);
  at("undo").disabled = at("clear").disabled = !strokes.length;
  if (!strokes.length) {
    preview(new Float32Array(height * width), height, width);
    answer(null, labels);
    return;
  }
  const mine = strokes, covered = pixels(strokes, height, width, mean / most);
  preview(covered, height, width);
  const { values, milliseconds } = await model.run("float32", covered.map((share) => (share * most - mean) / deviation), [1, 1, height, width]);
  if (mine !== strokes) return; // it was cleared meanwhile
  answer(shares(values), labels);
  at("about").textContent = `${kilobytes(model.size)} of weights; this answer took ${milliseconds.toFixed(1)} ms on this device.`;
}

const position = (event) => {
  const box = paper.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top].map((place) => Math.min(Math.max(place / box.width, 0), 1));
};

paper.addEventListener("pointerdown", (event) => {
  if (!model || event.button) return;
  drawing = true;
  paper.setPointerCapture(event.pointerId);
  strokes.push([position(event)]);
  paint();
});
paper.addEventListener("pointermove", (event) => {
  if (!drawing) return;
  for (const each of event.getCoalescedEvents?.() ?? [event]) strokes.at(-1).push(position(each));
  paint();
});
for (const end of ["pointerup", "pointercancel"]) {
  paper.addEventListener(end, () => {
    if (!drawing) return;
    drawing = false;
    read().catch(show);
  });
}

const ARROWS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
paper.addEventListener("keydown", (event) => {
  if (!model) return;
  if (event.key in ARROWS) {
    pen = pen.map((place, k) => Math.min(Math.max(place + ARROWS[event.key][k], 0), 1));
    if (lowered) strokes.at(-1).push(pen);
  } else if (event.key === " ") {
    lowered = !lowered;
    if (lowered) strokes.push([pen]);
  } else if (event.key === "Escape") {
    clear();
  } else {
    return;
  }
  event.preventDefault();
  read().catch(show);
});
for (const change of ["focus", "blur"]) paper.addEventListener(change, paint);

function clear() {
  strokes = [];
  lowered = false;
  read().catch(show);
}
at("clear").addEventListener("click", clear);
at("undo").addEventListener("click", () => {
  strokes = strokes.slice(0, -1);
  lowered = false;
  read().catch(show);
});
addEventListener("resize", paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => model && read().catch(show));

opened().then((loaded) => {
  model = loaded;
  list(model.settings.labels);
  at("about").textContent = `${kilobytes(model.size)} of weights, ready.`;
  document.body.dataset.ready = "yes";
  return read();
}).catch(show);
