// For clients of node on a machine whose resolver does not know names below localhost:
// NODE_OPTIONS="--require …/localhost.cjs". Browsers and curl know them by themselves.
const dns = require('dns');
const lookup = dns.lookup;
dns.lookup = (name, options, done) => {
  const known = /(^|\.)localhost\.?$/i.test(name);
  return known ? lookup('127.0.0.1', options, done) : lookup(name, options, done);
};
