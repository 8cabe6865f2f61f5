"""How the page looks, and the few lines of script that put plotly's charts in the place of the static ones."""

from __future__ import annotations

from polyrhythm.report.series import DARK, LIGHT

_SHEET = """
:root { --ink: #1d2127; --soft: #5d6672; --faint: #e3e6ea; --paper: #ffffff; --panel: #f6f7f9; --accent: #2368b0; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa4b0; --faint: #2c323a; --paper: #14171b; --panel: #1c2026; --accent: #6aa9ec; --bad: #ff8a80; }
}
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 56px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 44px 0 0; } h3 { font-size: 1rem; margin: 32px 0 0; font-weight: 600; }
h2 + p, .by { margin: 0; color: var(--soft); font-size: 0.9rem; }
.says { border-left: 3px solid var(--accent); margin: 14px 0 4px; padding: 2px 0 2px 14px; max-width: 46rem; overflow-wrap: anywhere; }
.caution, .note, .legend { color: var(--soft); font-size: 0.84rem; margin: 6px 0 0; max-width: 46rem; }
.remark { color: var(--bad); font-size: 0.88rem; margin: 6px 0 0; overflow-wrap: anywhere; }
.chips { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: 6px; margin: 18px 0 0; padding: 8px 0;
  background: var(--paper); }
.chips button { display: flex; align-items: center; gap: 6px; flex: none; font: inherit; font-size: 0.82rem; line-height: 1.2;
  color: var(--ink);
  background: var(--panel); border: 1px solid var(--faint); border-radius: 999px; padding: 5px 11px 5px 9px; }
.chips button:enabled { cursor: pointer; } .chips button[aria-pressed=false] { opacity: 0.4; text-decoration: line-through; }
.chips button:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.swatch { width: 26px; height: 10px; flex: none; vertical-align: baseline; margin-right: 6px; } .chips .swatch { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 26px 36px; margin-top: 12px; }
.chart { min-width: 0; margin: 0; } .chart h3 { margin: 0; } .chart > p { margin: 0; color: var(--soft); font-size: 0.82rem; }
.canvas { position: relative; height: 320px; margin-top: 8px; }
.plot { position: absolute; inset: 8px 12px 46px 46px; } .plot svg { width: 100%; height: 100%; overflow: visible; display: block; }
.plot path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
  .plot path[stroke-width] { stroke-width: 6; }
.plot path.grid { stroke: var(--faint); stroke-width: 1; } .plot path.goal { stroke: var(--soft); stroke-width: 1.5;
  stroke-dasharray: 2 4; }
.plot span, .bars span { position: absolute; font-size: 11px; line-height: 1; color: var(--soft); white-space: nowrap; }
.plot .x { top: calc(100% + 8px); transform: translateX(-50%); } .plot .y { right: calc(100% + 8px); transform: translateY(-50%); }
.axis { position: absolute; bottom: 2px; left: 46px; right: 12px;
  text-align: center; }
.axis { font-size: 12px; color: var(--soft); }
.wide { overflow-x: auto; margin-top: 10px; border: 1px solid var(--faint); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--faint); }
tr:first-child > th { border-top: 0; color: var(--soft); font-weight: 500; background: var(--panel); }
th:first-child { text-align: left; font-weight: 600; position: sticky; left: 0; background: var(--paper); }
tr:first-child > th:first-child { background: var(--panel); } tr.failed td { color: var(--bad); }
.timelines { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 20px 36px; margin-top: 12px; }
figure { margin: 0; min-width: 0; } figcaption { font-size: 0.86rem; } figcaption span { color: var(--soft); font-size: 0.78rem; }
.rows { display: flex; gap: 6px; margin: 4px 0 20px; } .ranks { width: 18px; flex: none; } .bars { position: relative; flex: 1;
  min-width: 0; }
.ranks span { display: block; height: 11px; font-size: 9px; line-height: 11px; color: var(--soft); text-align: right; }
.bars svg { display: block; width: 100%; } .bars .w { opacity: 0.2; } .bars .r { stroke: var(--ink); stroke-width: 2;
  vector-effect: non-scaling-stroke; }
.bars .x { top: calc(100% + 5px); transform: translateX(-50%); } .bars .x[style="left:0.0%"] { transform: none; }
.key { display: inline-block; width: 18px; height: 8px; background: var(--soft); margin: 0 3px 0 8px; } .key.full { margin-left: 0; }
.key.part { opacity: 0.25; } .key.tick { width: 2px; height: 11px; background: var(--ink); vertical-align: -1px; }
[hidden], .off { display: none; }
details { margin-top: 10px; border: 1px solid var(--faint); border-radius: 8px; padding: 8px 14px; }
details details { border: 0; padding: 0 0 0 4px; margin-top: 6px; }
summary { cursor: pointer;
  font-weight: 500; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 16px; font-size: 0.86rem; margin: 8px 0; }
  dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 0.8rem; }
pre { overflow-x: auto; background: var(--panel); border: 1px solid var(--faint); border-radius: 8px; padding: 10px 14px;
  font-size: 0.84rem; }
@media (max-width: 560px) {
  main { padding: 20px 14px 40px; } h1 { font-size: 1.4rem; } .canvas { height: 280px; }
  .chips { flex-wrap: nowrap; overflow-x: auto; margin-right: -14px; padding-right: 14px; } dl { grid-template-columns: 1fr; }
  dt { margin-top: 6px; }
}
@media (pointer: coarse) { .mouse { display: none; } }
@media print { .chips { position: static; } details > * { display: block; } }
"""

