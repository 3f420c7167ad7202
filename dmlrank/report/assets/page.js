"use strict";
(() => {
const page = JSON.parse(document.getElementById("data").textContent);
const MINUS = "\u2212";

// --- numbers ---------------------------------------------------------------------------------------------------------
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const floats = (text) => {
  const view = new DataView(bytes(text).buffer);
  return (place) => view.getFloat32(4 * place, true);
};
const fixed = (value, digits) => {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS);
};
const pText = (p) => (p < 0.0005 ? "< 0.001" : "= " + p.toFixed(3));

class Board {
  constructor(data, names) {
    Object.assign(this, data, { names });
    // Models between which there are tests: the best ones of many.
    this.count = data.pairs ? data.pairs.count : this.names.length;
    if (data.pairs) {
      this.errors = floats(data.pairs.se);
      this.p = floats(data.pairs.p);
      this.bits = bytes(data.pairs.separated);
      // Limits that are not those of one critical value.
      if (data.pairs.low) this.limits = [floats(data.pairs.low), floats(data.pairs.high)];
    }
  }
  // The place of a pair among all pairs.
  place(a, b) {
    const [i, j] = a < b ? [a, b] : [b, a];
    return i * this.count - (i * (i + 1)) / 2 + (j - i - 1);
  }
  // The test of the model at place a (0 is the best) against the model at place b.
  test(a, b) {
    const place = this.place(a, b);
    const difference = this.score[a] - this.score[b];
    const error = this.errors(place), p = this.p(place), half = this.pairs.critical * error;
    let [low, high] = this.limits ? this.limits.map((of) => of(place)) : [difference - half, difference + half];
    if (this.limits && a > b) [low, high] = [-high, -low];
    return {
      difference, error, p, low, high,
      separated: Boolean((this.bits[place >> 3] >> (place & 7)) & 1),
      tested: !Number.isNaN(p) && error > 0,
    };
  }
  // A headline and a sentence with the numbers of a pair, each a list of texts and elements.
  words(a, b) {
    const one = () => isolated(this.names[a]), other = () => isolated(this.names[b]);
    if (a === b) return [[], [one(), ": choose two different models."]];
    const t = this.test(a, b), n = this.digits;
    const gap = "difference " + fixed(t.difference, n);
    if (!t.tested) return [["Not tested."], [one(), " minus ", other(), ": " + gap + "; its standard error is zero."]];
    const [better, worse] = this.sign * t.difference >= 0 ? [one, other] : [other, one];
    const head = t.separated ? [better(), " is shown to be better than ", worse(), "."] : ["Not shown which is better: ", one(), " or ", other(), "."];
    let text = ": " + gap + ", " + this.level + " interval " + fixed(t.low, n) + " to " + fixed(t.high, n) +
      ", p " + pText(t.p) + ". Interval and p hold for all pairs at once.";
    if (this.unit) {
      const wins = (gap) => (100 / (1 + Math.exp(-gap / this.unit))).toFixed(0);
      text += " This is " + wins(t.difference) + " wins in 100 comparisons of the two (" + wins(t.low) + " to " + wins(t.high) + ").";
    }
    if (t.separated && t.low <= 0 && t.high >= 0) text += " The interval contains zero; ranks use tests in several steps, which show a little more.";
    if (!t.separated) text += " This does not show that they are equal.";
    const others = [...this.names.keys()].slice(0, this.count).filter((place) => place !== a).map((place) => this.test(a, place));
    const shown = (sign) => others.filter((of) => of.separated && sign * this.sign * of.difference > 0).length;
    text += " Of " + others.length + " others, " + shown(1) + " are shown to be worse than ";
    return [head, [one(), " minus ", other(), text, one(), " and " + shown(-1) + " to be better."]];
  }
}

// A name that may be read from right to left, which must not turn the sentence around it.
const isolated = (name) => {
  const element = document.createElement("bdi");
  element.textContent = name;
  return element;
};
const say = (target, [head, text]) => {
  const strong = document.createElement("b");
  strong.append(...head);
  target.replaceChildren(...(head.length ? [strong] : []), ...text);
};

// --- files -----------------------------------------------------------------------------------------------------------
// The rule of dmlrank/tables/display_text.py: an apostrophe precedes a name that a spreadsheet would run as a formula.
const formula = /^'*[=+\-@\t\r\n\uff0b\uff1d\uff20\uff0d]/;
const formulaWithin = /(?<=[\r\n\v\f\x1c-\x1e\x85\u2028\u2029\t;])'*[=+\-@\uff0b\uff1d\uff20\uff0d]/g;
const number = /^\s*[+-]?((\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[+-]?\d+)?|inf(inity)?|nan)\s*$/i;
const notAFormula = (name) => {
  const text = name.replace(formulaWithin, "'$&");
  return formula.test(text) && text.length > 1 && !number.test(text) ? "'" + text : text;
};
const quoted = (value) => {
  const text = value === null || value === undefined || Number.isNaN(value) ? "" : notAFormula(String(value));
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};
const csv = (rows) => {
  const heads = Object.keys(rows[0]);
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
};
const tableRows = (board) => board.names.map((name, i) => {
  const row = board.ofModels ? { rank: 1 + board.score.filter((s) => s > board.score[i]).length } : {};
  if (board.best) Object.assign(row, { rank_low: board.best[i], rank_high: board.worst[i] });
  Object.assign(row, { [board.ofModels ? "model" : "output"]: name, score: board.score[i] });
  if (board.se) Object.assign(row, { std_error: board.se[i], conf_low: board.low[i], conf_high: board.high[i] });
  if (board.share) row.win_share = board.share[i];
  if (board.votes) Object.assign(row, { votes: board.votes[i], all_votes: board.allVotes[i] });
  return row;
});
const short = (x) => (Number.isNaN(x) ? null : Number(x.toPrecision(7)));
const pairRows = (board) => {
  const rows = [];
  for (let a = 0; a < board.count; a++) for (let b = a + 1; b < board.count; b++) {
    const t = board.test(a, b);
    rows.push({
      first: board.names[a], second: board.names[b], estimate: short(t.difference), std_error: short(t.error),
      conf_low: t.tested ? short(t.low) : null, conf_high: t.tested ? short(t.high) : null,
      p_adjusted: short(t.p), separated: t.separated,
    });
  }
  return rows;
};
// The covariance of two scores follows from their standard errors and that of their difference.
const covariance = (board) => board.covariance || board.se.slice(0, board.count).map((_, a) => board.se.slice(0, board.count).map((_, b) => {
  const product = board.se[a] ** 2 + board.se[b] ** 2;
  return Number((a === b ? product / 2 : (product - board.errors(board.place(a, b)) ** 2) / 2).toPrecision(9));
}));
const asJson = (board) => JSON.stringify({
  title: page.title, leaderboard: board.name, ...board.about, ...(board.method ? { method: board.method } : {}),
  names: board.names, scores: board.score, ...(board.se ? { std_errors: board.se, covariance: covariance(board) } : {}),
  table: tableRows(board),
  ...(board.pairs ? { critical_of_pairs: board.pairs.critical, pairs: pairRows(board) } : {}),
}) + "\n";
const contents = {
  table: (board) => ["csv", "text/csv", csv(tableRows(board))],
  pairs: (board) => ["pairs.csv", "text/csv", csv(pairRows(board))],
  json: (board) => ["json", "application/json", asJson(board)],
};
const save = (board, kind) => {
  const [ending, type, text] = contents[kind](board);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: type + ";charset=utf-8" }));
  const stem = (page.boards.length > 1 ? "leaderboard-" + board.name : "leaderboard").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  link.download = stem + "." + ending;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  return link.download;
};

