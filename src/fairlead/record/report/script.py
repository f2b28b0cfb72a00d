"""The page's own script: paints the figures in the page's tones, and makes the tabs work."""

JS = """
(() => {
  'use strict';
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const TONES = 12;
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

  // rows of one byte a cell, and what each cell says when pointed at
  const unpack = (trace) => {
    const text = atob(trace.meta.codes), columns = trace.meta.columns, names = trace.meta.names;
    trace.z = []; trace.text = [];
    for (let at = 0; at < text.length; at += columns) {
      const codes = Array.from(text.slice(at, at + columns), (c) => c.charCodeAt(0));
      trace.z.push(codes);
      trace.text.push(codes.map((code) => names[code]));
    }
    trace.meta = { categories: names.length };
  };

  const paintTrace = (trace) => {
    if (trace.type === 'heatmap') {
      if (trace.meta && trace.meta.codes) unpack(trace);
      if (trace.meta && trace.meta.categories) {
        const count = trace.meta.categories;
        trace.zmin = -0.5; trace.zmax = count - 0.5; trace.colorscale = [];
        for (let i = 0; i < count; i++) {
          const colour = i === 0 ? tone('free') : i === 1 ? tone('down') : tone('t' + (i - 2) % TONES);
          trace.colorscale.push([i / count, colour], [(i + 1) / count, colour]);
        }
      } else {
        trace.colorscale = [[0, tone('low')], [1, tone('high')]];
        trace.colorbar.tickfont = { color: tone('soft') };
      }
      return;
    }
    const colour = tone('t' + trace.meta.tone % TONES);
    if (trace.type === 'bar') { trace.marker = { color: colour }; return; }
    // beyond the tones, lines differ by their dashes
    const dash = ['solid', 'dash', 'dot'][Math.floor(trace.meta.tone / TONES) % 3];
    trace.line = Object.assign({ width: 1.8 }, trace.line, { color: colour, dash });
  };

  const paint = (figure) => {
    figure.data.forEach(paintTrace);
    const axis = { gridcolor: tone('line'), linecolor: tone('line'), zerolinecolor: tone('line') };
    const layout = figure.layout;
    Object.assign(layout, {
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone('text') },
      margin: { l: 8, r: 8, t: 8, b: 8 },
      legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', font: { size: 12 } },
      hoverlabel: { bgcolor: tone('card'), bordercolor: tone('line'), font: { color: tone('text') } },
    });
    Object.assign(layout.xaxis, axis); Object.assign(layout.yaxis, axis);
    layout.xaxis.title.standoff = 8; layout.yaxis.title.standoff = 8;
  };

  const config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  const draw = (element) => {
    const figure = figures[element.dataset.figure];
    paint(figure);
    // a finger that scrolls the page must not be caught by the chart
    figure.layout.dragmode = matchMedia('(pointer: coarse)').matches ? false : 'zoom';
    return Plotly.react(element, figure.data, figure.layout, config);
  };
  const drawn = new Set();
  const drawOnce = (element) => { if (!drawn.has(element)) { drawn.add(element); draw(element); } };

  const visible = (element) => !element.closest('[hidden]');
  const plots = Array.from(document.querySelectorAll('.plot'));
  plots.filter(visible).forEach(drawOnce);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawn.forEach(draw));

  document.querySelectorAll('[role=tablist]').forEach((list) => {
    const tabs = Array.from(list.querySelectorAll('[role=tab]'));
    const select = (chosen, focus) => {
      tabs.forEach((tab) => {
        const on = tab === chosen;
        tab.setAttribute('aria-selected', String(on));
        tab.tabIndex = on ? 0 : -1;
        const panel = document.getElementById(tab.getAttribute('aria-controls'));
        panel.hidden = !on;
        if (on) panel.querySelectorAll('.plot').forEach((plot) => {
          if (drawn.has(plot)) Plotly.Plots.resize(plot); else drawOnce(plot);
        });
      });
      if (focus) chosen.focus();
    };
    list.addEventListener('click', (event) => {
      const tab = event.target.closest('[role=tab]');
      if (tab) select(tab, false);
    });
    list.addEventListener('keydown', (event) => {
      const at = tabs.indexOf(document.activeElement), last = tabs.length - 1;
      const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End:
      last }[event.key]; if (to !== undefined && at >= 0) { event.preventDefault(); select(tabs[to], true); }
    });
  });
  document.documentElement.dataset.ready = 'true';
})();
"""
