"""The page's style sheet. Each tone, t0 to t11, has a form for light and one for dark."""

_DARK = """
  --back: #12161c; --card: #1a2029; --text: #e6eaf0; --soft: #9aa7b6; --line: #2e3743; --best: #163a26;
  --best-text: #8fe0ac; --accent: #7db4f2; --free: #212934; --down: #59626e; --low: #1d2a3a; --high: #8cc0ff;
  --t0: #69a8ec; --t1: #f5924a; --t2: #4fc08f; --t3: #f0708a; --t4: #b48ee6; --t5: #c79d6b; --t6: #ee92cf;
  --t7: #6fd0dc; --t8: #d2cb4d; --t9: #a2aebb; --t10: #ffd04a; --t11: #a9cbf2;
"""

CSS = """
:root {
  color-scheme: light dark; --radius: 12px;
  --back: #f6f7f9; --card: #ffffff; --text: #1c2430; --soft: #5a6675; --line: #dde2e8; --best: #dff2e4;
  --best-text: #14602d; --accent: #1f5fa8; --free: #eef1f4; --down: #3b3f46; --low: #eaf1fa; --high: #123f78;
  --t0: #1f6fc0; --t1: #e06c12; --t2: #16875b; --t3: #c22f4e; --t4: #7d4fb3; --t5: #8a6336; --t6: #cf5fa8;
  --t7: #2f9fae; --t8: #9a9412; --t9: #66727f; --t10: #e3aa00; --t11: #79a9e0;
}
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { DARK } }
:root[data-theme="dark"] { color-scheme: dark; DARK }
:root[data-theme="light"] { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 1.75rem; line-height: 1.2; letter-spacing: -.015em; margin: 0 0 10px; overflow-wrap: anywhere;
  text-wrap: balance; }
h2 { font-size: 1.08rem; line-height: 1.3; letter-spacing: -.005em; margin: 0 0 4px; overflow-wrap: anywhere; }
dl.facts { display: flex; flex-wrap: wrap; gap: 6px 32px; margin: 0 0 18px; }
dl.facts div { min-width: 0; }
dl.facts dt { color: var(--soft); font-size: .78rem; }
dl.facts dd { margin: 0; font-size: .94rem; overflow-wrap: anywhere; }
dl.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 1px; margin: 0 0 16px;
  background: var(--line); border: 1px solid var(--line); border-radius: var(--radius); overflow: hidden; }
.tile { background: var(--card); padding: 14px 16px 12px; min-width: 0; }
.tile dt { color: var(--soft); font-size: .8rem; }
.tile dd { margin: 2px 0 0; font-size: 1.45rem; line-height: 1.2; font-weight: 650; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.tile dd.note { font-size: .8rem; line-height: 1.35; font-weight: 400; letter-spacing: 0; color: var(--soft); }
.short ul { margin: 4px 0 0; padding-left: 1.15em; }
.short li { margin: 3px 0; text-wrap: pretty; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: var(--radius); padding: 16px 18px;
  margin: 0 0 16px; min-width: 0; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 16px; align-items: stretch; }
.charts .wide { grid-column: 1 / -1; }
.charts > .card { display: flex; flex-direction: column; }
.charts > .card > figure, .charts [role="tabpanel"]:not([hidden]), .charts [role="tabpanel"] > figure { flex: 1;
  display: flex; flex-direction: column; }
figure { margin: 0; }
figcaption { color: var(--soft); font-size: .9rem; margin: 0 0 8px; overflow-wrap: anywhere; flex: 1; text-wrap: pretty; }
.save { display: flex; justify-content: flex-end; gap: 4px; margin: 4px -6px -8px 0; }
.save button { font: inherit; font-size: .74rem; letter-spacing: .03em; color: var(--soft); background: transparent;
  border: 0; border-radius: 6px; padding: 4px 8px; min-height: 26px; cursor: pointer; }
.save button:hover { color: var(--text); background: var(--free); }
.save button:focus-visible { outline: 2px solid var(--accent); outline-offset: 0; }
.save button:disabled { opacity: .5; cursor: progress; }
.plot { width: 100%; height: 340px; }
.wide .plot { height: 500px; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .82rem; }
th, td { padding: 6px 5px; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
tbody th, thead th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
tbody th { font-weight: 600; max-width: 15rem; overflow: hidden; text-overflow: ellipsis; }
tbody tr:last-child > * { border-bottom: 0; }
td.best { background: var(--best); color: var(--best-text); font-weight: 600; }
td small { display: block; color: var(--soft); font-weight: 400; }
.swatch { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .45em; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0; margin: 4px 0 0;
  font-size: .85rem; color: var(--soft); }
ul.legend li { overflow-wrap: anywhere; }
.tabs { display: flex; flex-wrap: wrap; gap: 6px; margin: 6px 0 8px; }
.tabs button { font: inherit; font-size: .88rem; color: var(--text); background: transparent; cursor: pointer;
  border: 1px solid var(--line); border-radius: 999px; padding: 3px 12px; max-width: 100%; overflow-wrap:
  anywhere; }
.tabs button[aria-selected="true"] { background: var(--accent); border-color: var(--accent); color: var(--card); }
.tabs button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
[hidden] { display: none; }
details { font-size: .9rem; color: var(--soft); }
details table { font-size: .85rem; }
footer { color: var(--soft); font-size: .85rem; padding-bottom: 28px; }
@media (max-width: 860px) {
  .charts { grid-template-columns: minmax(0, 1fr); }
  main, header, footer { padding-left: 12px; padding-right: 12px; }
  .card { padding: 12px; border-radius: 8px; }
  h1 { font-size: 1.35rem; }
  dl.tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tile { padding: 10px 12px; }
  .tile:last-child:nth-child(odd) { grid-column: span 2; }
  .tile dd { font-size: 1.2rem; }
  .wide .plot { height: 420px; }
  .save button { padding: 8px 12px; min-height: 36px; }
}
/* the script sets it before the browser prints: charts must have the paper's width when they are drawn */
.printing { width: 186mm; margin: 0; background: none; }
.printing .charts { grid-template-columns: minmax(0, 1fr); }
.printing main, .printing header, .printing footer { padding: 0; max-width: none; }
.printing .plot { height: 300px; }
.printing table { font-size: .5rem; }
.printing th, .printing td { padding: 3px 2px; }
.printing tbody th { max-width: 6rem; }
@media print {
  @page { margin: 12mm; }
  body { background: none; }
  .card, .tile { break-inside: avoid; }
  .save, details, .tabs button[aria-selected="false"] { display: none; }
  .tabs button[aria-selected="true"] { background: none; color: var(--soft); border: 0; padding: 0; }
  .scroll { overflow: visible; }
}
""".replace("DARK", _DARK)