// --- the table -------------------------------------------------------------------------------------------------------
const sortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...[...head.childNodes].filter((part) => !(part.classList && part.classList.contains("tip"))));
    head.prepend(button);
    const key = (row) => row.cells[place].dataset.sort || row.cells[place].textContent.trim().replace(/^\u2013/, "");
    button.addEventListener("click", () => {
      const sorted = head.getAttribute("aria-sort");
      const up = sorted ? sorted === "descending" : head.dataset.first === "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (a, b) => (up ? 1 : -1) * (Number.isNaN(a - b) ? a.localeCompare(b) : a - b);
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      // Empty cells stand last.
      rows.sort(([a], [b]) => (a && b ? compare(a, b) : Number(!a) - Number(!b)));
      table.tBodies[0].append(...rows.map((pair) => pair[1]));
    });
  });
};
const filterRows = (panel, status) => {
  const input = panel.querySelector(".filter"), makers = [...panel.querySelectorAll("button.maker")];
  const table = panel.querySelector("table.board"), isCut = table.classList.contains("cut"), all = panel.querySelector(".all");
  const update = () => {
    const wanted = input.value.trim().toLocaleLowerCase(), rows = [...table.tBodies[0].rows];
    const chosen = makers.filter((button) => button.getAttribute("aria-pressed") === "true").map((button) => button.textContent);
    for (const row of rows) {
      const maker = row.querySelector("th small");
      row.hidden = !row.querySelector("th").textContent.toLocaleLowerCase().includes(wanted) ||
        (chosen.length > 0 && !(maker && chosen.includes(maker.textContent)));
    }
    const isAll = !wanted && !chosen.length;
    if (isCut && !all.hidden) table.classList.toggle("cut", isAll);
    status.textContent = isAll ? "" : rows.filter((row) => !row.hidden).length + " of " + rows.length + " shown";
  };
  input.addEventListener("input", update);
  for (const button of makers) button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    update();
  });
  if (all) all.addEventListener("click", () => { table.classList.remove("cut"); all.hidden = true; });
};

