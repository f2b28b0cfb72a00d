// The few pictures that the navigation has, drawn with lines that take the colour of the text.
import { s } from './dom.js';

const PATHS = {
  overview: 'M3 17V9m5 8V4m5 13v-6m5 6V7',
  cluster: 'M3 4h6v6H3zM12 4h6v6h-6zM3 13h6v5H3zM12 13h6v5h-6z',
  jobs: 'M4 5h13M4 10.500h13M4 16h8',
  whatif: 'M5 4v5a4 4 0 0 0 4 4h7m0 0-3-3m3 3-3 3M5 9v9',
  studio: 'M6 3h8M8.500 3v5L4 17h13L12.500 8V3',
  theme: 'M10.500 3a7.500 7.500 0 1 0 0 15V3z',
  out: 'M8 4H4v13h4m4-3.500 3.500-3L12 7m3 3.500H8',
};

export const icon = (name) => s('svg', {
  viewBox: '0 0 21 21', width: 20, height: 20, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.6,
  'stroke-linecap': 'round', 'stroke-linejoin': 'round', 'aria-hidden': 'true', class: 'icon',
}, s('path', { d: PATHS[name] || PATHS.jobs }));

/** A rope's guide: what a fairlead is. */
export const mark = () => s('svg', { viewBox: '0 0 32 32', width: 28, height: 28, 'aria-hidden': 'true', class: 'mark' },
  s('rect', { width: 32, height: 32, rx: 8, class: 'mark-back' }),
  s('path', { d: 'M7 22V13a9 9 0 0 1 18 0v9', class: 'mark-line' }),
  s('circle', { cx: 16, cy: 19, r: 3.4, class: 'mark-dot' }));
