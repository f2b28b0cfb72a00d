// What both the what-if and the studio let people choose: policies with their meaning, placers, fields with a word on them.
import { get } from './api.js';
import { h } from './dom.js';

let asked = null;
/** Policies and placers; they stay the same as long as the scheduler runs. */
export const choices = () => {
  asked ??= get('/v1/policies').catch((error) => { asked = null; throw error; });
  return asked;
};

let number = 0;
/** A label, a control, and a hint that is read with it. */
export const field = (label, control, hint = '') => {
  control.id ||= `field-${number += 1}`;
  const said = hint ? h('span.hint', { id: `${control.id}-hint` }, hint) : null;
  if (said) control.setAttribute('aria-describedby', said.id);
  return h('div.field', {}, h('label', { for: control.id }, label), control, said);
};

/** Boxes to tick, `most` of them at a time. `chosen()` has their names in the order of the list. */
export const ticks = (label, rows, ticked, most, changed = () => {}) => {
  const boxes = rows.map((row) => h('input', { type: 'checkbox', value: row.name, checked: ticked.includes(row.name) }));
  const element = h('div.options', { role: 'group', 'aria-label': label, tabindex: '0' }, rows.map((row, i) =>
    h('label.option', { title: row.summary }, boxes[i], h('span', {}, row.name))));
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const look = () => {
    const full = chosen().length >= most;
    boxes.forEach((box) => { box.disabled = full && !box.checked; });
  };
  element.addEventListener('change', () => { look(); changed(); });
  look();
  return { element, chosen };
};

export const select = (rows, value, first = null) => {
  const element = h('select', {}, first === null ? [] : [h('option', { value: '' }, first)],
    rows.map((row) => h('option', { value: row.name, title: row.summary }, row.name)));
  element.value = value;
  return element;
};

/** A problem of the API with everything that it names. */
export const problemBox = (error) => {
  const told = error.told || {};
  const facts = [['File', told.file], ['Line', told.line], ['Column', told.field], ['Found', told.value], ['Would do', told.accepts]]
    .filter(([, value]) => value !== null && value !== undefined && value !== '');
  const what = told.detail || error.message;
  return h('div.problem', { role: 'alert' }, h('strong', {}, what.charAt(0).toUpperCase() + what.slice(1)),
    facts.length ? h('dl', {}, facts.map(([name, value]) => [h('dt', {}, name), h('dd', {}, String(value))]).flat()) : null);
};
