// Charts by plotly.js, which is loaded when the first is drawn. Figures name tones (`meta.tone`), as the HTML report's do, and are
// painted for the present theme; drawing again changes what is there in place.
import { h } from './dom.js';
import styles from './plotly-styles.js';
import { onTheme, tone } from './theme.js';

const TONES = 12;
let loading = null;

const plotly = () => {
  loading ??= new Promise((resolve, reject) => {
    // what it would write into the page for its maps, it leaves out where something of that name is there
    document.head.append(...styles.map((id) => h('meta', { id })));
    const script = h('script', { src: '/ui/plotly.min.js' });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { loading = null; reject(new Error('the charts could not be loaded')); };
    document.head.append(script);
  });
  return loading;
};

/** A colour by a trace's tone: a number counts through the twelve, a name is a CSS variable. */
const colour = (wanted) => (typeof wanted === 'number' ? tone(`t${wanted % TONES}`) : tone(wanted));

const paintTrace = (trace) => {
  const wanted = trace.meta?.tone;
  if (wanted === undefined) return;
  if (trace.type === 'bar') {
    const colours = Array.isArray(wanted) ? wanted.map(colour) : colour(wanted);
    trace.marker = { ...trace.marker, color: colours };
    return;
  }
  const dash = typeof wanted === 'number' ? ['solid', 'dash', 'dot'][Math.floor(wanted / TONES) % 3] : 'solid';
  trace.line = { width: 2, ...trace.line, color: colour(wanted), dash: trace.line?.dash || dash };
  if (trace.fill) trace.fillcolor = `${colour(wanted)}${trace.meta.fill || '22'}`;
};

const paint = ({ data, layout }) => {
  data.forEach(paintTrace);
  const axis = { gridcolor: tone('line'), linecolor: tone('line'), zerolinecolor: tone('line'), tickfont: { color: tone('soft') } };
  for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) layout[name] = { ...axis, ...layout[name], ...axis };
  return {
    margin: { l: 44, r: 12, t: 8, b: 28 },
    legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', font: { size: 12, color: tone('soft') } },
    ...layout,
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone('text') },
    hoverlabel: { bgcolor: tone('card'), bordercolor: tone('line'), font: { color: tone('text') } },
    // a finger that scrolls the page must not be caught by the chart
    dragmode: matchMedia('(pointer: coarse)').matches ? false : 'zoom',
    transition: { duration: 0 },
  };
};

const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };

/** A place for a chart. `say` is what it shows, for who can't see it. */
export const chart = (label, signal, tall = 'normal') => {
  const element = h(`div.plot.${tall}`, { role: 'img', 'aria-label': label });
  let last = null;
  const draw = async () => {
    const Plotly = await plotly();
    if (signal.aborted || !last || !element.isConnected) return;
    await Plotly.react(element, last.data, paint(last), CONFIG);
    element.dataset.drawn = 'true';
  };
  onTheme(() => { if (last) draw(); }, signal);
  signal.addEventListener('abort', () => { if (window.Plotly) window.Plotly.purge(element); });
  return { element, draw: (figure) => { last = figure; return draw(); } };
};
