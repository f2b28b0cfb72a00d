// A question before something that can't be taken back.
import { h } from './dom.js';

/** Whether they meant it. Escape and the second button say no. */
export const confirmed = (question, yes, no) => new Promise((resolve) => {
  const answer = (said) => { dialog.close(); dialog.remove(); resolve(said); };
  const dialog = h('dialog.ask', { 'aria-labelledby': 'ask-words' },
    h('p', { id: 'ask-words' }, question),
    h('div.end', {},
      h('button', { type: 'button', onclick: () => answer(null) }, no),
      h('button.primary', { type: 'button', onclick: () => answer(true) }, yes)));
  dialog.addEventListener('cancel', (event) => { event.preventDefault(); answer(null); });
  document.body.append(dialog);
  dialog.showModal();
});

/** The same with a line of text to fill in; null where they did not mean it. */
export const asked = (question, label, yes, no) => new Promise((resolve) => {
  const field = h('input', { type: 'text', id: 'ask-field', maxlength: '1000', autocomplete: 'off' });
  const answer = (said) => { dialog.close(); dialog.remove(); resolve(said); };
  const form = h('form', { onsubmit: (event) => { event.preventDefault(); answer(field.value.trim()); } },
    h('p', { id: 'ask-words' }, question), h('label', { for: 'ask-field' }, label), field,
    h('div.end', {}, h('button', { type: 'button', onclick: () => answer(null) }, no), h('button.primary', { type: 'submit' }, yes)));
  const dialog = h('dialog.ask', { 'aria-labelledby': 'ask-words' }, form);
  dialog.addEventListener('cancel', (event) => { event.preventDefault(); answer(null); });
  document.body.append(dialog);
  dialog.showModal();
});
