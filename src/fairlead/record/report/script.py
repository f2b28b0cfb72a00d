"""The page's own script: paints the figures in the page's tones, makes the tabs work, saves charts as pictures and tables.

It is in pieces because another page, which nobody sees, makes the pictures for the command line (`PICTURES_JS`).
"""

_PAINT = """
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
    trace.meta = { categories: trace.meta.true_names || names, shown: names, y: trace.meta.y };
  };
  const colourOf = (code) => code === 0 ? tone('free') : code === 1 ? tone('down') : tone('t' + (code - 2) % TONES);

  const paintTrace = (trace) => {
    if (trace.type === 'heatmap') {
      if (trace.meta && trace.meta.codes) unpack(trace);
      if (trace.meta && trace.meta.categories) {
        const count = trace.meta.categories.length;
        trace.zmin = -0.5; trace.zmax = count - 0.5; trace.colorscale = [];
        for (let i = 0; i < count; i++) trace.colorscale.push([i / count, colourOf(i)], [(i + 1) / count, colourOf(i)]);
      } else {
        trace.colorscale = [[0, tone('low')], [1, tone('high')]];
        trace.colorbar.tickfont = { color: tone('soft') };
      }
      return;
    }
    const colour = tone('t' + trace.meta.tone % TONES);
    if (trace.type === 'bar') { trace.marker = { color: colour, line: { width: 0 } }; return; }
    // beyond the tones, lines differ by their dashes
    const dash = ['solid', 'dash', 'dot'][Math.floor(trace.meta.tone / TONES) % 3];
    trace.line = Object.assign({ width: 2 }, trace.line, { color: colour, dash });
    if (trace.stackgroup) { trace.line.width = 0.5; trace.fillcolor = colour; }
    if (trace.meta.apart) Object.assign(trace.line, { color: tone('soft'), dash: 'dash', width: 1.5 });
  };

  const paint = (figure) => {
    figure.data.forEach(paintTrace);
    const axis = { gridcolor: tone('line'), linecolor: tone('line'), zerolinecolor: tone('line'), tickfont: { color:
      tone('soft') } };
    const layout = figure.layout;
    Object.assign(layout, {
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone('text') },
      margin: { l: 8, r: 12, t: 8, b: 8 },
      legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', traceorder: 'normal',
        font: { size: 12 } },
      hoverlabel: { bgcolor: tone('card'), bordercolor: tone('line'), font: { color: tone('text') } },
    });
    for (const one of [layout.xaxis, layout.yaxis]) {
      Object.assign(one, axis);
      one.title.standoff = 8; one.title.font = { size: 12, color: tone('soft') };
    }
    layout.xaxis.showgrid = layout.xaxis.type !== 'category' && figure.data[0].type !== 'heatmap';
  };
"""

#: a figure with its title, sentence and legend in it, as it goes into somebody's slides
_PICTURE = """
  const SIZE = { width: 1120, height: 630, scale: 2 };
  const broken = (text, most) => {
    const lines = [''];
    for (const word of text.split(/\\s+/)) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length + 1 > most) lines.push(word);
      else lines[last] += (lines[last] ? ' ' : '') + word;
    }
    return lines;
  };
  const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  const pictured = (figure) => {
    paint(figure);
    const said = broken(figure.sentence, 150);
    const data = figure.data;
    const names = data[0] && data[0].type === 'heatmap' && data[0].meta.categories ? data[0].meta.shown : [];
    // a map of names has no legend of its own in the library: points that are nowhere make one
    if (new Set(names.slice(2)).size > 1) names.forEach((name, code) => {
      if (code !== 1) data.push({ type: 'scatter', mode: 'markers', x: [null], y: [null], name, showlegend: true,
        marker: { symbol: 'square', size: 11, color: colourOf(code) } });
    });
    const legend = figure.layout.showlegend || names.length > 0;
    const layout = Object.assign(figure.layout, {
      paper_bgcolor: tone('card'), plot_bgcolor: tone('card'), autosize: false, width: SIZE.width, height: SIZE.height,
      showlegend: legend, margin: { l: 28, r: 28, t: 64 + 17 * said.length + (legend ? 36 : 8), b: 24 },
      title: { text: '<b>' + escaped(figure.title) + '</b>', x: 0, xref: 'container', xanchor: 'left', y: 1,
        yref: 'container', yanchor: 'top', pad: { l: 28, t: 22 }, font: { size: 20 },
        subtitle: { text: said.map(escaped).join('<br>'), font: { size: 13, color: tone('soft') } } },
    });
    return { data, layout };
  };
  const picture = (figure) => {
    const root = document.documentElement, theme = root.dataset.theme;
    root.dataset.theme = 'light';  // it goes onto paper or a slide, whatever this screen is like
    const drawn = pictured(structuredClone(figure));
    if (theme === undefined) delete root.dataset.theme; else root.dataset.theme = theme;
    return Plotly.toImage(drawn, Object.assign({ format: 'png' }, SIZE));
  };
"""

