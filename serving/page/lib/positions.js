// Positions in a log: by topic id and partition the next offset.

/** The sum of a position's offsets. */
export function total(position) {
  return Object.values(position ?? {}).reduce((sum, topic) => sum + Object.values(topic).reduce((one, offset) => one + offset, 0), 0);
}

/** Every partition of any of the positions, with each position's offset in it, null if it has none. */
export function partitions(positions) {
  const found = new Map();
  for (const [name, position] of Object.entries(positions)) {
    for (const [topic, offsets] of Object.entries(position ?? {})) {
      for (const [partition, offset] of Object.entries(offsets)) {
        const place = `${topic}/${partition}`;
        if (!found.has(place)) found.set(place, { topic, partition: Number(partition) });
        found.get(place)[name] = offset;
      }
    }
  }
  return [...found.values()].sort((one, other) => (one.topic < other.topic ? -1 : one.topic > other.topic ? 1 : one.partition - other.partition));
}
