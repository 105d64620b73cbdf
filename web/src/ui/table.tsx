// One kind of table for all pages: sorted by its heads, copied as CSV, JSON or the command that prints the same.

import type { ComponentChildren } from "preact";
import { toCsv, type Value } from "../logic/export";
import { setQuery } from "../state/route";
import { t } from "../text";
import { CopyMenu } from "./basics";

export interface Column<Row> {
  id: string;
  head: string;
  /** Sorted, copied and shown as it is where there is no `cell`. */
  value: (row: Row) => Value;
  cell?: (row: Row) => ComponentChildren;
  numeric?: boolean;
  /** Left out where the page is narrower than this. */
  from?: "medium" | "wide" | "wider" | "huge";
  /** This cell names the row. */
  header?: boolean;
}

export interface TableProps<Row> {
  name: string;
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  /** The value of the URL's parameter: `-used` sorts downward. */
  sort?: string | null;
  sortParameter?: string;
  /** Rows below the others that are not sorted: sums. */
  foot?: ComponentChildren;
  rowClass?: (row: Row) => string;
}

export function sorted<Row>(rows: Row[], columns: Column<Row>[], sort: string | null | undefined): Row[] {
  if (!sort) return rows;
  const down = sort.startsWith("-");
  const column = columns.find((candidate) => candidate.id === sort.replace(/^-/, ""));
  if (!column) return rows;
  const compare = (left: Value, right: Value): number => {
    if (typeof left === "number" && typeof right === "number") return left - right;
    return String(left).localeCompare(String(right), undefined, { numeric: true });
  };
  return [...rows].sort((left, right) => {
    const a = column.value(left), b = column.value(right);
    // What is not known stays below, whichever way the rest is sorted.
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined) return -1;
    return down ? compare(b, a) : compare(a, b);
  });
}

export function tableCsv<Row>(columns: Column<Row>[], rows: Row[]): string {
  return toCsv(columns.map((column) => column.id), rows.map((row) => columns.map((column) => column.value(row))));
}

export function TableCopy<Row>({ name, columns, rows, cli }: { name: string; columns: Column<Row>[]; rows: Row[]; cli: string }) {
  return <CopyMenu name={name} csv={() => tableCsv(columns, rows)} json={() => rows} cli={cli} />;
}

export function DataTable<Row>(props: TableProps<Row>) {
  const { columns, sort } = props;
  const parameter = props.sortParameter ?? "sort";
  const shown = sorted(props.rows, columns, sort);
  const classes = (column: Column<Row>) => `${column.numeric ? "number" : ""} ${column.from ? `from-${column.from}` : ""}`.trim() || undefined;
  return (
    <div class="table-scroll" role="region" aria-label={props.caption} tabIndex={0}>
      <table data-name={props.name}>
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => {
              const up = sort === column.id, down = sort === `-${column.id}`;
              // Numbers are first wanted from the largest down, names from A.
              const next = column.numeric ? (down ? column.id : `-${column.id}`) : up ? `-${column.id}` : column.id;
              return (
                <th key={column.id} scope="col" class={classes(column)} aria-sort={up ? "ascending" : down ? "descending" : undefined}>
                  {sort === undefined || column.head === "" ? column.head : (
                    <button type="button" onClick={() => setQuery({ [parameter]: next })} title={t("table.sort")}>
                      {column.head}<span aria-hidden="true" class="arrow">{up ? "▲" : down ? "▼" : ""}</span>
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={props.keyOf(row)} class={props.rowClass?.(row)}>
              {columns.map((column) => {
                const content = column.cell ? column.cell(row) : column.value(row) ?? "";
                return column.header
                  ? <th key={column.id} scope="row" class={classes(column)}>{content}</th>
                  : <td key={column.id} class={classes(column)}>{content}</td>;
              })}
            </tr>
          ))}
        </tbody>
        {props.foot && <tfoot>{props.foot}</tfoot>}
      </table>
    </div>
  );
}