#: as `saving.csv_of` has it
_TABLE = """
  const cell = (value) => {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\\-@\\t\\r]/.test(value) ? "'" + value : value;
    return /[",\\n\\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  const mapLines = (figure) => {
    const trace = figure.data[0], names = trace.meta.categories;
    const rows = names ? trace.z.map((row) => row.map((code) => names[code])) : trace.z;
    const [x, y] = figure.columns;
    const labels = trace.meta.y || trace.y;
    return [[y === 'y' ? x : y + ' / ' + x, ...trace.x], ...rows.map((row, i) => [labels[i], ...row])];
  };
  const seriesLines = (figure) => {
    const [xTitle, yTitle] = figure.columns;
    const columns = figure.data.map((one) => [one.meta.x || one.x, one.meta.y || one.y]);
    const names = figure.data.map((one) => one.meta.name);
    const first = JSON.stringify(columns.length ? columns[0][0] : []);
    if (columns.every(([x]) => JSON.stringify(x) === first)) {
      const heads = names.length === 1 ? [yTitle] : names.map((name) => name + ': ' + yTitle);
      const rows = (columns.length ? columns[0][0] : []).map((x, i) => [x, ...columns.map(([, y]) => y[i])]);
      return [[xTitle, ...heads], ...rows];
    }
    const lines = [['series', xTitle, yTitle]];
    columns.forEach(([x, y], i) => x.forEach((value, at) => lines.push([names[i], value, y[at]])));
    return lines;
  };
  const table = (figure) => {
    figure.data.forEach((trace) => { if (trace.meta && trace.meta.codes) unpack(trace); });
    const lines = figure.data.length && figure.data[0].type === 'heatmap' ? mapLines(figure) : seriesLines(figure);
    return lines.map((line) => line.map(cell).join(',') + '\\n').join('');
  };
"""

_PAGE = """
  // whoever shows this in a frame may say which theme it has: #light or #dark
  const framed = /^#(light|dark)$/.exec(location.hash);
  if (framed) document.documentElement.dataset.theme = framed[1];

  const config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };
  const draw = (element) => {
    const figure = figures[element.dataset.figure];
    paint(figure);
    delete figure.layout.width; delete figure.layout.height;
    // a chart that measures itself does so a moment later, which is too late for paper
    if (document.body.classList.contains('printing'))
      Object.assign(figure.layout, { autosize: false, width: element.clientWidth, height: element.clientHeight });
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
  // paper is white and narrower than most screens
  const forPaper = (on) => {
    document.body.classList.toggle('printing', on);
    const theme = on ? 'light' : framed && framed[1];
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    drawn.forEach(draw);
  };
  addEventListener('beforeprint', () => forPaper(true));
  addEventListener('afterprint', () => forPaper(false));

  const named = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '') || 'chart';
  const hand = (href, name) => {
    const link = document.createElement('a');
    link.href = href; link.download = name;
    document.body.append(link); link.click(); link.remove();
  };
  document.addEventListener('click', async (event) => {
    const button = event.target.closest('[data-save]');
    if (!button) return;
    const plot = button.closest('figure').querySelector('.plot'), figure = figures[plot.dataset.figure];
    if (button.dataset.save === 'csv') {
      const url = URL.createObjectURL(new Blob([table(figure)], { type: 'text/csv' }));
      hand(url, named(figure.title) + '.csv');
      setTimeout(() => URL.revokeObjectURL(url), 1000);
      return;
    }
    button.disabled = true;
    try { hand(await picture(figure), named(figure.title) + '.png'); } finally { button.disabled = false; }
  });

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
"""

_ALL_PICTURES = """
  (async () => {
    for (const figure of figures) {
      const made = document.createElement('pre');
      try { made.textContent = await picture(figure); } catch (error) { made.textContent = 'failed: ' + error; }
      document.body.append(made);
    }
    document.documentElement.dataset.ready = 'true';
  })();
"""


def _script(*parts: str) -> str:
    return "\n(() => {\n  'use strict';" + "".join(parts) + "})();\n"


JS = _script(_PAINT, _PICTURE, _TABLE, _PAGE)
PICTURES_JS = _script(_PAINT, _PICTURE, _ALL_PICTURES)
