// Runs a generated access function over cases: {source, name, now, cases: [[doc, oldDoc, user, backend], ...]} on stdin,
// one line of JSON out: for each case null where it was allowed, else what was thrown.
import {readFileSync} from "node:fs";

const {source, name, now, cases} = JSON.parse(readFileSync(0, "utf8"));
const access = new Function(`${source}\nreturn ${name};`)();
Date.now = () => now;
const verdicts = cases.map(([doc, oldDoc, user]) => {
  const ctx = {
    requireBackend(handler) {
      if (!user || user.backend !== handler) throw {forbidden: `only the handler ${handler} writes this`};
    },
  };
  try {
    const out = access(doc, oldDoc, user, ctx);
    return JSON.stringify(out.channels) === JSON.stringify([out.channels[0]]) ? null : "no channel";
  } catch (thrown) {
    return thrown.forbidden ?? `broke: ${thrown}`;
  }
});
process.stdout.write(JSON.stringify(verdicts));
