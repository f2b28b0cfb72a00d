// What a job prints, as it comes. The end is kept in view while whoever reads is at the end; beyond so much the oldest goes.
import { get, pause, pieces } from './api.js';
import { h, setText } from './dom.js';
import { ENDED } from './story.js';

const MOST_LINES = 5000;
const TAIL = 2000;
// progress bars go back to the start of their line and never end it, so that lines alone bound nothing
const MOST_CHARACTERS = 2 ** 20;
const AGAIN_MS = 3000;

/** What a refusal says stays true; a scheduler that is away or busy comes back. */
const isRefused = (error) => error.status >= 400 && error.status < 500 && error.status !== 429;

/** An element that follows the job's log until `signal`. */
export const logView = (job, signal) => {
  const text = h('pre.log', { tabindex: '0', 'aria-label': `Output of job ${job}`, role: 'log', 'aria-live': 'off' });
  const says = h('p.soft', { role: 'status' }, 'Nothing was printed yet.');
  const path = `/v1/jobs/${encodeURIComponent(job)}`;
  let lines = 0, characters = 0, coming = '', drawing = 0, any = false, anew = false, isCut = false, trouble = '';

  const note = () => setText(says, trouble || (isCut ? `Only the end is here. All of it: fairlead logs ${job}`
    : any || coming ? '' : 'Nothing was printed yet.'));
  const cut = () => {
    let kept = text.textContent;
    if (lines > MOST_LINES) kept = kept.split('\n').slice(-TAIL).join('\n');
    if (kept.length > MOST_CHARACTERS) kept = kept.slice(-MOST_CHARACTERS / 2);
    text.textContent = kept;
    lines = kept.split('\n').length - 1;
    characters = kept.length;
    isCut = true;
  };
  const draw = () => {
    drawing = 0;
    if (!coming) return;
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8, scrolled = text.scrollTop;
    if (anew) { // its tail is read once more: in place of what is there, not after it
      text.replaceChildren();
      lines = characters = 0;
      anew = false;
    }
    text.append(document.createTextNode(coming));
    lines += coming.split('\n').length - 1;
    characters += coming.length;
    coming = '';
    any = true;
    if (lines > MOST_LINES || characters > MOST_CHARACTERS) cut();
    note();
    text.scrollTop = atEnd ? text.scrollHeight : scrolled;
  };

  const read = async () => {
    let answered = false;
    for await (const piece of pieces(`${path}/logs`, { follow: true, tail: TAIL }, signal)) {
      if (!answered) {
        answered = anew = true;
        coming = '';
        isCut = false;
        trouble = '';
        note();
      }
      // nothing is drawn while the tab is hidden
      if (coming.length + piece.length > MOST_CHARACTERS) isCut = true;
      coming = (coming + piece).slice(-MOST_CHARACTERS);
      drawing ||= requestAnimationFrame(draw);
    }
  };
  /** Until the job has ended. A scheduler that stops ends the stream too, so we ask. */
  const follow = async () => {
    while (!signal.aborted) {
      try {
        await read();
        if (ENDED.has((await get(path, {}, signal)).state)) {
          if (!any && !coming) setText(says, 'It printed nothing.');
          return;
        }
      } catch (error) {
        if (signal.aborted) return;
        trouble = `The output can’t be read: ${error.message}`;
        note();
        if (isRefused(error)) return;
      }
      do { await pause(AGAIN_MS, signal); } while (document.hidden && !signal.aborted);
    }
  };
  follow();
  return h('div', {}, says, text);
};