SCRIPT = """
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)'), coarse = matchMedia('(pointer: coarse)').matches;
  const light = PALETTE_LIGHT, night = PALETTE_DARK;
  const canvases = [...document.querySelectorAll('.canvas')];
  const draw = canvas => {
    let text = canvas.querySelector('script').textContent;
    if (dark.matches) light.forEach((colour, i) => { text = text.replaceAll('"' + colour + '"', '"' + night[i] + '"'); });
    const figure = JSON.parse(text), ink = getComputedStyle(document.body), layout = figure.layout;
    layout.font.color = ink.getPropertyValue('--soft');
    layout.dragmode = coarse ? false : 'zoom';
    for (const axis of [layout.xaxis, layout.yaxis]) axis.gridcolor = ink.getPropertyValue('--faint');
    const hidden = new Set([...canvas.closest('section').querySelectorAll('.chips [aria-pressed=false]')].map(chip => chip.dataset.chip));
    for (const trace of figure.data) trace.visible = !hidden.has(trace.legendgroup);
    let live = canvas.querySelector('.live');
    if (!live) { live = document.createElement('div'); live.className = 'live'; live.style.height = '100%'; canvas.append(live); }
    return Plotly.react(live, figure.data, layout, {responsive: true, displaylogo: false, displayModeBar: false})
      .then(() => canvas.querySelectorAll('.plot, .axis').forEach(still => { still.hidden = true; }));
  };
  if (window.Plotly) {
    document.querySelectorAll('.hint').forEach(hint => { hint.hidden = false; });
    canvases.forEach(draw); dark.addEventListener('change', () => canvases.forEach(draw));
  }
  for (const chip of document.querySelectorAll('.chips button')) {
    chip.disabled = false;
    chip.addEventListener('click', () => {
      const shown = chip.getAttribute('aria-pressed') === 'false', section = chip.closest('section');
      chip.setAttribute('aria-pressed', shown);
      section.querySelectorAll('[data-series="' + chip.dataset.chip + '"]').forEach(part => part.classList.toggle('off', !shown));
      if (window.Plotly) section.querySelectorAll('.canvas').forEach(draw);
    });
  }
})();
""".replace("PALETTE_LIGHT", str(LIGHT)).replace("PALETTE_DARK", str(DARK))


def _colours(palette: list[str]) -> str:
    lines = "".join(
        f".c{place} {{ stroke: {colour}; }} .bars .c{place} {{ fill: {colour}; stroke: none; }} " for place, colour in enumerate(palette)
    )
    return lines.strip()


STYLE = f"{_SHEET}{_colours(LIGHT)}\n@media (prefers-color-scheme: dark) {{ {_colours(DARK)} }}\n"
