// The members of one JSON object as they are written: digits, order and unknown members stay as they are.

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** `[key, text of the value]` of each member; null unless the text is one JSON object. */
export function members(text) {
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  } catch {
    return null;
  }
  const found = [];
  let [depth, key, begins] = [0, null, null];
  for (const { 0: token, index } of text.matchAll(TOKENS)) {
    if (depth === 1 && key !== null && (token === "," || token === "}")) {
      found.push([key, text.slice(begins, index).trim()]);
      key = null;
    } else if (depth === 1 && key === null && token.startsWith('"')) {
      key = JSON.parse(token);
    } else if (depth === 1 && token === ":") {
      begins = index + 1;
    }
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  }
  return found;
}

/** The text of an object with these members. */
export function written(pairs) {
  return pairs.length ? `{\n${pairs.map(([key, text]) => `  ${JSON.stringify(key)}: ${text}`).join(",\n")}\n}` : "{}";
}

/** The members with another value of a key, which is added at its end; without the key if the value's text is null. */
export function changed(pairs, key, text) {
  if (text === null) return pairs.filter(([name]) => name !== key);
  return pairs.some(([name]) => name === key) ? pairs.map(([name, was]) => [name, name === key ? text : was]) : [...pairs, [key, text]];
}
