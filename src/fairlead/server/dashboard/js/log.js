// What a job prints, as it comes. The end is kept in view while whoever reads is at the end; beyond so many lines the oldest go.
import { pause, pieces } from './api.js';
import { h, setText } from './dom.js';
import { number } from './format.js';

const MOST_LINES = 5000;
const TAIL = 2000;

/** An element that follows the job's log until `signal`. */
export const logView = (job, signal) => {
  const text = h('pre.log', { tabindex: '0', 'aria-label': `Output of job ${job}`, role: 'log', 'aria-live': 'off' });
  const says = h('p.soft', { role: 'status' }, 'Nothing was printed yet.');
  let lines = 0, coming = '', drawing = 0, any = false;

  const draw = () => {
    drawing = 0;
    if (!coming) return;
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    const piece = coming;
    coming = '';
    if (!any) { any = true; setText(says, ''); }
    text.append(document.createTextNode(piece));
    lines += piece.split('\n').length - 1;
    if (lines > MOST_LINES) {
      const kept = text.textContent.split('\n').slice(-TAIL);
      lines = kept.length;
      text.textContent = kept.join('\n');
      setText(says, `The last ${number(TAIL)} lines. All of it: fairlead logs ${job}`);
    }
    if (atEnd) text.scrollTop = text.scrollHeight;
  };

  const follow = async () => {
    try {
      for await (const piece of pieces(`/v1/jobs/${encodeURIComponent(job)}/logs`, { follow: true, tail: TAIL }, signal)) {
        coming += piece;
        drawing ||= requestAnimationFrame(draw);
      }
      if (!any && !coming) setText(says, 'It printed nothing.');
    } catch (error) {
      if (signal.aborted) return;
      setText(says, `The output can’t be read: ${error.message}`);
      await pause(3000, signal);
    }
  };
  follow();
  return h('div', {}, says, text);
};
