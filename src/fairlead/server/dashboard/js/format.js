// Numbers, times and durations as people read them. What is not known is a dash.
export const NOTHING = '–';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const some = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** 12,345 or 0.5; GPUs may come in parts. */
export const number = (value) => (value === null || value === undefined ? NOTHING : (Number.isInteger(value) ? whole : some).format(value));
/** 84 %; what is not quite all is not said to be all, nor what is not quite nothing. */
export const percent = (share, digits = 0) => {
  if (share === null || share === undefined || Number.isNaN(share)) return NOTHING;
  const near = share > 0 && share < 1 && [0, 100].includes(Math.round(100 * share));
  return `${(100 * share).toFixed(near ? Math.max(digits, 1) : digits)} %`;
};

/** "1 GPU", "2 GPUs". */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** 45 s, 3 min 20 s, 2 h 5 min, 3 d 4 h: two units at most. */
export const duration = (seconds) => {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NOTHING;
  if (seconds < 0.95) return seconds <= 0.0005 ? '0 s' : `${Math.max(Math.round(seconds * 1000), 1)} ms`;
  if (seconds < 9.95) return `${Math.round(seconds * 10) / 10} s`;
  const total = Math.round(seconds);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => total >= size);
  let left = total;
  const said = [];
  for (const [size, unit] of parts.slice(first, first + 2)) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n) said.push(`${n} ${unit}`);
  }
  return said.join(' ');
};

const DAY_S = 86400;
const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const exact = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const dated = new Intl.DateTimeFormat([], { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const full = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23' });

const sameDay = (a, b) => new Date(a * 1000).toDateString() === new Date(b * 1000).toDateString();

/** To the nearest minute, as the scheduler's own sentences say it: 14:20 today, "Nov 3, 14:20" on another day; this machine's time zone. */
export const time = (at_s, now_s) =>
  (at_s === null || at_s === undefined ? NOTHING : (sameDay(at_s, now_s) ? clock : dated).format((at_s + 30) * 1000));
export const timeExact = (at_s, now_s) =>
  (at_s === null || at_s === undefined ? NOTHING : (sameDay(at_s, now_s) ? exact.format(at_s * 1000) : dated.format(at_s * 1000)));
/** All of it, for a tooltip. */
export const timeFull = (at_s) => (at_s === null || at_s === undefined ? '' : full.format(at_s * 1000));

/** "3 min ago", "in 2 h". */
export const relative = (at_s, now_s) => {
  if (at_s === null || at_s === undefined) return NOTHING;
  const apart = now_s - at_s;
  if (Math.abs(apart) < 1) return 'now';
  const text = Math.abs(apart) >= 2 * DAY_S ? `${Math.round(Math.abs(apart) / DAY_S)} d` : duration(coarse(Math.abs(apart)));
  return apart > 0 ? `${text} ago` : `in ${text}`;
};

const coarse = (seconds) => (seconds > 3600 ? Math.round(seconds / 60) * 60 : seconds > 60 ? Math.round(seconds / 5) * 5 : Math.round(seconds));

export const memory = (mib) => {
  if (mib === null || mib === undefined) return NOTHING;
  return mib >= 1024 ? `${some.format(mib / 1024)} GiB` : `${whole.format(mib)} MiB`;
};
