// Runs the statements of SQL that standard input has as a list in JSON, and prints the rows of each.
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const db = await (await DuckDBInstance.create(':memory:')).connect();
const answers = [];
for (const statement of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    answers.push((await db.runAndReadAll(statement)).getRowsJson());
  } catch (err) {
    console.error(`${statement}: ${err}`);
    process.exit(1);
  }
}
console.log(JSON.stringify(answers));
