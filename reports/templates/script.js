// Tables with class "sort" are sorted by a click on a column's head; the page does without. Cells without a number stay last.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  const value = (cell) => {
    const text = cell ? cell.dataset.value || cell.textContent.trim() : "";
    const number = cell && cell.tagName === "TD" && text.match(/^[~+\u2212-]?\d[\d,]*(\.\d+)?/);
    return number ? Number(number[0].replace(/[~+,]/g, "").replace("\u2212", "-")) : text;
  };
  [...table.tHead.rows[table.tHead.rows.length - 1].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (one, other) => {
        const [a, b] = [value(one.cells[place]), value(other.cells[place])];
        const numbers = [a, b].filter((each) => typeof each === "number").length;
        if (numbers === 1) return typeof a === "number" ? -1 : 1;
        return (up ? 1 : -1) * (numbers ? a - b : a.localeCompare(b));
      };
      [...body.rows].sort(order).forEach((row) => body.append(row));
    });
  });
}

// A click copies the text; without a clipboard it is selected, ready to be copied.
for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", (event) => {
    const text = button.dataset.copy, done = () => (button.textContent = "copied");
    event.preventDefault();
    if (navigator.clipboard) return navigator.clipboard.writeText(text).then(done);
    const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
    button.after(field);
    field.select();
    if (document.execCommand("copy")) field.remove(), done();
  });

// The search box: titles and other words first, then what is said of an entry. Each word must begin a word of the entry.
for (const box of document.querySelectorAll(".search")) {
  const input = box.querySelector("input"), list = box.querySelector("ol"), up = box.dataset.up;
  const plain = (text) => ` ${text.toLowerCase().normalize("NFKD").replace(/isation/g, "ization").replace(/[^a-z0-9]+/g, " ").trim()}`;
  const stem = (word) => (word.length > 6 ? word.replace(/ing$/, "") : word).replace(/(..)s$/, "$1");
  const rank = (one, asked, words) => {
    const title = plain(one.title), also = one.words.map(plain), says = plain(one.says);
    if (!words.every((word) => [title, ...also, says].some((text) => text.includes(` ${word}`)))) return -1;
    if (also.includes(asked)) return 5;
    if (title === asked || also.some((text) => text.startsWith(asked))) return 4;
    return title.startsWith(asked) ? 3 : [title, ...also].some((text) => text.includes(asked)) ? 2 : says.includes(asked) ? 1 : 0;
  };
  const search = () => {
    const words = plain(input.value).split(" ").filter(Boolean).map(stem), asked = ` ${words.join(" ")}`;
    const found = words.length ? window.searched.map((one) => [rank(one, asked, words), one]).filter(([how]) => how >= 0) : [];
    found.sort(([a], [b]) => b - a);
    list.replaceChildren(...found.slice(0, 8).map(([, one]) => {
      const [item, link, kind, says] = ["li", "a", "small", "span"].map((name) => document.createElement(name));
      link.href = up + one.to;
      link.textContent = one.title;
      kind.textContent = one.kind;
      says.textContent = one.says;
      item.append(link, kind, says);
      return item;
    }));
    if (words.length && !found.length) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing has these words." }));
  };
  const load = () => {
    if (window.searched) return search();
    const source = Object.assign(document.createElement("script"), { src: `${up}search.js`, onload: search });
    source.addEventListener("error", () => (box.hidden = true));
    document.head.append(source);
  };
  input.addEventListener("input", load);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
    if (event.key === "Escape") { input.value = ""; search(); }
  });
  list.addEventListener("click", () => { input.value = ""; search(); });
  box.hidden = false;
}
