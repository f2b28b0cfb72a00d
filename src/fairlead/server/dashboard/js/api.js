// Asking the scheduler: JSON in and out, problems as errors with their sentence, streams as they come.
import { token } from './session.js';

/** What the API said was wrong: `status`, and the fields of RFC 9457. */
export class Problem extends Error {
  constructor(status, told) {
    super([told.detail || told.title || `the scheduler answered ${status}`, told.accepts && `Expected: ${told.accepts}.`]
      .filter(Boolean).join('. '));
    this.status = status;
    this.told = told;
  }
}

let onSignedOut = () => {};
/** What happens when the token counts no more. */
export const whenSignedOut = (does) => { onSignedOut = does; };

const request = async (method, path, { body, signal, headers = {}, given } = {}) => {
  const sent = { Authorization: `Bearer ${given ?? token()}`, ...headers };
  if (body !== undefined && !(body instanceof Blob)) {
    sent['Content-Type'] = 'application/json';
    body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, { method, headers: sent, body, signal, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: 'The scheduler does not answer. Is it running, and is this machine connected to it?' });
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && given === undefined) onSignedOut(told.detail || '');
  throw new Problem(answer.status, told);
};

/** `/v1/jobs` with the parameters that say something; a list is one parameter with commas. */
export const withQuery = (path, parameters = {}) => {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === '' || (Array.isArray(value) && !value.length)) continue;
    found.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = found.toString();
  return text ? `${path}?${text}` : path;
};

export const get = async (path, parameters, signal) =>
  (await request('GET', withQuery(path, parameters), { signal })).json();
export const post = async (path, body, signal) => (await request('POST', path, { body, signal })).json();
export const remove = async (path, signal) => (await request('DELETE', path, { signal })).json();
export const put = async (path, body, signal) => (await request('PUT', path, { body, signal })).json();

/** Who has this token; rejects with a Problem where nobody has. */
export const whoHas = async (given) => (await request('GET', '/v1/me', { given })).json();

/** The body as text, piece by piece as it comes, until it ends or `signal` says so. The first piece is empty: it is answered. */
export async function* pieces(path, parameters, signal, headers = {}) {
  const answer = await request('GET', withQuery(path, parameters), { signal, headers });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    yield '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Server-sent events as {id, event, data}. By fetch, since an EventSource can't send a token but in the address. */
export async function* events(path, parameters, signal) {
  let left = '';
  for await (const piece of pieces(path, parameters, signal, { Accept: 'text/event-stream' })) {
    const blocks = (left + piece).split('\n\n');
    left = blocks.pop();
    for (const block of blocks) {
      const found = { id: '', event: 'message', data: '' };
      for (const line of block.split('\n')) {
        const colon = line.indexOf(': ');
        if (colon > 0 && line.slice(0, colon) in found) found[line.slice(0, colon)] += line.slice(colon + 2);
      }
      if (found.data) yield found;
    }
  }
}

/** Resolves after so long, at once where `signal` has spoken. */
export const pause = (ms, signal) => new Promise((resolve) => {
  if (signal?.aborted) { resolve(); return; }
  // a page that pauses for as long as it is open leaves nothing behind each time
  const done = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', done);
    resolve();
  };
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', done);
});
