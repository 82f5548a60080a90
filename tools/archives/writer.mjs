// Fetches the URLs on standard input and writes what they answer into a WARC file with warcio, as it
// is used by programs that archive from browsers: of each URL a response with its request, and once
// more a revisit of it under another URL.
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { WARCRecord, WARCSerializer } from "warcio";

const out = createWriteStream(process.argv[2]);
const version = { warcVersion: "WARC/1.1" };
const write = async (record) => out.write(await WARCSerializer.serialize(record, { gzip: true, digest: { algo: "sha-1", prefix: "sha1:", base32: true } }));
await write(await WARCRecord.createWARCInfo({ filename: "writer.warc.gz", ...version }, { software: "warcio.js" }));
for await (const url of createInterface({ input: process.stdin })) {
  const answer = await fetch(url, { redirect: "manual" });
  const body = new Uint8Array(await answer.arrayBuffer());
  const date = new Date().toISOString();
  const heads = { statusline: `HTTP/1.1 ${answer.status} ${answer.statusText}`, httpHeaders: Object.fromEntries(answer.headers) };
  const response = WARCRecord.create({ url, date, type: "response", ...heads, ...version }, (async function* () { yield body; })());
  await write(response);
  await write(WARCRecord.create({
    url, date, type: "request", statusline: "GET / HTTP/1.1", httpHeaders: { Host: new URL(url).host }, ...version,
    warcHeaders: { "WARC-Concurrent-To": response.warcHeaders.headers.get("WARC-Record-ID") },
  }, (async function* () {})()));
  if (answer.status !== 200) continue;
  await write(WARCRecord.create({
    url: url + (url.includes("?") ? "&" : "?") + "again", date, type: "revisit", refersToUrl: url, refersToDate: date, ...heads, ...version,
    warcHeaders: { "WARC-Payload-Digest": response.warcHeaders.headers.get("WARC-Payload-Digest") },
  }, (async function* () {})()));
}
out.end();