// --- pairs -----------------------------------------------------------------------------------------------------------
const picker = (panel, board) => {
  const form = panel.querySelector(".picker"), answer = panel.querySelector(".answer");
  const selects = [form.elements.first, form.elements.second];
  selects.forEach((select, which) => {
    select.append(...board.names.slice(0, board.count).map((name, place) => new Option(place + 1 + ". " + name, String(place))));
    select.selectedIndex = which;
  });
  const update = () => say(answer, board.words(selects[0].selectedIndex, selects[1].selectedIndex));
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector(".swap").addEventListener("click", () => {
    [selects[0].selectedIndex, selects[1].selectedIndex] = [selects[1].selectedIndex, selects[0].selectedIndex];
    update();
  });
  update();
};
// --- tabs ------------------------------------------------------------------------------------------------------------
const tabs = (list) => {
  const buttons = [...list.querySelectorAll("button")];
  const select = (chosen, focus) => {
    for (const button of buttons) {
      const on = button === chosen;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      document.getElementById(button.dataset.panel).hidden = !on;
    }
    if (focus) chosen.focus();
  };
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Leaderboards");
  buttons.forEach((button, place) => {
    const panel = document.getElementById(button.dataset.panel);
    button.setAttribute("role", "tab");
    button.id = "tab-" + button.dataset.panel;
    button.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.removeAttribute("aria-label");
    panel.setAttribute("aria-labelledby", button.id);
    button.addEventListener("click", () => select(button, false));
    button.addEventListener("keydown", (event) => {
      const last = buttons.length - 1;
      const target = { ArrowRight: place === last ? 0 : place + 1, ArrowLeft: place === 0 ? last : place - 1, Home: 0, End: last }[event.key];
      if (target === undefined) return;
      event.preventDefault();
      select(buttons[target], true);
    });
  });
  list.hidden = false;
  // A link to a part of a leaderboard opens its tab.
  const opened = () => {
    const part = document.getElementById(location.hash.slice(1));
    const button = part && buttons.find((one) => document.getElementById(one.dataset.panel).contains(part));
    select(button || buttons[0], false);
    if (button) part.scrollIntoView();
  };
  addEventListener("hashchange", opened);
  opened();
};

// --- start -----------------------------------------------------------------------------------------------------------
document.querySelectorAll("table.sortable").forEach(sortable);
for (const panel of document.querySelectorAll("[data-board]")) {
  const names = [...panel.querySelectorAll(".leaders tbody th bdi")].map((name) => name.textContent);
  const board = new Board(page.boards[Number(panel.dataset.board)], names);
  panel.querySelectorAll(".scripted, .tools").forEach((part) => { part.hidden = false; });
  const [found, saved] = panel.querySelectorAll(".note[role=status]");
  filterRows(panel, found);
  panel.querySelectorAll("[data-download]").forEach((button) => button.addEventListener("click", () => {
    saved.textContent = "Saved " + save(board, button.dataset.download);
  }));
  if (board.pairs) picker(panel, board);
}
// What is folded on the screen is printed.
addEventListener("beforeprint", () => document.querySelectorAll(".panel details").forEach((part) => { part.open = true; }));
const list = document.querySelector(".tabs");
if (list) tabs(list);
})();
