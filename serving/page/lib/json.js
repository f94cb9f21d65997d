// JSON whose integers keep all their digits: those beyond 2^53 become BigInts, as the server writes integers of any size.

const LONG = /\d{16}/;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d{16,}$/;
const MARK = "\u0000integer:";

/** The value of a JSON text. Throws SyntaxError. */
export function parse(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKENS, (token) => (INTEGER.test(token) ? `"\\u0000integer:${token}"` : token));
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? integer(value.slice(MARK.length)) : value,
  );
}

function integer(digits) {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}
