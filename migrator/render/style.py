"""The look of the HTML report: light and dark, wide and narrow, on screen and on paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --ground: #ffffff; --card: #f4f6f8; --line: #d5dbe1;
  --track: #e4e8ec; --migrate: #1f6feb; --refused: #c62f3b; --skipped: #8a6100; --done: #1a7f37; --gpu: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --dim: #9aa5b1; --ground: #0e1116; --card: #171c23; --line: #303841;
    --track: #232a33; --migrate: #58a6ff; --refused: #ff7b72; --skipped: #d8a83c; --done: #56c36b; --gpu: #bc8cff; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 64rem; padding: 1.2rem 1rem 3rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: clamp(1.25rem, 4.5vw, 1.7rem); line-height: 1.3; margin: 0 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .4rem 0; } .dim { color: var(--dim); } .small { font-size: .875rem; }
ul { margin: .3rem 0; padding-left: 1.1rem; }
code, pre { font: .86em/1.45 ui-monospace, monospace; } pre { white-space: pre-wrap; margin: .5rem 0 0; }
.track { display: block; background: var(--track); border-radius: .2rem; overflow: hidden; height: .7rem;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.track i { display: block; height: 100%; background: var(--migrate); }
.track i:not([style$=":0.0%"]) { min-width: 3px; }
.track i.refused, .key.refused { background: var(--refused); }
.track i.skipped, .key.skipped { background: var(--skipped); }
.track i.done, .key.done { background: var(--done); }
.track i.gpu, .key.gpu { background: var(--gpu); }
.track.thin { height: .35rem; margin-top: .2rem; }
.key { display: inline-block; width: .75em; height: .75em; border-radius: .2em; background: var(--migrate);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
.stakes { margin: 1.1rem 0; } .stakes div { margin: .7rem 0; } .stakes .track { height: 1.4rem; }
.stakes b { font-variant-numeric: tabular-nums; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem; margin: 1rem 0;
  padding: 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; }
.tiles dt { color: var(--dim); font-size: .85rem; } .tiles dd { margin: 0; font-size: 1.4rem; font-weight: 600; }
.bars { list-style: none; margin: .6rem 0; padding: 0; }
.bars li { display: grid; grid-template-columns: minmax(9rem, 1fr) minmax(0, 1.2fr) 4.5rem 5.5rem; gap: .1rem .8rem;
  align-items: center; padding: .3rem 0; border-bottom: 1px solid var(--line); break-inside: avoid; }
.name { display: inline-block; } .hash { white-space: nowrap; }
.amount { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.card { background: var(--card); border: 1px solid var(--line); border-left: .35rem solid var(--migrate);
  border-radius: .4rem; padding: .6rem .9rem; margin: .6rem 0; }
.card.refused { border-left-color: var(--refused); } .card.skipped { border-left-color: var(--skipped); }
.card.done { border-left-color: var(--done); }
.card summary { cursor: pointer; } .card summary h3, .card summary .dim { display: inline; }
.refused .code { color: var(--refused); } .skipped .code { color: var(--skipped); } .code { font-weight: 700; }
.do::before { content: "→ "; } .do { font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 500; font-size: .85rem; }
tr { break-inside: avoid; }
@media (max-width: 42rem) {
  .bars li { grid-template-columns: 1fr auto auto; }
  .bars .bar { grid-column: 1 / -1; grid-row: 2; }
  .bars .name { display: inline-block; } .hash { white-space: nowrap; }
.amount { font-size: .875rem; }
  thead { display: none; } tr { display: block; padding: .35rem 0; border-bottom: 1px solid var(--line); }
  td { display: block; border: 0; padding: 0; } td[data-is]::before { content: attr(data-is) " "; color: var(--dim); }
}
@media print {
  :root { --ink: #000000; --dim: #444444; --ground: #ffffff; --card: #ffffff; --line: #c8c8c8; --track: #eeeeee;
    --migrate: #1f6feb; --refused: #c62f3b; --skipped: #8a6100; --done: #1a7f37; --gpu: #8250df; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
