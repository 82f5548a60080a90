// Reads a WARC file with warcio and computes all digests anew. It prints the number of records of
// each type; the exit status is 1 if a digest is wrong or missing. An answer with a body has that
// of its body alone.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { WARCParser } from "warcio";

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

function digest(bytes) {
  let bits = "";
  for (const b of createHash("sha1").update(bytes).digest()) bits += b.toString(2).padStart(8, "0");
  return "sha1:" + bits.match(/.{5}/g).map((five) => letters[parseInt(five, 2)]).join("");
}

const types = {};
let wrong = 0;
for await (const record of new WARCParser(createReadStream(process.argv[2]), { parseHttp: false })) {
  const block = await record.readFully(false);
  types[record.warcType] = (types[record.warcType] || 0) + 1;
  const said = (name) => record.warcHeaders.headers.get(`WARC-${name}-Digest`);
  const check = (name, bytes) => {
    if (said(name) === digest(bytes)) return;
    console.error("wrong digest", name, record.warcType, record.warcTargetURI);
    wrong++;
  };
  const body = record.warcType === "response" ? block.subarray(Buffer.from(block).indexOf("\r\n\r\n") + 4) : null;
  if (body) check("Payload", body);
  if (!body?.length || said("Block")) check("Block", block);
}
console.log(Object.keys(types).sort().map((type) => `${type} ${types[type]}`).join("\n"));
process.exit(wrong ? 1 : 0);
