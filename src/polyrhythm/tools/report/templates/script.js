// Draws the charts anew in the place of their pictures, so that they answer the pointer; chips hide a system in all charts of a section.
(() => {
  const style = getComputedStyle(document.documentElement);
  const colours = text => text.replace(/var\((--[a-z0-9]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  // a chart may stand in no section: nothing is hidden in it then
  const hidden = section => [...section?.querySelectorAll('.chips [aria-pressed=false]') ?? []].map(chip => chip.dataset.name);
  const views = new Map();

  const draw = async canvas => {
    const spec = JSON.parse(colours(canvas.querySelector('script').textContent));
    Object.assign(spec, {width: 'container', height: 'container', autosize: {type: 'fit', contains: 'padding'}});
    const live = canvas.querySelector('.live') ?? canvas.appendChild(Object.assign(document.createElement('div'), {className: 'live'}));
    views.get(canvas)?.finalize();
    // "ast" evaluates expressions without compiling them, which the page's policy would refuse
    const options = {mode: 'vega-lite', ast: true, actions: false, defaultStyle: false, renderer: 'canvas', logLevel: 1};
    const drawn = await vegaEmbed(live, spec, options);
    views.set(canvas, drawn);
    canvas.querySelector('.still').hidden = true;
    await drawn.view.signal('hidden', hidden(canvas.closest('section'))).runAsync();
  };
  const drawAll = () => Promise.all([...document.querySelectorAll('.canvas')].map(draw));

  for (const chip of document.querySelectorAll('.chips button')) {
    chip.disabled = false;
    chip.addEventListener('click', () => {
      chip.setAttribute('aria-pressed', chip.getAttribute('aria-pressed') === 'false');
      const section = chip.closest('section');
      for (const canvas of section.querySelectorAll('.canvas')) views.get(canvas)?.view.signal('hidden', hidden(section)).runAsync();
    });
  }
  for (const hint of document.querySelectorAll('.hint')) hint.hidden = false;
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  drawAll();
})();
