// Strokes as the pixels that the network was trained on: as high as the image, in the middle, and with as much ink as the data have.
// The digits of the data were scaled to the height of their images too (Alpaydin & Kaynak, 1998).

const FINE = 8; // points of the drawing for each pixel, in both directions

const lengthOf = (stroke) =>
  stroke.slice(1).reduce((sum, [x, y], k) => sum + Math.hypot(x - stroke[k][0], y - stroke[k][1]), 0);

function fitted(strokes, height, width, ink) {
  const points = strokes.flat(), xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const [left, top, right, bottom] = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  const total = strokes.reduce((sum, stroke) => sum + lengthOf(stroke), 0);
  let pen = 1, scale = 0;
  for (let again = 0; again < 4; again++) { // the pen's width and the scale depend on each other
    scale = Math.min((height - pen) / Math.max(bottom - top, 1e-6), (width - pen) / Math.max(right - left, 1e-6), height * 4);
    pen = Math.min(Math.max((ink * height * width) / Math.max(total * scale, 1e-6), 0.9), 2.2);
  }
  const move = ([x, y]) => [
    ((x - (left + right) / 2) * scale + width / 2) * FINE,
    ((y - (top + bottom) / 2) * scale + height / 2) * FINE,
  ];
  return { pen: pen * FINE, lines: strokes.map((stroke) => stroke.map(move)) };
}

export function draw(context, lines, pen, color) {
  context.lineWidth = pen;
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = color;
  for (const line of lines) {
    context.beginPath();
    context.moveTo(...line[0]);
    for (const point of line.length > 1 ? line.slice(1) : line) context.lineTo(...point);
    context.stroke();
  }
}

// The share of each pixel that is covered, row by row, from 0 to 1.
export function pixels(strokes, height, width, ink) {
  const sheet = document.createElement("canvas");
  sheet.width = width * FINE;
  sheet.height = height * FINE;
  const context = sheet.getContext("2d", { willReadFrequently: true });
  const { pen, lines } = fitted(strokes, height, width, ink);
  draw(context, lines, pen, "#000");
  const { data } = context.getImageData(0, 0, sheet.width, sheet.height);
  const covered = new Float32Array(height * width);
  for (let y = 0; y < sheet.height; y++) {
    for (let x = 0; x < sheet.width; x++) {
      covered[Math.floor(y / FINE) * width + Math.floor(x / FINE)] += data[(y * sheet.width + x) * 4 + 3] / 255 / FINE / FINE;
    }
  }
  return covered;
}
