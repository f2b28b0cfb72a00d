// Colours for many things at once, in the present theme.
import { tone } from './theme.js';

const TONES = 12;
const dark = () => document.documentElement.dataset.theme === 'dark';

/** A colour for each of the names, the same as long as the names are. */
export const namedColours = (names) => new Map(names.map((name, i) => [name, tone(`t${i % TONES}`)]));

/** One of very many: neighbours in number are far apart in hue, and repetitions differ in lightness. */
export const jobColour = (number) => {
  const hue = (number * 137.508) % 360, ring = number % 3;
  const light = dark() ? [62, 50, 72][ring] : [46, 58, 36][ring];
  return `hsl(${hue.toFixed(1)} ${[58, 46, 52][ring]}% ${light}%)`;
};

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** From `--low` to `--high` for 0 to 1, as a table of 101 colours. */
export const scale = () => {
  const low = parse(tone('low')), high = parse(tone('high'));
  return Array.from({ length: 101 }, (_, i) => `rgb(${low.map((one, c) => Math.round(one + ((high[c] - one) * i) / 100)).join(' ')})`);
};
