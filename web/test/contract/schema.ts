// As much of JSON Schema (draft 7) as share/ration/schema uses. Stricter in one thing: a field that a schema does not name is a fault.

export interface Schema {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  allOf?: Schema[];
  if?: Schema;
  then?: Schema;
}

function typeOf(value: unknown): string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (typeof value === "number") return Number.isInteger(value) ? ["integer", "number"] : ["number"];
  return [typeof value];
}

/** What is wrong, each with its place. `strict`: fields that are not named count. */
export function faults(schema: Schema, value: unknown, place = "data", strict = true): string[] {
  const found: string[] = [];
  const say = (what: string) => found.push(`${place} ${what}`);
  if (schema.type !== undefined && !typeOf(value).some((type) => [schema.type].flat().includes(type))) say(`is ${JSON.stringify(value)}, no ${[schema.type].flat().join(" or ")}`);
  if (schema.enum && !schema.enum.includes(value)) say(`is ${JSON.stringify(value)}, none of ${schema.enum.join(" ")}`);
  if ("const" in schema && schema.const !== value) say(`is not ${JSON.stringify(schema.const)}`);
  if (typeof value === "string" && schema.pattern && !new RegExp(schema.pattern).test(value)) say(`is ${value}, not like ${schema.pattern}`);
  if (typeof value === "number" && (value < (schema.minimum ?? -Infinity) || value > (schema.maximum ?? Infinity))) say(`is ${value}: out of range`);
  if (Array.isArray(value) && schema.items) value.forEach((one, index) => found.push(...faults(schema.items as Schema, one, `${place}[${index}]`, strict)));
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    const fields = value as Record<string, unknown>;
    for (const name of schema.required ?? []) if (fields[name] === undefined) say(`has no ${name}`);
    for (const [name, field] of Object.entries(fields)) {
      const known = schema.properties?.[name] ?? Object.entries(schema.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(name))?.[1];
      if (known && field !== undefined) found.push(...faults(known, field, `${place}.${name}`, strict));
      else if (!known && strict && schema.properties) say(`has ${name}, of which the schema knows nothing`);
    }
  }
  if (schema.oneOf) {
    const tried = schema.oneOf.map((one) => faults(one, value, place, strict));
    if (!tried.some((one) => one.length === 0)) found.push(...(tried.sort((left, right) => left.length - right.length)[0] ?? []));
  }
  for (const part of schema.allOf ?? []) {
    if (part.if && faults(part.if, value, place, false).length > 0) continue;
    found.push(...faults(part.then ?? part, value, place, false));
  }
  return found;
}
